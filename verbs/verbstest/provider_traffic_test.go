package verbstest_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

var pairs = []struct {
	name string
	make func(testing.TB, *verbs.Context, *verbs.Context, verbstest.Options) *verbstest.Pair
}{
	{"RC", verbstest.RCPair}, {"UC", verbstest.UCPair}, {"UD", verbstest.UDPair}, {"XRC", verbstest.XRCPair}, {"GSI", verbstest.GSIPair},
}

// The matrix of operations, sizes and transport services, both ways.
func TestEveryOperation(t *testing.T) {
	everywhere(t, func(w *world) {
		for _, p := range pairs {
			w.Run(p.name, func(t *testing.T) {
				pair := p.make(t, w.a, w.b, verbstest.Options{})
				sizes := []int{0, 1, 63, 64, 255}
				if !pair.A.QP.Type().Datagram() {
					sizes = append(sizes, 4096, 4097, 10_000, 100_000)
				} else if pair.A.QP.Type() != verbs.GSI {
					sizes = append(sizes, 4096)
				}
				for _, p := range []*verbstest.Pair{pair, pair.Reverse()} {
					if err := p.Every(sizes...); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
}

func TestKeysThatWorkRequestsBind(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		w.ok(p.Keys(5000))
		for _, kind := range verbstest.KeyKinds {
			if err := p.StaleKey(kind, verbs.OpRDMAWrite, false); err != nil {
				w.Errorf("%s: %v", kind.Name, err)
			}
			p = verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{}) // a stale key ends the connection
		}
	})
}

func TestSharedReceiveQueue(t *testing.T) {
	everywhere(t, func(w *world) {
		pd := get[*verbs.PD](w)(w.b.AllocPD())
		srq := get[*verbs.SRQ](w)(pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 32, MaxSGE: 4}))
		o := verbstest.Options{SRQ: [2]*verbs.SRQ{nil, srq}}
		p, q := verbstest.RCPair(w.T, w.a, w.b, o), verbstest.RCPair(w.T, w.a, w.b, o)
		w.ok(p.Every(100, 9000))
		w.ok(q.Every(100, 9000))

		w.ok(srq.Modify(&verbs.SRQAttr{Limit: 2}, verbs.SRQAttrLimit))
		for i := range uint64(3) {
			w.ok(p.B.Recv(i, 0, 64))
		}
		w.ok(srq.Modify(&verbs.SRQAttr{MaxWR: 100}, verbs.SRQAttrMaxWR)) // those that are posted stay
		a := get[verbs.SRQAttr](w)(srq.Query())
		if a.MaxWR != 100 || a.MaxSGE != 4 || a.Limit != 2 {
			w.Errorf("%+v", a)
		}
		for i := range uint64(3) {
			w.ok(p.A.Post(verbs.SendWR{WRID: i, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
			_, err := p.A.Done(i, verbs.WCSend)
			w.ok(err)
			_, err = p.B.Done(i, verbs.WCRecv)
			w.ok(err)
		}
		e := get[verbs.AsyncEvent](w)(w.b.NextEvent(w.soon()))
		if e.Type != verbs.EventSRQLimitReached || e.SRQ != srq {
			w.Errorf("event %v of %p, want one of %p", e.Type, e.SRQ, srq)
		}
		w.is("destroy in use", srq.Destroy(), verbs.ErrBusy)
	})
}

// Memory that the program has by itself, not of AllocBuffer.
func TestRegionsOfOwnMemory(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		const n = 70_000
		src, dst := make([]byte, n), make([]byte, n)
		const rights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
		mrA := get[*verbs.MR](w)(p.A.PD.RegisterMemory(src, rights))
		mrB := get[*verbs.MR](w)(p.B.PD.RegisterMemory(dst, rights))
		verbstest.Fill(src, 1)
		w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{mrA.SGE(0, n)}, RemoteAddr: mrB.Addr(), RKey: mrB.RKey()}))
		_, err := p.A.Done(1, verbs.WCRDMAWrite)
		w.ok(err)
		if !bytes.Equal(src, dst) {
			w.Error("WRITE: memory differs")
		}
		verbstest.Fill(dst, 2)
		w.ok(p.A.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, SGList: []verbs.SGE{mrA.SGE(0, n)}, RemoteAddr: mrB.Addr(), RKey: mrB.RKey()}))
		_, err = p.A.Done(2, verbs.WCRDMARead)
		w.ok(err)
		if !bytes.Equal(src, dst) {
			w.Error("READ: memory differs")
		}
		// A part of it, as what a SEND takes and where it goes.
		w.ok(p.B.QP.PostRecv(&verbs.RecvWR{WRID: 3, SGList: []verbs.SGE{mrB.SGE(5, 100)}}))
		verbstest.Fill(src, 3)
		w.ok(p.A.Post(verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, SGList: []verbs.SGE{mrA.SGE(7, 100)}}))
		_, err = p.A.Done(3, verbs.WCSend)
		w.ok(err)
		_, err = p.B.Done(3, verbs.WCRecv)
		w.ok(err)
		if !bytes.Equal(src[7:107], dst[5:105]) {
			w.Error("SEND: memory differs")
		}
		runtime.KeepAlive(dst)
		// A CPU's atomics need memory that both sides have.
		atomic, err := p.A.PD.RegisterMemory(make([]byte, 64), rights|verbs.AccessRemoteAtomic)
		if w.remote == (err == nil) {
			w.Errorf("atomics on memory that the device does not share: %v", err)
		}
		if err == nil {
			w.ok(atomic.Deregister())
		}
		w.ok(mrA.Deregister())
		w.ok(mrB.Deregister())
	})
}

