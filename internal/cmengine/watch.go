package cmengine

import (
	"context"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// subscribe has the device tell of what the engine must know.
func (e *Engine) subscribe() (err error) {
	e.events, err = e.dev.Subscribe(verbs.EventGIDChange, verbs.EventDeviceFatal)
	return err
}

// watch follows the device until its events end.
func (e *Engine) watch() {
	for {
		ev, err := e.events.Next(context.Background())
		if err != nil {
			return
		}
		e.mu.Lock()
		if ev.Type == verbs.EventDeviceFatal {
			e.halting = true
			e.wake()
		} else if !e.ended {
			e.lookAtAddresses()
		}
		e.mu.Unlock()
	}
}

// lookAtMTU tells the machine what the link carries. Asking takes each worker's lock for
// a moment. The lock is held.
func (e *Engine) lookAtMTU() {
	e.looked = true
	if port, err := e.dev.QueryPort(); err == nil && port.ActiveMTU != e.mtu {
		e.mtu = port.ActiveMTU
		e.m.SetMTU(e.mtu)
	}
}

// lookAtAddresses tells the clients which addresses have gone. The lock is held.
func (e *Engine) lookAtAddresses() {
	gids, err := e.dev.GIDs()
	if err != nil {
		return // the device is closed
	}
	gone := map[netip.Addr]bool{}
	for _, g := range e.gids {
		// Who has named no interface has it while any has.
		for _, a := range []netip.Addr{addrOf(&g), g.GID.Addr()} {
			if !has(gids, a) {
				gone[a] = true
			}
		}
	}
	e.gids = gids
	// Should the address come back, it may have another index.
	e.dropPaths(func(key *cmfsm.Path, _ *path) bool { return IndexOf(gids, key.Local, key.VLAN) < 0 })
	for a := range gone {
		for _, c := range e.clients {
			c.sink(cmfsm.Event{Type: cmfsm.EventAddrChange, Owner: c.owner, Local: netip.AddrPortFrom(a, 0)})
		}
	}
}
