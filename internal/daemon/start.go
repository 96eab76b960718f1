package daemon

import (
	"path/filepath"

	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/privilege"
)

// Start is New after the process has given up what a daemon does not need, for which
// it may execute itself again: call it before anything else has been done.
func Start(p Params) (*Daemon, error) {
	cfg, err := Validate(p.Load)
	if err != nil {
		return nil, err
	}
	err = privilege.Settle(privilege.Spec{User: cfg.User, Group: cfg.Group}, func(uid, gid int) error {
		return prepare(cfg, uid, gid)
	})
	if err != nil {
		return nil, err
	}
	return newDaemon(p, cfg)
}

// Validate reads the configuration and checks what New would, without privileges.
func Validate(load func() (*config.Config, error)) (*config.Config, error) {
	cfg, err := load()
	if err != nil {
		return nil, err
	}
	return cfg, new(policy).set(cfg)
}

// prepare makes what the daemon's user may not make itself.
func prepare(cfg *config.Config, uid, gid int) error {
	if err := prepareDir(cfg.RuntimeDir, uid, gid); err != nil {
		return err
	}
	for _, name := range cfg.Names() {
		if dir := cfg.Options(name).PinDir; dir != "" {
			return preparePins(filepath.Dir(dir), uid, gid)
		}
	}
	return nil
}
