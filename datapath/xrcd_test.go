package datapath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestXRCEveryOperation(t *testing.T) {
	for _, queues := range []int{1, 3} {
		for _, crossed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d queues, crossed %v", queues, crossed), func(t *testing.T) {
				r := newRig(t, rigOptions{queues: queues, crossed: crossed})
				p := verbstest.XRCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 1 << 18})
				if err := errors.Join(p.Every(0, 1, 63, 4096, 4097, 70000), p.Reverse().Every(0, 5, 9000)); err != nil {
					t.Fatal(err)
				}
				for _, d := range []*Device{r.a, r.b} {
					if n := counterOf(t, d, "drop_opcode") + counterOf(t, d, "duplicate_request"); n != 0 {
						t.Errorf("%s dropped or repeated %d packets", d.Name(), n)
					}
				}
			})
		}
	}
}

// program is what one program of host B has: a queue of its own in a domain that it
// shares with others, and memory.
type program struct {
	t    *testing.T
	xrcd *verbs.XRCD
	pd   *verbs.PD
	cq   *verbs.CQ
	srq  *verbs.SRQ
	mr   *verbs.MR
}

func newProgram(t *testing.T, c *verbs.Context, name string) *program {
	t.Helper()
	p := &program{t: t}
	var err error
	p.xrcd, err = c.OpenXRCD(&verbs.XRCDInitAttr{Name: name, Create: true})
	p.try(err)
	p.pd, err = c.AllocPD()
	p.try(err)
	p.cq, err = c.CreateCQ(256)
	p.try(err)
	p.srq, err = p.pd.CreateSRQ(&verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: p.xrcd, CQ: p.cq})
	p.try(err)
	p.mr, err = p.pd.RegisterMemory(make([]byte, 1<<12), verbstest.All)
	p.try(err)
	return p
}

func (p *program) try(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// recv posts the receive of n bytes at 64*id.
func (p *program) recv(id, n int) {
	p.t.Helper()
	p.try(p.srq.PostRecv(&verbs.RecvWR{WRID: uint64(id), SGList: []verbs.SGE{p.mr.SGE(64*id, n)}}))
}

func (p *program) next() verbs.WC {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), verbstest.Patience)
	defer cancel()
	var wcs [1]verbs.WC
	_, err := p.cq.Wait(ctx, wcs[:])
	p.try(err)
	return wcs[0]
}

// Several initiators, each with a target, reach several programs of a host, each
// with a queue of its own: every message comes to the one that it names.
func TestXRCDomainOfSeveralPrograms(t *testing.T) {
	for _, queues := range []int{1, 3} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			r := newRig(t, rigOptions{queues: queues})
			const programs, initiators, rounds = 3, 4, 8
			var progs []*program
			for range programs {
				progs = append(progs, newProgram(t, r.cb, "job"))
			}
			var pairs []*verbstest.Pair
			for range initiators {
				pairs = append(pairs, verbstest.XRCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 1 << 12, XRCD: [2]*verbs.XRCD{nil, progs[0].xrcd}}))
			}
			for round := range rounds {
				for _, p := range progs {
					for i := range initiators {
						p.recv(i, 64)
					}
				}
				for i, pair := range pairs {
					for j, p := range progs {
						pair.A.Buf[0], pair.A.Buf[1], pair.A.Buf[2] = byte(i), byte(j), byte(round)
						p.try(pair.A.QP.PostSend(&verbs.SendWR{
							WRID: 7, Flags: verbs.SendSignaled, Opcode: verbs.OpSend, RemoteSRQN: p.srq.Num(),
							SGList: []verbs.SGE{pair.A.MR.SGE(0, 8+i)},
						}))
						if _, err := pair.A.Done(7, verbs.WCSend); err != nil {
							t.Fatal(err)
						}
					}
				}
				for j, p := range progs {
					seen := map[int]bool{}
					for range initiators {
						wc := p.next()
						b := p.mr.Bytes()[64*wc.WRID:]
						i := int(b[0])
						if wc.Status != verbs.WCSuccess || int(b[1]) != j || int(b[2]) != round || int(wc.ByteLen) != 8+i || wc.QPNum != pairs[i].B.TGT.Num() {
							t.Fatalf("program %d got %+v with % x", j, wc, b[:3])
						}
						seen[i] = true
					}
					if len(seen) != initiators {
						t.Fatalf("program %d heard of initiators %v", j, seen)
					}
				}
			}
			// The keys of one program are of no use with the number of another.
			a := pairs[0].A
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{a.MR.SGE(0, 8)}, RemoteAddr: progs[1].mr.Addr(), RKey: progs[1].mr.RKey(), RemoteSRQN: progs[1].srq.Num()}
			progs[0].try(a.Post(wr))
			if _, err := a.Done(0, verbs.WCRDMAWrite); err != nil {
				t.Fatal(err)
			}
			wr.RemoteSRQN = progs[2].srq.Num()
			progs[0].try(a.Post(wr))
			if wc, err := a.Next(); err != nil || wc.Status != verbs.WCRemoteAccess {
				t.Fatalf("%+v, %v; want REM_ACCESS_ERR", wc, err)
			}
		})
	}
}

