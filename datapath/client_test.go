package datapath

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// client makes a client of a device that ends with the test.
func client(t testing.TB, d *Device, cfg *ClientConfig) (*Client, *verbs.Context) {
	t.Helper()
	c, err := d.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := verbs.NewContext(c)
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Errorf("close %s: %v", cfg.Name, err)
		}
	})
	return c, ctx
}

// objects counts everything that there is on a device.
func objects(d *Device) map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return map[string]int{
		"pd": len(d.pds), "mr": len(d.mrs), "key": d.mem.Count(), "cq": len(d.cqs), "qp": len(d.qps), "srq": len(d.srqs),
		"xrcd": len(d.xrcds), "ah": len(d.handles), "buffer": len(d.buffers), "client": len(*d.clients.Load()), "connected": d.connected,
	}
}

// TestClientsDoEverything: every operation between two clients of two devices, and
// between two of the same one.
func TestClientsDoEverything(t *testing.T) {
	for _, same := range []bool{false, true} {
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
			r := newRig(t, rigOptions{queues: 2, crossed: true})
			before := objects(r.a)
			ca, a := client(t, r.a, &ClientConfig{Name: "a"})
			other := r.b
			if same {
				other = r.a
			}
			cb, b := client(t, other, &ClientConfig{Name: "b"})
			p, err := verbstest.NewPair(typ, a, b, verbstest.Options{BufferSize: 1 << 18})
			if err != nil {
				t.Fatalf("%v, same device %v: %v", typ, same, err)
			}
			sizes := []int{0, 1, 4096, 100_000}
			if typ == verbs.UD {
				sizes = []int{0, 1, 4096}
			}
			if err := errors.Join(p.Every(sizes...), p.Reverse().Every(sizes...)); err != nil {
				t.Errorf("%v, same device %v: %v", typ, same, err)
			}
			if err := errors.Join(a.Close(), b.Close()); err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(before, objects(r.a)); d != "" {
				t.Errorf("left after close (-before +after):\n%s", d)
			}
			for _, c := range []*Client{ca, cb} {
				if u := c.Usage(); u != (Usage{}) {
					t.Errorf("%s still has %+v", c.ClientName(), u)
				}
			}
		}
	}
}

// TestClientLimits: a client gets as much as it may have, and again what it gives
// back.
func TestClientLimits(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, _ := client(t, r.a, &ClientConfig{Name: "small", Limits: Limits{PDs: 1, MRs: 2, CQs: 1, QPs: 1, SRQs: 1, AHs: 1, XRCDs: 1, Bytes: 8192}})
	buf := make([]byte, 8192)
	var pd uint32
	var mr verbs.ProviderMR
	var q verbs.ProviderCQ
	first := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	pd, err = c.AllocPD()
	first(err)
	mr, err = c.RegisterMemory(pd, buf[:4096], ibv.AccessLocalWrite)
	first(err)
	q, err = c.CreateCQ(1)
	first(err)
	av := ibv.AddressVector{DGID: gidOf(addrB)}
	attrs := &verbs.ProviderQPInit{PD: pd, Type: ibv.QPTypeRC, SendCQ: q, RecvCQ: q}
	srq := &verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}}
	kinds := []struct {
		name string
		make func() (undo func() error, err error)
	}{
		{"pd", func() (func() error, error) {
			pd, err := c.AllocPD()
			return func() error { return c.DeallocPD(pd) }, err
		}},
		{"bytes", func() (func() error, error) {
			mr, err := c.RegisterMemory(pd, buf[:4097], 0)
			return func() error { return c.DeregisterMemory(mr) }, err
		}},
		{"grown region", func() (func() error, error) {
			_, err := c.ReregisterMemory(mr, &verbs.ProviderRereg{Flags: ibv.ReregTranslation, Buf: make([]byte, 8193)})
			return nil, err
		}},
		{"cq", func() (func() error, error) {
			q, err := c.CreateCQ(1)
			if err != nil {
				return nil, err
			}
			return q.Destroy, nil
		}},
	}
	for _, k := range kinds {
		if _, err := k.make(); !errors.Is(err, ErrLimit) {
			t.Errorf("one %s too many: %v, want ErrLimit", k.name, err)
		}
	}
	for _, k := range []struct {
		name string
		make func() (undo func() error, err error)
	}{
		{"mr", func() (func() error, error) {
			mr, err := c.RegisterMemory(pd, buf[:4096], 0)
			return func() error { return c.DeregisterMemory(mr) }, err
		}},
		{"mw", func() (func() error, error) {
			mw, err := c.AllocMW(pd, ibv.MWType2)
			return func() error { return c.DeallocMW(mw) }, err
		}},
		{"qp", func() (func() error, error) {
			q, err := c.CreateQP(attrs)
			if err != nil {
				return nil, err
			}
			return q.Destroy, nil
		}},
		{"srq", func() (func() error, error) {
			s, err := c.CreateSRQ(srq)
			if err != nil {
				return nil, err
			}
			return s.Destroy, nil
		}},
		{"ah", func() (func() error, error) {
			h, err := c.CreateAH(t.Context(), pd, &av)
			return func() error { return c.DestroyAH(h) }, err
		}},
		{"xrcd", func() (func() error, error) {
			h, err := c.OpenXRCD(&verbs.XRCDInitAttr{})
			return func() error { return c.CloseXRCD(h) }, err
		}},
	} {
		for range 3 {
			undo, err := k.make()
			if err != nil {
				t.Fatalf("%s within the limit: %v", k.name, err)
			}
			if _, err := k.make(); !errors.Is(err, ErrLimit) {
				t.Errorf("one %s too many: %v, want ErrLimit", k.name, err)
			}
			if err := undo(); err != nil {
				t.Errorf("%s: %v", k.name, err)
			}
		}
	}
	if u := c.Usage(); u != (Usage{PDs: 1, MRs: 1, CQs: 1, Bytes: 4096}) {
		t.Errorf("usage %+v", u)
	}
	if p := c.PDs(); len(p) != 1 || p[0] != (PDUse{PD: pd, Objects: 1}) {
		t.Errorf("protection domains %+v, want %d with the region in it", p, pd)
	}
	a, err := c.QueryDevice()
	if err != nil || a.MaxQP != 1 || a.MaxMR != 2 || a.MaxMRSize != 8192 {
		t.Errorf("attributes %+v, %v", a, err)
	}
}