func TestImplicitRegion(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		all := get[*verbs.MR](w)(p.A.PD.RegisterImplicit(verbs.AccessLocalWrite))
		src := make([]byte, 1000)
		var pin runtime.Pinner
		pin.Pin(&src[0])
		defer pin.Unpin()
		verbstest.Fill(src, 9)
		w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{all.SGEOf(src)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
		_, err := p.A.Done(1, verbs.WCRDMAWrite)
		w.ok(err)
		if !bytes.Equal(p.B.Buf[:len(src)], src) {
			w.Error("memory differs")
		}
		// What is not mapped fails, at the queue pair that names it.
		w.ok(p.A.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{{Addr: 4096, Length: 8, LKey: all.LKey()}}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
		wc := get[verbs.WC](w)(p.A.Next())
		if wc.Status != verbs.WCLocalProtection {
			w.Errorf("a page that is missing: %v", wc.Status)
		}
		w.ok(all.Deregister())
	})
}

func TestReregister(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		one, two := get[[]byte](w)(w.b.AllocBuffer(4096)), get[[]byte](w)(w.b.AllocBuffer(8192))
		mr := get[*verbs.MR](w)(p.B.PD.RegisterMemory(one, verbstest.All))
		old := mr.RKey()
		w.ok(mr.Rereg(verbs.ReregTranslation, nil, two, 0))
		if mr.RKey() == old || mr.Len() != 8192 {
			w.Errorf("key %#x after %#x, %d bytes", mr.RKey(), old, mr.Len())
		}
		verbstest.Fill(p.A.Buf[:100], 4)
		w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 100)}, RemoteAddr: mr.Addr() + 8000, RKey: mr.RKey()}))
		_, err := p.A.Done(1, verbs.WCRDMAWrite)
		w.ok(err)
		if !bytes.Equal(two[8000:8100], p.A.Buf[:100]) {
			w.Error("memory differs")
		}
		w.ok(mr.Rereg(verbs.ReregAccess, nil, nil, verbs.AccessLocalWrite))
		w.ok(p.A.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}))
		if wc := get[verbs.WC](w)(p.A.Next()); wc.Status != verbs.WCRemoteAccess {
			w.Errorf("without the right: %v", wc.Status)
		}
		w.is("free memory in use", w.b.FreeBuffer(two), verbs.ErrBusy)
		w.ok(mr.Deregister())
		w.ok(w.b.FreeBuffer(two))
		w.ok(w.b.FreeBuffer(one))
		w.is("free it again", w.b.FreeBuffer(one), verbs.ErrInvalid)
	})
}

func TestMulticast(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.UDPair(w.T, w.a, w.b, verbstest.Options{})
		group := verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
		w.ok(p.B.QP.AttachMulticast(group))
		w.ok(p.B.QP.AttachMulticast(group))
		ah := get[*verbs.AH](w)(p.A.PD.CreateAH(&verbs.AddressVector{DGID: group, SGIDIndex: p.A.GID.Index, HopLimit: 1}))
		send := func() {
			w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, AH: ah, RemoteQPN: verbs.MulticastQPN, RemoteQKey: p.B.QKey, SGList: []verbs.SGE{p.A.MR.SGE(0, 50)}}))
			_, err := p.A.Done(1, verbs.WCSend)
			w.ok(err)
		}
		w.ok(p.B.Recv(7, 0, 200))
		send()
		wc := get[verbs.WC](w)(p.B.Next())
		if wc.Status != verbs.WCSuccess || wc.ByteLen != 50+verbs.GRHLen || wc.SrcQP != p.A.QP.Num() {
			w.Errorf("%+v", wc)
		}
		back := get[*verbs.AH](w)(p.B.PD.CreateAHFromWC(&wc, p.B.Buf[:verbs.GRHLen]))
		w.ok(back.Destroy())
		w.ok(p.B.QP.DetachMulticast(group))
		w.is("detach twice", p.B.QP.DetachMulticast(group), verbs.ErrInvalid)
		w.ok(ah.Destroy())
	})
}