// A number that the target's domain does not have, and one of another domain.
func TestXRCWrongNumber(t *testing.T) {
	r := newRig(t, rigOptions{})
	elsewhere := newProgram(t, r.cb, "other job")
	elsewhere.recv(0, 64)
	for name, num := range map[string]uint32{"of another domain": elsewhere.srq.Num(), "of nobody": elsewhere.srq.Num() ^ 0x800000} {
		t.Run(name, func(t *testing.T) {
			p := verbstest.XRCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 1 << 12})
			wr := verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, RemoteSRQN: num}
			if err := p.A.QP.PostSend(&wr); err != nil {
				t.Fatal(err)
			}
			if wc, err := p.A.Next(); err != nil || wc.Status != verbs.WCRemoteAccess {
				t.Fatalf("%+v, %v; want REM_ACCESS_ERR", wc, err)
			}
			for _, want := range []verbs.EventType{verbs.EventQPAccessErr, verbs.EventQPLastWQEReached} {
				if e := nextEventOf(t, r.cb, p.B.TGT); e != want {
					t.Errorf("event %v, want %v", e, want)
				}
			}
			if a, err := p.B.TGT.Query(); err != nil || a.State != verbs.QPStateErr {
				t.Errorf("target in %v, %v; want ERR", a.State, err)
			}
		})
	}
	if a, err := elsewhere.srq.Query(); err != nil || elsewhere.cq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Errorf("the queue of the other domain: %+v, %v", a, err)
	}
}

// nextEventOf is the next event of qp that is not COMM_EST.
func nextEventOf(t *testing.T, c *verbs.Context, qp *verbs.QP) verbs.EventType {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	for {
		e, err := c.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.QP == qp && e.Type != verbs.EventCommEst {
			return e.Type
		}
	}
}

// A target that two have: both hear of it, and it lives until both have let go.
func TestXRCTargetIsShared(t *testing.T) {
	r := newRig(t, rigOptions{})
	mine, theirs := newProgram(t, r.cb, "job"), newProgram(t, r.cb, "job")
	p := verbstest.XRCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 1 << 12, XRCD: [2]*verbs.XRCD{nil, mine.xrcd}})
	again, err := theirs.xrcd.OpenQP(p.B.TGT.Num())
	mine.try(err)
	if again.Num() != p.B.TGT.Num() || again.Type() != verbs.XRCRecv {
		t.Fatalf("opened %v %#x", again.Type(), again.Num())
	}
	mine.try(p.B.TGT.Destroy())
	theirs.recv(1, 64)
	mine.try(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, RemoteSRQN: theirs.srq.Num()}))
	if wc := theirs.next(); wc.WRID != 1 || wc.Status != verbs.WCSuccess {
		t.Fatalf("%+v", wc)
	}
	third, err := mine.xrcd.OpenQP(again.Num())
	mine.try(err)
	mine.try(again.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState))
	for range 2 { // one for each handle, in either order
		ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
		e, err := r.cb.NextEvent(ctx)
		for err == nil && e.Type != verbs.EventQPLastWQEReached {
			e, err = r.cb.NextEvent(ctx)
		}
		cancel()
		if err != nil || e.QP != again && e.QP != third {
			t.Fatalf("event %+v, %v", e, err)
		}
	}
	num := again.Num()
	mine.try(errors.Join(again.Destroy(), third.Destroy(), third.Destroy()))
	if _, err := mine.xrcd.OpenQP(num); !errors.Is(err, ErrInvalid) {
		t.Errorf("open of a target that is gone: %v", err)
	}
	if _, err := mine.xrcd.OpenQP(p.A.QP.Num()); !errors.Is(err, ErrInvalid) {
		t.Errorf("open of an initiator: %v", err)
	}
	other := newProgram(t, r.ca, "job") // the same name on another device
	if _, err := other.xrcd.OpenQP(num); !errors.Is(err, ErrInvalid) {
		t.Errorf("open of a target of another device: %v", err)
	}
}

