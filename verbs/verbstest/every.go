package verbstest

import "fmt"

// Reverse is the pair with its ends exchanged: its operations go from B to A.
func (p *Pair) Reverse() *Pair { return &Pair{A: p.B, B: p.A, MTU: p.MTU} }

// Every runs SEND, WRITE, both with and without immediate data, and READ with
// each of the sizes, then the atomics, from A to B. It compares memory after each
// and stops at the first that goes wrong.
func (p *Pair) Every(sizes ...int) error {
	for _, n := range sizes {
		for _, op := range []struct {
			name string
			do   func() error
		}{
			{"SEND", func() error { return p.Send(n, false) }},
			{"SEND with immediate", func() error { return p.Send(n, true) }},
			{"WRITE", func() error { return p.Write(n, false) }},
			{"WRITE with immediate", func() error { return p.Write(n, true) }},
			{"READ", func() error { return p.Read(n) }},
		} {
			if err := op.do(); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", op.name, n, err)
			}
		}
	}
	if err := p.Atomics(); err != nil {
		return fmt.Errorf("atomics: %w", err)
	}
	return nil
}
