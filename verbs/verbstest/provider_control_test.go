package verbstest_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestQueries(t *testing.T) {
	everywhere(t, func(w *world) {
		a := get[verbs.DeviceAttr](w)(w.a.QueryDevice())
		if a.Name != "mem0" || a.NodeGUID == 0 || a.MaxQP == 0 || a.MaxCQE == 0 || a.NumPorts != 1 || a.NumWorkers != 1 || a.XDPMode != "memory" ||
			!a.ODP.Supported || a.ODP.RC == 0 || a.Caps == 0 || a.MaxCQPeriod == 0 || a.HCACoreClockKHz != 1_000_000 || a.FWVersion == "" {
			w.Errorf("%+v", a)
		}
		p := get[verbs.PortAttr](w)(w.a.QueryPort())
		if p.State != verbs.PortActive || p.ActiveMTU != verbs.MTU4096 || p.LinkMTU != 9000 || p.GIDTableLen == 0 || p.MAC.String() != "02:00:00:00:00:01" {
			w.Errorf("%+v", p)
		}
		key := get[uint16](w)(w.a.QueryPKey(0))
		if key != verbs.DefaultPKey {
			w.Errorf("P_Key %#x", key)
		}
		gids := get[[]verbs.GIDEntry](w)(w.a.GIDs())
		if len(gids) != 2 || get[int](w)(w.a.GIDIndex(datapathtest.IPv6[0])) != gids[1].Index {
			w.Errorf("%+v", gids)
		}
		before := time.Now()
		c := get[verbs.Clock](w)(w.a.QueryClock())
		if d := c.Wall.Sub(before); c.Raw <= 0 || d < -time.Second || d > 10*time.Second {
			w.Errorf("%+v, asked at %v", c, before)
		}
		counters := get[[]verbs.CounterValue](w)(w.a.Counters())
		if len(counters) < 20 || counters[0].Name == "" {
			w.Errorf("%v", counters)
		}
		if w.a.Name() != "mem0" {
			w.Error(w.a.Name())
		}
	})
}

func TestResolve(t *testing.T) {
	everywhere(t, func(w *world) {
		r := get[verbs.Resolution](w)(w.a.Resolve(w.soon(), &verbs.ResolveRequest{Dst: datapathtest.IPv4[1]}))
		if r.Dst != datapathtest.IPv4[1] || r.Src != datapathtest.IPv4[0] || r.DstMAC != [6]byte{2, 0, 0, 0, 0, 2} || r.MTU != verbs.MTU4096 || r.Interface != "mem0" || r.Local {
			w.Errorf("%+v", r)
		}
		_, err := w.a.Resolve(w.soon(), &verbs.ResolveRequest{Dst: netip.MustParseAddr("203.0.113.1")})
		w.is("an address far away", err, verbs.ErrNoRoute)
		_, err = w.a.Resolve(w.soon(), &verbs.ResolveRequest{Dst: datapathtest.IPv4[1], Src: datapathtest.IPv4[1]})
		w.is("a source that is the peer's", err, verbs.ErrNoSource)
	})
}

// What goes wrong is the same error whoever finds it.
func TestErrors(t *testing.T) {
	everywhere(t, func(w *world) {
		pd := get[*verbs.PD](w)(w.a.AllocPD())
		cq := get[*verbs.CQ](w)(w.a.CreateCQ(16))
		qp := get[*verbs.QP](w)(pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}))
		ud := get[*verbs.QP](w)(pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UD, SendCQ: cq, RecvCQ: cq}))
		buf := get[[]byte](w)(w.a.AllocBuffer(100))
		mr := get[*verbs.MR](w)(pd.RegisterMemory(buf, verbs.AccessLocalWrite|verbs.AccessMWBind))
		x := get[*verbs.XRCD](w)(w.a.OpenXRCD(&verbs.XRCDInitAttr{Name: "errors", Create: true, Exclusive: true}))
		ah := func(av *verbs.AddressVector) error { _, err := pd.CreateAH(av); return err }
		toInit := verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccessFlags
		for _, tc := range []struct {
			name string
			err  error
			want error
		}{
			{"pd in use", pd.Dealloc(), verbs.ErrBusy},
			{"cq in use", cq.Destroy(), verbs.ErrBusy},
			{"resize to less than is there", cq.Resize(0), verbs.ErrInvalid},
			{"from RESET to RTS", qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState), verbs.ErrTransition},
			{"to INIT without port", qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit}, verbs.AttrState), verbs.ErrAttrMask},
			{"to INIT with port 3", qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 3}, toInit), verbs.ErrAttrValue},
			{"group of a connection", qp.AttachMulticast(verbs.GID{0: 0xff, 1: 0x02}), verbs.ErrInvalid},
			{"group that is none", ud.AttachMulticast(verbs.GID{0: 0x20}), verbs.ErrInvalid},
			{"no such GID", ah(&verbs.AddressVector{DGID: gidOf(datapathtest.IPv4[1]), SGIDIndex: 99}), verbs.ErrNoGID},
			{"no route", ah(&verbs.AddressVector{DGID: gidOf(netip.MustParseAddr("203.0.113.1")), SGIDIndex: 0}), verbs.ErrNoRoute},
			{"name that exists", second(w.a.OpenXRCD(&verbs.XRCDInitAttr{Name: "errors", Create: true, Exclusive: true})), fs.ErrExist},
			{"name that does not", second(w.a.OpenXRCD(&verbs.XRCDInitAttr{Name: "other"})), fs.ErrNotExist},
			{"target that is none", second(x.OpenQP(0x777)), verbs.ErrInvalid},
			{"moderation out of range", cq.Modify(-1, 0), verbs.ErrInvalid},
			{"advise outside", pd.Advise(verbs.AdvisePrefetch, []verbs.SGE{mr.SGE(50, 51)}), verbs.ErrInvalid},
			{"advise to write", pd.Advise(verbs.AdvisePrefetchWrite, []verbs.SGE{mr.SGE(0, 100)}), nil},
			{"advise many", pd.Advise(verbs.AdvisePrefetch, many(mr.SGE(0, 100), 200)), nil},
			{"negative buffer", second(w.a.AllocBuffer(-1)), verbs.ErrInvalid},
		} {
			w.is(tc.name, tc.err, tc.want)
		}
		w.ok(x.Close())
		w.ok(x.Close())
	})
}

