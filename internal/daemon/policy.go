package daemon

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/privilege"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// ErrNotAllowed says that the configuration does not admit the user.
var ErrNotAllowed = errors.New("not allowed by the daemon's configuration")

// Policy says what a client may have, or ErrNotAllowed.
type Policy = func(shm.Cred) (serve.Limits, error)

// policy is the present one. Who asks is never held up by a reload.
type policy struct {
	rules atomic.Pointer[rules]
}

// rules are a configuration's, with numbers for names.
type rules struct {
	limits serve.Limits // while there are no rules
	allow  []rule
	group  int // of the control socket, -1: none
}

type rule struct {
	uids, gids []uint32
	limits     serve.Limits
}

// set takes the rules of a configuration, or none of it if a name is unknown.
func (p *policy) set(c *config.Config) error {
	r := &rules{limits: limits(c.Limits), group: -1}
	if c.Group != "" {
		gid, err := privilege.LookupGroup(c.Group)
		if err != nil {
			return fmt.Errorf("%w: group: %w", config.ErrConfig, err)
		}
		r.group = gid
	}
	for i, a := range c.Allow {
		uids, err := numbers(a.Users, privilege.LookupUser)
		if err != nil {
			return fmt.Errorf("%w: allow, entry %d: %w", config.ErrConfig, i+1, err)
		}
		gids, err := numbers(a.Groups, privilege.LookupGroup)
		if err != nil {
			return fmt.Errorf("%w: allow, entry %d: %w", config.ErrConfig, i+1, err)
		}
		l := limits(a.Limits.Over(c.Limits))
		l.Devices = a.Interfaces
		r.allow = append(r.allow, rule{uids: uids, gids: gids, limits: l})
	}
	p.rules.Store(r)
	return nil
}

// limits are those of the configuration in the server's terms, where 0 is a default.
func limits(c config.Limits) serve.Limits {
	return serve.Limits{
		Clients: value(c.Clients), QPs: value(c.QPs), CQs: value(c.CQs), SRQs: value(c.SRQs), MRs: value(c.MRs), PDs: value(c.PDs),
		AHs: value(c.AHs), XRCDs: value(c.XRCDs), CMIDs: value(c.CMIDs), Groups: value(c.MulticastAttach),
		Memory: uint64(value(c.Bytes)), Registered: uint64(value(c.Registered)), BytesPerSecond: uint64(value(c.Rate)) / 8,
		Messages:   uint64(value(c.MessageRate)),
		NoIndirect: c.OwnMemory != nil && !*c.OwnMemory, Privileged: value(c.Privileged),
	}
}

// value is what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func numbers(names []string, lookup func(string) (int, error)) ([]uint32, error) {
	var list []uint32
	for _, name := range names {
		n, err := lookup(name)
		if err != nil {
			return nil, err
		}
		list = append(list, uint32(n))
	}
	return list, nil
}

// decide is the Policy.
func (p *policy) decide(c shm.Cred) (serve.Limits, error) {
	r := p.rules.Load()
	if len(r.allow) == 0 {
		return r.limits, nil
	}
	for i := range r.allow {
		if r.allow[i].names(&c) {
			return r.allow[i].limits, nil
		}
	}
	return serve.Limits{}, fmt.Errorf("%w: no entry of allow names user %d or a group of it", ErrNotAllowed, c.UID)
}

// names reports whether the rule is about a user. One that names nobody is about all.
func (r *rule) names(c *shm.Cred) bool {
	if len(r.uids)+len(r.gids) == 0 {
		return true
	}
	for _, uid := range r.uids {
		if c.UID == uid {
			return true
		}
	}
	for _, gid := range r.gids {
		if c.In(gid) {
			return true
		}
	}
	return false
}

// control says who may use the control socket.
func (p *policy) control(c *shm.Cred) bool {
	g := p.controlGroup()
	return c.UID == 0 || int(c.UID) == os.Geteuid() || g >= 0 && c.In(uint32(g))
}

// controlGroup is the control socket's group, -1 for none.
func (p *policy) controlGroup() int { return p.rules.Load().group }