func TestXRCDNames(t *testing.T) {
	r := newRig(t, rigOptions{})
	open := func(a verbs.XRCDInitAttr) (uint32, error) { return r.a.OpenXRCD(&a) }
	if _, err := open(verbs.XRCDInitAttr{Name: "a"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of no domain: %v", err)
	}
	first, err := open(verbs.XRCDInitAttr{Name: "a", Create: true, Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(verbs.XRCDInitAttr{Name: "a", Create: true, Exclusive: true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second exclusive open: %v", err)
	}
	for _, a := range []verbs.XRCDInitAttr{{Name: "a"}, {Name: "a", Create: true}} {
		if id, err := open(a); id != first || err != nil {
			t.Errorf("open of %+v: %d, %v; want %d", a, id, err, first)
		}
	}
	for range 3 {
		if err := r.a.CloseXRCD(first); err != nil {
			t.Error(err)
		}
	}
	if err := r.a.CloseXRCD(first); !errors.Is(err, ErrInvalid) {
		t.Errorf("fourth close: %v", err)
	}
	one, err1 := open(verbs.XRCDInitAttr{Create: true})
	two, err2 := open(verbs.XRCDInitAttr{Create: true})
	if err := errors.Join(err1, err2); err != nil || one == two {
		t.Errorf("domains without a name: %d and %d, %v", one, two, err)
	}
}

// What is used cannot be closed, by its last opener.
func TestXRCDBusy(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := newProgram(t, r.cb, "job")
	second, err := r.cb.OpenXRCD(&verbs.XRCDInitAttr{Name: "job"})
	p.try(err)
	p.try(second.Close())
	tgt, err := p.xrcd.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv})
	p.try(err)
	for name, err := range map[string]error{"domain": p.xrcd.Close(), "completion queue": p.cq.Destroy(), "protection domain": p.pd.Dealloc()} {
		if !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", name, err)
		}
	}
	// The provider sees that for itself.
	id, err := r.b.OpenXRCD(&verbs.XRCDInitAttr{Name: "job"})
	p.try(err)
	p.try(r.b.CloseXRCD(id))
	if err := r.b.CloseXRCD(id); !errors.Is(err, ErrBusy) {
		t.Errorf("last close with a queue and a target: %v", err)
	}
	p.try(errors.Join(tgt.Destroy(), p.srq.Destroy(), p.srq.Destroy(), p.cq.Destroy(), p.xrcd.Close(), p.xrcd.Close()))
	if _, err := p.xrcd.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("target in a closed domain: %v", err)
	}
	if n := len(r.b.xrcds) + len(r.b.srqNumbers) + len(r.b.srqs); n != 0 {
		t.Errorf("%d domains, numbers and queues are left", n)
	}
}

