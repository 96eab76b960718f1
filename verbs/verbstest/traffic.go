package verbstest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Patience is how long the helpers wait for a completion.
const Patience = 20 * time.Second

// Fill writes random bytes that depend on seed only.
func Fill(b []byte, seed uint64) {
	r := rand.NewChaCha8([32]byte{0: byte(seed), 1: byte(seed >> 8), 2: byte(seed >> 16), 3: byte(seed >> 24)})
	_, _ = r.Read(b)
}

// Post posts wr as signaled.
func (e *End) Post(wr verbs.SendWR) error {
	wr.Flags |= verbs.SendSignaled
	return e.QP.PostSend(&wr)
}

// Recv posts a receive of n bytes at off.
func (e *End) Recv(id uint64, off, n int) error {
	wr := verbs.RecvWR{WRID: id, SGList: []verbs.SGE{e.MR.SGE(off, n)}}
	if e.SRQ != nil {
		return e.SRQ.PostRecv(&wr)
	}
	return e.QP.PostRecv(&wr)
}

// post posts wr at A, to B.
func (p *Pair) post(wr verbs.SendWR) error {
	p.Address(&wr)
	return p.A.Post(wr)
}

// Next waits for one completion.
func (e *End) Next() (verbs.WC, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var wcs [1]verbs.WC
	_, err := e.CQ.Wait(ctx, wcs[:])
	return wcs[0], err
}

// Done waits for one completion and checks that it is the success of work
// request id with operation op.
func (e *End) Done(id uint64, op verbs.WCOpcode) (verbs.WC, error) {
	wc, err := e.Next()
	switch {
	case err != nil:
		return wc, err
	case wc.Err() != nil:
		return wc, wc.Err()
	case wc.WRID != id || wc.Opcode != op:
		return wc, fmt.Errorf("completion of work request %d, %v; want %d, %v", wc.WRID, wc.Opcode, id, op)
	}
	return wc, nil
}

const imm = 0xa1b2c3d4

// Send moves n bytes at offset 0 from A to B with SEND, with immediate data when
// withImm, and compares memory. Bytes around the target must not change. Of a
// datagram it checks the header in front too.
func (p *Pair) Send(n int, withImm bool) error {
	want := p.prepare(n)
	op := verbs.OpSend
	if withImm {
		op = verbs.OpSendWithImm
	}
	if err := p.B.Recv(2, guard, p.front()+n); err != nil {
		return err
	}
	wr := verbs.SendWR{WRID: 1, Opcode: op, SGList: p.source(n), Imm: imm}
	if err := p.post(wr); err != nil {
		return err
	}
	wc, err := p.B.Done(2, verbs.WCRecv)
	if err != nil {
		return fmt.Errorf("receive: %w", p.cause(err))
	}
	if err := checkRecv(wc, p.front()+n, withImm); err != nil {
		return err
	}
	if p.front() != 0 {
		if err := p.checkFront(&wc, p.B.Buf[guard:], n, withImm); err != nil {
			return err
		}
		copy(want[guard:], p.B.Buf[guard:guard+verbs.GRHLen])
	}
	if _, err := p.A.Done(1, verbs.WCSend); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return p.compare(p.B.Buf, want)
}

// cause adds to the failure of B's receive what A's queue says of it: a message
// that does not arrive has mostly failed there.
func (p *Pair) cause(err error) error {
	var wcs [1]verbs.WC
	if p.A.CQ.Poll(wcs[:]) == 1 {
		return errors.Join(err, wcs[0].Err())
	}
	return err
}

// arrived returns when all that A has sent before has reached B: of an
// unreliable connection, a completed WRITE says that it has left and no more.
func (p *Pair) arrived() error {
	if err := p.B.Recv(4, 0, 0); err != nil {
		return err
	}
	if err := p.post(verbs.SendWR{WRID: 3, Opcode: verbs.OpSend}); err != nil {
		return err
	}
	if _, err := p.A.Done(3, verbs.WCSend); err != nil {
		return err
	}
	_, err := p.B.Done(4, verbs.WCRecv)
	return err
}

// Write moves n bytes from A's offset 0 to B with RDMA WRITE.
func (p *Pair) Write(n int, withImm bool) error {
	want := p.prepare(n)
	op := verbs.OpRDMAWrite
	if withImm {
		op = verbs.OpRDMAWriteWithImm
		if err := p.B.Recv(2, 0, 0); err != nil {
			return err
		}
	}
	wr := verbs.SendWR{WRID: 1, Opcode: op, SGList: p.source(n), Imm: imm, RemoteAddr: p.B.MR.Addr() + guard, RKey: p.B.MR.RKey()}
	if err := p.post(wr); err != nil {
		return err
	}
	if withImm {
		wc, err := p.B.Done(2, verbs.WCRecvRDMAWithImm)
		if err != nil {
			return fmt.Errorf("receive: %w", p.cause(err))
		}
		if err := checkRecv(wc, n, true); err != nil {
			return err
		}
	}
	if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if p.A.QP.Type() == verbs.UC && !withImm {
		if err := p.arrived(); err != nil {
			return err
		}
	}
	return p.compare(p.B.Buf, want)
}

