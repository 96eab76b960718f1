package verbstest

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Reverse is the pair with its ends exchanged: its operations go from B to A.
func (p *Pair) Reverse() *Pair { return &Pair{A: p.B, B: p.A, MTU: p.MTU} }

// Every runs SEND, WRITE, both with and without immediate data, and READ with
// each of the sizes, then the atomics, from A to B, as far as the type of the pair
// has them. It compares memory after each and stops at the first that goes wrong.
func (p *Pair) Every(sizes ...int) error {
	typ := p.A.QP.Type()
	for _, n := range sizes {
		for _, op := range []struct {
			name string
			has  bool
			do   func() error
		}{
			{"SEND", true, func() error { return p.Send(n, false) }},
			{"SEND with immediate", typ != verbs.GSI, func() error { return p.Send(n, true) }},
			{"WRITE", !typ.Datagram(), func() error { return p.Write(n, false) }},
			{"WRITE with immediate", !typ.Datagram(), func() error { return p.Write(n, true) }},
			{"READ", typ.Reliable(), func() error { return p.Read(n) }},
		} {
			if !op.has {
				continue
			}
			if err := op.do(); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", op.name, n, err)
			}
		}
	}
	if !typ.Reliable() {
		return nil
	}
	if err := p.Atomics(); err != nil {
		return fmt.Errorf("atomics: %w", err)
	}
	return nil
}