// A queue may go while targets still serve the domain: its receives with it.
func TestXRCQueueGoesAwayUnderTraffic(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := newProgram(t, r.cb, "job")
	stay := newProgram(t, r.cb, "job")
	pair := verbstest.XRCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 1 << 12, XRCD: [2]*verbs.XRCD{nil, stay.xrcd}})
	p.recv(1, 64)
	num := p.srq.Num()
	p.try(errors.Join(p.srq.Destroy(), p.cq.Destroy()))
	stay.recv(2, 64)
	p.try(pair.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, RemoteSRQN: stay.srq.Num()}))
	if wc := stay.next(); wc.WRID != 2 || wc.Status != verbs.WCSuccess {
		t.Fatalf("%+v", wc)
	}
	if _, err := pair.A.Done(1, verbs.WCSend); err != nil {
		t.Fatal(err)
	}
	p.try(pair.A.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, RemoteSRQN: num}))
	if wc, err := pair.A.Next(); err != nil || wc.Status != verbs.WCRemoteAccess {
		t.Fatalf("%+v, %v; want REM_ACCESS_ERR", wc, err)
	}
}

// What a provider is handed by nobody but a caller that does not use verbs.
func TestXRCProviderChecks(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd, err := r.a.AllocPD()
	cq, err1 := r.a.CreateCQ(4)
	foreign, err2 := r.b.CreateCQ(4)
	id, err3 := r.a.OpenXRCD(&verbs.XRCDInitAttr{Create: true})
	if err := errors.Join(err, err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	attr := ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}
	for name, in := range map[string]verbs.ProviderSRQInit{
		"no such domain":       {PD: pd, Attr: attr, XRCD: id + 1, CQ: cq},
		"no completion queue":  {PD: pd, Attr: attr, XRCD: id},
		"of another device":    {PD: pd, Attr: attr, XRCD: id, CQ: foreign},
		"no protection domain": {PD: pd + 1, Attr: attr, XRCD: id, CQ: cq},
		"no entries":           {PD: pd, XRCD: id, CQ: cq},
	} {
		if _, err := r.a.CreateSRQ(&in); !errors.Is(err, ErrInvalid) {
			t.Errorf("queue, %s: %v", name, err)
		}
	}
	capacity := ibv.QPCap{MaxSendWR: 1, MaxSendSGE: 1}
	for name, in := range map[string]verbs.ProviderQPInit{
		"target, no such domain":    {Type: verbs.XRCRecv, XRCD: id + 1},
		"target with a queue":       {Type: verbs.XRCRecv, XRCD: id, SendCQ: cq},
		"target with capacities":    {Type: verbs.XRCRecv, XRCD: id, Cap: capacity},
		"target with a PD":          {Type: verbs.XRCRecv, XRCD: id, PD: pd},
		"initiator that receives":   {Type: verbs.XRCSend, PD: pd, SendCQ: cq, RecvCQ: cq, Cap: capacity},
		"initiator without a queue": {Type: verbs.XRCSend, PD: pd, Cap: capacity},
	} {
		if _, err := r.a.CreateQP(&in); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.a.pds[pd].objects + r.a.xrcds[id].users; n != 0 {
		t.Errorf("%d objects are counted after failures", n)
	}
}

// Queues and targets of a domain are on one worker, initiators anywhere.
func TestXRCDomainHasOneWorker(t *testing.T) {
	r := newRig(t, rigOptions{queues: 4})
	a, b := newProgram(t, r.cb, "job"), newProgram(t, r.cb, "job")
	used := map[*worker]bool{}
	for range 6 {
		p := verbstest.XRCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 1 << 12, XRCD: [2]*verbs.XRCD{nil, a.xrcd}})
		used[r.b.table.get(p.B.TGT.Num()).w] = true
	}
	if len(used) != 1 || len(r.b.xrcds) == 0 {
		t.Fatalf("targets of one domain are on %d workers", len(used))
	}
	for _, x := range r.b.xrcds {
		if x.name == "job" && !used[x.w] {
			t.Error("queues and targets are on different workers")
		}
	}
	if a.srq.Num() == b.srq.Num() || a.srq.Num() == 0 {
		t.Errorf("numbers %d and %d", a.srq.Num(), b.srq.Num())
	}
}