// Read moves n bytes from B's offset 0 to A with RDMA READ.
func (p *Pair) Read(n int) error {
	q := Pair{A: p.B, B: p.A}
	want := q.prepare(n)
	wr := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, SGList: split(p.A, guard, n), RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}
	if err := p.post(wr); err != nil {
		return err
	}
	wc, err := p.A.Done(1, verbs.WCRDMARead)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if int(wc.ByteLen) != n {
		return fmt.Errorf("read completed with %d bytes, want %d", wc.ByteLen, n)
	}
	return p.compare(p.A.Buf, want)
}

// Atomics runs compare-and-swap, once matching and once not, and fetch-and-add
// on a word of B, and checks the word and what came back.
func (p *Pair) Atomics() error {
	const word = 64
	start := rand.Uint64()
	binary.NativeEndian.PutUint64(p.B.Buf[word:], start)
	for i, s := range []struct {
		op           verbs.Opcode
		done         verbs.WCOpcode
		cmpAdd, swap uint64
		orig, after  uint64
	}{
		{verbs.OpAtomicCmpAndSwp, verbs.WCCompSwap, start, 42, start, 42},
		{verbs.OpAtomicCmpAndSwp, verbs.WCCompSwap, start, 43, 42, 42},
		{verbs.OpAtomicFetchAdd, verbs.WCFetchAdd, 1 << 63, 0, 42, 42 + 1<<63},
		{verbs.OpAtomicFetchAdd, verbs.WCFetchAdd, 1<<63 + 1, 0, 42 + 1<<63, 43},
	} {
		err := p.post(verbs.SendWR{
			WRID: uint64(i), Opcode: s.op, SGList: []verbs.SGE{p.A.MR.SGE(8, 8)},
			RemoteAddr: p.B.MR.Addr() + word, RKey: p.B.MR.RKey(), CompareAdd: s.cmpAdd, Swap: s.swap,
		})
		if err != nil {
			return err
		}
		if _, err := p.A.Done(uint64(i), s.done); err != nil {
			return fmt.Errorf("atomic %d: %w", i, err)
		}
		orig, after := binary.NativeEndian.Uint64(p.A.Buf[8:]), binary.NativeEndian.Uint64(p.B.Buf[word:])
		if orig != s.orig || after != s.after {
			return fmt.Errorf("atomic %d: original %#x, word %#x; want %#x, %#x", i, orig, after, s.orig, s.after)
		}
	}
	return nil
}

// guard is where a target begins: bytes before and after it must not change.
const guard = 64

// prepare fills A's first n bytes and the whole neighbourhood of B's target with
// random bytes, and returns what B's buffer must hold afterwards.
func (p *Pair) prepare(n int) []byte {
	seed := rand.Uint64()
	at := guard + p.front()
	end := min(len(p.B.Buf), at+n+guard)
	Fill(p.A.Buf[:n], seed)
	Fill(p.B.Buf[:end], seed+1)
	want := append([]byte(nil), p.B.Buf[:end]...)
	copy(want[at:], p.A.Buf[:n])
	return want
}

func (p *Pair) compare(got, want []byte) error {
	got = got[:len(want)]
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("memory differs at byte %d of the target: %#02x, want %#02x", i-guard, got[i], want[i])
		}
	}
	return nil
}

func (p *Pair) source(n int) []verbs.SGE { return split(p.A, 0, n) }

// split names n bytes at off in up to three uneven pieces, so that pieces and
// packets do not end together.
func split(e *End, off, n int) []verbs.SGE {
	if n < 16 || e.QP.Cap().MaxSendSGE < 3 {
		return []verbs.SGE{e.MR.SGE(off, n)}
	}
	a, b := n/3+1, n/2+1
	return []verbs.SGE{e.MR.SGE(off, a), e.MR.SGE(off+a, b-a), e.MR.SGE(off+b, n-b)}
}

func checkRecv(wc verbs.WC, n int, withImm bool) error {
	if int(wc.ByteLen) != n {
		return fmt.Errorf("received %d bytes, want %d", wc.ByteLen, n)
	}
	if got := wc.Flags&verbs.WCWithImm != 0; got != withImm || (withImm && wc.Imm != imm) {
		return fmt.Errorf("immediate data %v %#x, want %v %#x", got, wc.Imm, withImm, uint32(imm))
	}
	return nil
}
