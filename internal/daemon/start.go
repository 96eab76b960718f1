package daemon

import (
	"errors"
	"path/filepath"

	"github.com/roce-xdp/roce-xdp/datapath"
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
	var made []string
	err = privilege.Settle(privilege.Spec{User: cfg.User, Group: cfg.Group}, func(uid, gid int) (err error) {
		if made, err = prepare(cfg, uid, gid); err != nil {
			return err
		}
		return keepMade(made)
	})
	if err == nil { // if the program has executed again, what it had made before
		made = takeMade()
	}
	var d *Daemon
	if err == nil {
		d, err = newDaemon(p, cfg)
	}
	if err != nil {
		return nil, errors.Join(err, undoMade(cfg.RuntimeDir, made))
	}
	d.made = made
	return d, nil
}

// undoMade removes directories that were made for a start that has failed, unless another
// daemon uses the runtime directory by now.
func undoMade(path string, made []string) error {
	if len(made) == 0 {
		return nil
	}
	d, err := openRunDir(path)
	if err != nil {
		return nil // there is an error to report already, and this may be of what it was about
	}
	d.made = append(made, d.made...)
	return d.undo()
}

// Validate reads the configuration and checks what New would, without privileges.
func Validate(load func() (*config.Config, error)) (*config.Config, error) {
	cfg, err := load()
	if err != nil {
		return nil, err
	}
	return cfg, new(policy).set(cfg)
}

// prepare makes what the daemon's user may not make itself, nor remove if the start fails: so
// it is sure first that the interfaces are there. It tells which directories it has made, also
// with an error.
func prepare(cfg *config.Config, uid, gid int) (made []string, err error) {
	for _, name := range cfg.Names() {
		if err := datapath.CheckInterface(name); err != nil {
			return nil, err
		}
	}
	if made, err = prepareDir(cfg.RuntimeDir, uid, gid); err != nil {
		return made, err
	}
	for _, name := range cfg.Names() {
		if dir := cfg.Options(name).PinDir; dir != "" {
			pins, err := preparePins(filepath.Dir(dir), uid, gid)
			return append(pins, made...), err
		}
	}
	return made, nil
}