func second[T any](_ T, err error) error { return err }

func many(e verbs.SGE, n int) []verbs.SGE {
	all := make([]verbs.SGE, n)
	for i := range all {
		all[i] = e
	}
	return all
}

func gidOf(a netip.Addr) verbs.GID { return a.As16() }

func TestCQAttributes(t *testing.T) {
	everywhere(t, func(w *world) {
		cq := get[*verbs.CQ](w)(w.a.CreateCQ(100))
		w.ok(cq.Modify(7, 3*time.Millisecond))
		w.ok(cq.Resize(1000))
		a := get[verbs.CQAttr](w)(cq.Query())
		if a != (verbs.CQAttr{Entries: 1024, Count: 7, Period: 3 * time.Millisecond}) || cq.Size() != 1024 {
			w.Errorf("%+v, size %d", a, cq.Size())
		}
		w.ok(cq.Destroy())
		w.ok(cq.Destroy())
		_, err := cq.Query()
		w.is("query a queue that is gone", err, verbs.ErrClosed)
	})
}

// Events go to all who read them, with the program's objects.
func TestAsyncEvents(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		some := get[*verbs.Events](w)(w.b.Subscribe(verbs.EventQPAccessErr))
		none := get[*verbs.Events](w)(w.b.Subscribe(verbs.EventPortErr))
		w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey() ^ 1}))
		if wc := get[verbs.WC](w)(p.A.Next()); wc.Status != verbs.WCRemoteAccess {
			w.Errorf("%+v", wc)
		}
		for _, next := range []func(context.Context) (verbs.AsyncEvent, error){w.b.NextEvent, some.Next} {
			for {
				e := get[verbs.AsyncEvent](w)(next(w.soon()))
				if e.QP != p.B.QP {
					w.Fatalf("%+v, of another queue pair than %p", e, p.B.QP)
				}
				if e.Type == verbs.EventQPAccessErr {
					break
				}
			}
		}
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Millisecond)
		defer cancel()
		_, err := none.Next(ctx)
		w.is("an event of another type", err, context.DeadlineExceeded)
		done := make(chan error, 1)
		go func() { _, err := none.Next(w.soon()); done <- err }()
		none.Close()
		none.Close()
		w.is("a reader that was closed", <-done, verbs.ErrClosed)
		some.Close()
	})
}

// Objects are made and destroyed from many goroutines at a time.
func TestConcurrentObjects(t *testing.T) {
	everywhere(t, func(w *world) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 15 {
					if err := makeAndDestroy(w.a); err != nil {
						w.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func makeAndDestroy(dev *verbs.Context) (err error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pd.Dealloc()) }()
	cq, err := dev.CreateCQ(10)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cq.Destroy()) }()
	srq, err := pd.CreateSRQ(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srq.Destroy()) }()
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, qp.Destroy()) }()
	buf, err := dev.AllocBuffer(10_000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.FreeBuffer(buf)) }()
	for i, b := range buf {
		if b != 0 {
			return errors.New("a buffer is not zero")
		}
		buf[i] = 1
	}
	mr, err := pd.RegisterMemory(buf[100:200], verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	return mr.Deregister()
}

// After Close nothing works, nothing hangs, and nothing faults.
func TestAfterClose(t *testing.T) {
	everywhere(t, func(w *world) {
		p := get[*verbstest.Pair](w)(verbstest.NewRCPair(w.a, w.b, verbstest.Options{}))
		waiting := make(chan error, 2)
		go func() {
			var wcs [1]verbs.WC
			_, err := p.A.CQ.Wait(w.Context(), wcs[:])
			waiting <- err
		}()
		go func() { _, err := w.a.NextEvent(w.Context()); waiting <- err }()
		time.Sleep(2 * time.Millisecond)
		w.ok(w.a.Close())
		for range cap(waiting) {
			w.is("what waited", <-waiting, verbs.ErrClosed)
		}
		runtime.GC() // what nobody needs is unmapped
		var wcs [1]verbs.WC
		if n := p.A.CQ.Poll(wcs[:]); n != 0 {
			w.Errorf("%d completions", n)
		}
		w.is("post a send", p.A.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpSend}), verbs.ErrClosed)
		w.is("post a receive", p.A.QP.PostRecv(&verbs.RecvWR{}), verbs.ErrClosed)
		w.is("modify", p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState), verbs.ErrClosed)
		_, err := w.a.AllocPD()
		w.is("allocate a pd", err, verbs.ErrClosed)
		w.ok(w.a.Close())
		w.ok(p.A.MR.Deregister())
		w.ok(p.A.QP.Destroy())
	})
}
