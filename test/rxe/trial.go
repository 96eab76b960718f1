package main

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// opTime bounds the wait for a completion: a message of a megabyte takes the
// emulated guest about a second.
const opTime = 20 * time.Second

// rdma_rxe sets WCGRH on completions of connected queue pairs too, and tells of an
// invalidated key by the kernel's flag instead of user space's.
const (
	withGRH    verbs.WCFlags = 1 << 0
	rxeWithInv verbs.WCFlags = 1 << 2
)

// trial is one connection under test. The first failure ends it: later steps do
// nothing.
type trial struct {
	params
	req, resp       side
	reqEnd, respEnd endpoint
	from, to        int // offsets of the areas that operations use
	loss            *dropper
	bad             *badLink
	id              uint64
	err             error
}

func (t *trial) failf(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// try keeps the error of a step of s.
func (t *trial) try(s side, what string, err error) {
	if err != nil {
		t.failf("%s: %s: %w", s.name(), what, err)
	}
}

func (t *trial) fill(s side, off, n int, seed string) {
	if t.err == nil {
		t.try(s, "fill", s.fill(off, n, seed))
	}
}

func (t *trial) setWord(s side, v uint64) {
	if t.err == nil {
		t.try(s, "set", s.set(word, binary.LittleEndian.AppendUint64(nil, v)))
	}
}

// same demands that memory of s is want.
func (t *trial) same(s side, off int, want []byte) {
	if t.err != nil {
		return
	}
	got, err := s.sum(off, len(want))
	t.try(s, "sum", err)
	if err == nil && got != digest(want) {
		t.failf("%s: %d bytes at offset %d are not what they should be", s.name(), len(want), off)
	}
}

func (t *trial) sameWord(s side, off int, want uint64) {
	t.same(s, off, binary.LittleEndian.AppendUint64(nil, want))
}

// recv posts a receive of n bytes at the responder.
func (t *trial) recv(n int) (id uint64) { return t.recvAt(t.to, n) }

func (t *trial) recvAt(off, n int) (id uint64) {
	if t.err == nil {
		t.id++
		t.try(t.resp, "post receive", t.resp.recv(t.id, off, n))
	}
	return t.id
}

// post posts r at the requester, with a number of its own; a zero key means the
// responder's region, of which Addr is an offset then.
func (t *trial) post(r request) (id uint64) {
	if t.err != nil {
		return 0
	}
	t.id++
	r.ID = t.id
	if r.RKey == 0 {
		r.RKey = t.respEnd.RKey
	}
	r.Addr += t.respEnd.Addr
	t.try(t.req, "post "+r.Op.String(), t.req.post(r))
	return r.ID
}

// completes demands one completion of s with number and status.
func (t *trial) completes(s side, id uint64, status verbs.WCStatus) (c completion) {
	if t.err != nil {
		return c
	}
	got, err := s.wait(1, t.wait)
	t.try(s, "wait", err)
	switch {
	case err != nil:
	case len(got) != 1:
		t.failf("%s: no completion of work request %d within %v", s.name(), id, t.wait)
	case got[0].ID != id || got[0].Status != status:
		t.failf("%s: work request %d completed with %s, want %d with %s", s.name(), got[0].ID, got[0].Status, id, status)
	default:
		return got[0]
	}
	return c
}

// completesAs demands a success of the right operation.
func (t *trial) completesAs(s side, id uint64, op verbs.WCOpcode) completion {
	c := t.completes(s, id, verbs.WCSuccess)
	if t.err == nil && c.Opcode != op {
		t.failf("%s: work request %d completed as %s, want %s", s.name(), id, c.Opcode, op)
	}
	return c
}

// receives demands the completion of a receive.
func (t *trial) receives(id uint64, op verbs.WCOpcode, n int, flags verbs.WCFlags, imm uint32) {
	c := t.completesAs(t.resp, id, op)
	if t.err != nil {
		return
	}
	got := c.Flags &^ withGRH
	if t.resp.name() == rxeName && got == rxeWithInv {
		got = verbs.WCWithInv
	}
	if int(c.Len) != n || got != flags || flags != 0 && c.Imm != imm {
		t.failf("%s: received %d bytes, flags %s, immediate %#x; want %d, %s, %#x", t.resp.name(), c.Len, c.Flags, c.Imm, n, flags, imm)
	}
}

// quiet demands that s has no completion now.
func (t *trial) quiet(s side) {
	if t.err != nil {
		return
	}
	got, err := s.wait(1, 20*time.Millisecond)
	t.try(s, "wait", err)
	if len(got) != 0 {
		t.failf("%s: completion of work request %d with %s, want none", s.name(), got[0].ID, got[0].Status)
	}
}

// in demands a state of a queue pair.
func (t *trial) in(s side, want verbs.QPState) {
	if t.err != nil {
		return
	}
	got, err := s.state()
	t.try(s, "query", err)
	if err == nil && got != want {
		t.failf("%s: queue pair is in %s, want %s", s.name(), got, want)
	}
}