// TestClientsHaveNoPartInEachOther: no object of a client exists for another.
func TestClientsHaveNoPartInEachOther(t *testing.T) {
	r := newRig(t, rigOptions{})
	mine, _ := client(t, r.a, &ClientConfig{Name: "mine", Owner: "1"})
	c, _ := client(t, r.a, &ClientConfig{Name: "another", Owner: "2"})
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pd, err := mine.AllocPD()
	try(err)
	own, err := c.AllocPD()
	try(err)
	mr, err := mine.RegisterMemory(pd, make([]byte, 64), ibv.AccessLocalWrite)
	try(err)
	mw, err := mine.AllocMW(pd, ibv.MWType1)
	try(err)
	fast, err := mine.AllocFastMR(pd, 64)
	try(err)
	buf, err := mine.AllocBuffer(64)
	try(err)
	cq, err := mine.CreateCQ(4)
	try(err)
	ownCQ, err := c.CreateCQ(4)
	try(err)
	srq, err := mine.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	try(err)
	xrcd, err := mine.OpenXRCD(&verbs.XRCDInitAttr{Name: "shared", Create: true})
	try(err)
	target, err := mine.CreateQP(&verbs.ProviderQPInit{Type: ibv.QPTypeXRCRecv, XRCD: xrcd})
	try(err)
	av := &ibv.AddressVector{DGID: gidOf(addrB)}
	ah, err := mine.CreateAH(t.Context(), pd, av)
	try(err)
	first := func(_ any, err error) error { return err }
	qp := func(init verbs.ProviderQPInit) error {
		init.Type = ibv.QPTypeRC
		return first(c.CreateQP(&init))
	}
	for name, err := range map[string]error{
		"dealloc pd":          c.DeallocPD(pd),
		"register in pd":      first(c.RegisterMemory(pd, make([]byte, 8), 0)),
		"share in pd":         first(c.RegisterShared(pd, 0, make([]byte, 8), 0)),
		"implicit in pd":      first(c.RegisterImplicit(pd, 0)),
		"window in pd":        first(c.AllocMW(pd, ibv.MWType1)),
		"fast region in pd":   first(c.AllocFastMR(pd, 8)),
		"handle in pd":        first(c.CreateAH(t.Context(), pd, av)),
		"advise in pd":        c.AdviseMemory(pd, ibv.AdvisePrefetch, nil),
		"deregister":          c.DeregisterMemory(mr),
		"reregister":          first(c.ReregisterMemory(mr, &verbs.ProviderRereg{Flags: ibv.ReregAccess})),
		"reregister into":     first(mine.ReregisterMemory(mr, &verbs.ProviderRereg{Flags: ibv.ReregPD, PD: own})),
		"dealloc window":      c.DeallocMW(mw),
		"dealloc fast region": c.DeallocFastMR(fast),
		"free buffer":         c.FreeBuffer(buf),
		"destroy handle":      c.DestroyAH(ah),
		"qp in pd":            qp(verbs.ProviderQPInit{PD: pd, SendCQ: ownCQ, RecvCQ: ownCQ}),
		"qp with send cq":     qp(verbs.ProviderQPInit{PD: own, SendCQ: cq, RecvCQ: ownCQ}),
		"qp with recv cq":     qp(verbs.ProviderQPInit{PD: own, SendCQ: ownCQ, RecvCQ: cq}),
		"qp with srq":         qp(verbs.ProviderQPInit{PD: own, SendCQ: ownCQ, RecvCQ: ownCQ, SRQ: srq}),
		"srq in pd":           first(c.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}})),
		"srq in domain":       first(c.CreateSRQ(&verbs.ProviderSRQInit{PD: own, Attr: ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}, XRCD: xrcd, CQ: ownCQ})),
		"target in domain":    first(c.CreateQP(&verbs.ProviderQPInit{Type: ibv.QPTypeXRCRecv, XRCD: xrcd})),
		"open target":         first(c.OpenQP(xrcd, target.QPN())),
		"close domain":        c.CloseXRCD(xrcd),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s of another: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := c.OpenXRCD(&verbs.XRCDInitAttr{Name: "shared"}); err == nil {
		t.Error("the domain of another owner's name was opened")
	}
	if _, err := c.CreateQP(&verbs.ProviderQPInit{PD: own, Type: ibv.QPTypeGSI, SendCQ: ownCQ, RecvCQ: ownCQ}); !errors.Is(err, ErrPermission) {
		t.Errorf("queue pair 1 without privilege: %v", err)
	}
}