// However many domains somebody has, a worker gives their targets the part of one client.
func TestXRCDomainsAreOneClient(t *testing.T) {
	r := newRig(t, rigOptions{})
	lanes := func() int { return len(r.a.workers[0].lanes) }
	before := lanes()
	type opened struct {
		c  *Client
		id uint32
	}
	var all []opened
	for i, owner := range []string{"alice", "alice", "bob"} {
		c, err := r.a.NewClient(&ClientConfig{Name: "c", Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients := i + 1
		for range 5 {
			id, err := c.OpenXRCD(&verbs.XRCDInitAttr{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, opened{c, id})
		}
		if owners := max(1, i); lanes() != before+clients+owners {
			t.Errorf("%d clients of %d owners have %d parts", clients, owners, lanes()-before)
		}
	}
	for i, o := range all {
		if err := o.c.CloseXRCD(o.id); err != nil {
			t.Error(err)
		}
		owners := 2
		switch {
		case i == len(all)-1:
			owners = 0
		case i >= 9:
			owners = 1
		}
		if lanes() != before+3+owners {
			t.Errorf("%d domains closed: %d parts, want %d", i+1, lanes()-before, 3+owners)
		}
	}
}

// Everything goes with the device, whatever the order of its making.
func TestXRCClosesWithTheDevice(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := newProgram(t, r.cb, "job")
	tgt, err := p.xrcd.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv})
	p.try(err)
	p.try(r.cb.Close())
	p.try(errors.Join(tgt.Destroy(), p.srq.Destroy(), p.cq.Destroy(), p.xrcd.Close()))
	if _, err := r.cb.OpenXRCD(nil); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("open on a closed device: %v", err)
	}
	if _, err := r.b.OpenXRCD(&verbs.XRCDInitAttr{Create: true}); !errors.Is(err, ErrClosed) {
		t.Errorf("open on a closed provider: %v", err)
	}
}

func TestXRCCapability(t *testing.T) {
	r := newRig(t, rigOptions{})
	a, err := r.ca.QueryDevice()
	if err != nil || a.Caps&verbs.DeviceXRC == 0 || a.MaxXRCD != maxXRCD {
		t.Errorf("capabilities %v, %d domains, %v", a.Caps.Names(), a.MaxXRCD, err)
	}
}

// TestXRCHandlesAreLimited: a handle on a target counts for the client that has it, as
// a queue pair of its own does, and a target has no more of all clients than its worker
// can tell of an event.
func TestXRCHandlesAreLimited(t *testing.T) {
	r := newRig(t, rigOptions{})
	few, _ := client(t, r.a, &ClientConfig{Name: "few", Limits: Limits{QPs: 3}})
	many, _ := client(t, r.a, &ClientConfig{Name: "many"})
	named := &verbs.XRCDInitAttr{Name: "shared", Create: true}
	x, err := few.OpenXRCD(named)
	must(t, err)
	_, err = many.OpenXRCD(named)
	must(t, err)
	first, err := few.CreateQP(&verbs.ProviderQPInit{Type: ibv.QPTypeXRCRecv, XRCD: x})
	must(t, err)
	var own []verbs.ProviderQP
	for range 2 {
		h, err := few.OpenQP(x, first.QPN())
		must(t, err)
		own = append(own, h)
	}
	if _, err := few.OpenQP(x, first.QPN()); !errors.Is(err, ErrLimit) {
		t.Errorf("a handle more than the client may have queue pairs: %v", err)
	}
	must(t, errors.Join(first.Destroy(), first.Destroy())) // the target lives by the others
	if n := few.Usage().QPs; n != 2 {
		t.Errorf("%d queue pairs count, want 2", n)
	}
	for range maxHandles - len(own) {
		_, err := many.OpenQP(x, first.QPN())
		must(t, err)
	}
	if _, err := many.OpenQP(x, first.QPN()); !errors.Is(err, ErrLimit) || many.Usage().QPs != maxHandles-len(own) {
		t.Errorf("a handle more than a target has: %v, %d count", err, many.Usage().QPs)
	}
	must(t, many.Close())
	must(t, errors.Join(own[0].Destroy(), own[1].Destroy(), few.CloseXRCD(x)))
	for _, c := range []*Client{few, many} {
		if u := c.Usage(); u != (Usage{}) {
			t.Errorf("%s still has %+v", c.ClientName(), u)
		}
	}
}