// Waiting sleeps, is woken by completions and by the end of its context, and leaves
// nothing to the next.
func TestWait(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		var wcs [4]verbs.WC
		for range 3 {
			ctx, cancel := context.WithTimeout(w.Context(), 2*time.Millisecond)
			if n, err := p.B.CQ.Wait(ctx, wcs[:]); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("%d completions, %v", n, err)
			}
			cancel()
		}
		for i := range uint64(20) {
			w.ok(p.B.Recv(i, 0, 64))
			done := make(chan error, 1)
			go func() {
				_, err := p.B.Done(i, verbs.WCRecv)
				done <- err
			}()
			if i%2 == 0 {
				time.Sleep(time.Millisecond) // asleep by then, mostly
			}
			w.ok(p.A.Post(verbs.SendWR{WRID: i, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
			_, err := p.A.Done(i, verbs.WCSend)
			w.ok(err)
			w.ok(<-done)
		}
		// A solicited event comes for a message that asks for it, and not before.
		p.B.CQ.Poll(wcs[:])
		for p.B.CQ.WaitEvent(expired()) == nil { // what is left over
		}
		w.ok(p.B.Recv(1, 0, 64))
		w.ok(p.B.Recv(2, 0, 64))
		p.B.CQ.ReqNotify(true)
		w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
		_, err := p.A.Done(1, verbs.WCSend)
		w.ok(err)
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Millisecond)
		defer cancel()
		w.is("an event that was not solicited", p.B.CQ.WaitEvent(ctx), context.DeadlineExceeded)
		w.ok(p.A.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSolicited, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
		w.ok(p.B.CQ.WaitEvent(w.soon()))
	})
}

func expired() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	time.AfterFunc(5*time.Millisecond, cancel)
	return ctx
}

// A queue is resized with completions in it, while others come.
func TestResizeUnderTraffic(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{Depth: 32})
		const rounds = 40
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range rounds {
				if err := p.A.CQ.Resize(128 << (i % 3)); err != nil {
					w.Error(err)
				}
			}
		})
		next := uint64(0)
		for range rounds {
			for i := range uint64(16) {
				w.ok(p.A.Post(verbs.SendWR{WRID: next + i, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
			}
			for range 16 {
				_, err := p.A.Done(next, verbs.WCRDMAWrite)
				w.ok(err)
				next++
			}
		}
		wg.Wait()
		if n := p.A.CQ.Size(); n != 128<<((rounds-1)%3) {
			w.Errorf("%d entries", n)
		}
	})
}

// A queue pair in ERR flushes what is posted to it, receives too.
func TestFlush(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		w.ok(p.A.Recv(1, 0, 8))
		w.ok(p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState))
		w.ok(p.A.Recv(2, 0, 8))
		w.ok(p.A.Post(verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
		seen := map[uint64]bool{}
		for range 3 {
			wc := get[verbs.WC](w)(p.A.Next())
			if wc.Status != verbs.WCFlushed {
				w.Errorf("%+v", wc)
			}
			seen[wc.WRID] = true
		}
		if len(seen) != 3 {
			w.Errorf("flushed: %v", seen)
		}
		// From RESET it starts anew, with empty queues.
		w.ok(p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.AttrState))
		w.is("post in RESET", p.A.Recv(4, 0, 8), verbs.ErrState)
	})
}

func TestPostingAndPollingDoNotAllocate(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}
		var wcs [4]verbs.WC
		round := func() {
			if err := p.A.QP.PostSend(&wr); err != nil {
				w.Fatal(err)
			}
			for p.A.CQ.Poll(wcs[:]) == 0 {
			}
		}
		round()
		// The daemon runs in this process, and may allocate for itself: less than one
		// in a hundred rounds is none of the program's.
		if got := testing.AllocsPerRun(200, round); got != 0 {
			w.Errorf("%v allocations a request", got)
		}
	})
}