// TestClientEvents: an event goes to who owns what it is about, and those of the port
// to all.
func TestClientEvents(t *testing.T) {
	r := newRig(t, rigOptions{})
	mine, ctx := client(t, r.a, &ClientConfig{Name: "mine"})
	other, _ := client(t, r.a, &ClientConfig{Name: "other"})
	p, err := verbstest.NewPair(verbs.RC, ctx, r.cb, verbstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Send(8, false); err != nil {
		t.Fatal(err)
	}
	r.a.reportPort(ibv.EventLIDChange)
	for _, c := range []*Client{mine, other, r.a.root} {
		within, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
		for {
			e, err := c.NextEvent(within)
			if err != nil {
				t.Fatalf("%s: %v", c.ClientName(), err)
			}
			if e.Type == ibv.EventLIDChange {
				break
			}
			if c != mine {
				t.Errorf("%s has event %v", c.ClientName(), e.Type)
			}
		}
		cancel()
	}
	ended := make(chan error)
	go func() {
		_, err := other.NextEvent(context.Background())
		ended <- err
	}()
	time.Sleep(time.Millisecond)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("NextEvent of a closed client: %v", err)
	}
	if _, err := other.AllocPD(); !errors.Is(err, ErrClosed) {
		t.Errorf("AllocPD of a closed client: %v", err)
	}
}

// TestClientGroups: attachments to multicast groups count for the client.
func TestClientGroups(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, _ := client(t, r.a, &ClientConfig{Name: "one", Limits: Limits{Groups: 2}})
	pd, err := c.AllocPD()
	must(t, err)
	q, err := c.CreateCQ(4)
	must(t, err)
	qp, err := c.CreateQP(&verbs.ProviderQPInit{PD: pd, Type: ibv.QPTypeUD, SendCQ: q, RecvCQ: q})
	must(t, err)
	group := func(n byte) ibv.GID { return gidOf(netip.AddrFrom4([4]byte{239, 1, 1, n})) }
	for range 2 {
		must(t, errors.Join(qp.AttachMulticast(group(1)), qp.AttachMulticast(group(2)), qp.AttachMulticast(group(2))))
		if err := qp.AttachMulticast(group(3)); !errors.Is(err, ErrLimit) {
			t.Errorf("a third attachment: %v, want ErrLimit", err)
		}
		if n := len(r.joined[0].groups); n != 2 {
			t.Errorf("the host has joined %d groups", n)
		}
		must(t, qp.DetachMulticast(group(1)))
		must(t, qp.AttachMulticast(group(1)))
		must(t, errors.Join(qp.DetachMulticast(group(1)), qp.DetachMulticast(group(2))))
	}
	must(t, qp.AttachMulticast(group(1)))
	must(t, c.Close())
	if u := c.Usage(); u != (Usage{}) || len(r.joined[0].groups) != 0 {
		t.Errorf("a closed client has %+v, the host %d groups", u, len(r.joined[0].groups))
	}
}
