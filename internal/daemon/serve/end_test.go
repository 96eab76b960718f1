package serve

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	rdmacm "github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// orphan is a program with one of everything, whose daemon is about to end.
type orphan struct {
	dev  *verbs.Context
	p    *verbstest.Pair // its end is A
	srq  *verbs.SRQ
	spun *verbs.CQ // that nobody waits for
	conn *rdmacm.Conn
}

func newOrphan(t *testing.T, a, b *verbs.Context) *orphan {
	t.Helper()
	o := &orphan{dev: a}
	var err error
	if o.p, err = verbstest.NewRCPair(a, b, verbstest.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := o.p.Send(100, false); err != nil {
		t.Fatal(err)
	}
	if o.srq, err = o.p.A.PD.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 16, MaxSGE: 1}); err != nil {
		t.Fatal(err)
	}
	if o.spun, err = a.CreateCQ(16); err != nil {
		t.Fatal(err)
	}
	l, err := rdmacm.Listen(b, "192.0.2.2:7471", nil)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept(t.Context())
		if err == nil {
			t.Cleanup(func() { _ = errors.Join(c.Close(), l.Close()) })
		}
		accepted <- err
	}()
	if o.conn, err = rdmacm.Dial(t.Context(), a, "192.0.2.2:7471", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	return o
}

// waits are the calls that a program may be blocked in, by their names; each ends with what
// it says at the end of the daemon.
func (o *orphan) waits(t *testing.T) map[string]<-chan error {
	t.Helper()
	l, err := rdmacm.Listen(o.dev, "192.0.2.1:7471", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	sub, err := o.dev.Subscribe(verbs.EventDeviceFatal)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	all := map[string]<-chan error{}
	for name, call := range map[string]func() error{
		"Wait":      func() error { _, err := o.p.A.CQ.Wait(ctx, make([]verbs.WC, 1)); return err },
		"WaitEvent": func() error { return o.spun.WaitEvent(ctx) },
		"NextEvent": func() error { return lastEvent(func() (verbs.AsyncEvent, error) { return o.dev.NextEvent(ctx) }) },
		"Next":      func() error { return lastEvent(func() (verbs.AsyncEvent, error) { return sub.Next(ctx) }) },
		"Accept":    func() error { _, err := l.Accept(ctx); return err },
		"Dial": func() error { // nobody answers there
			_, err := rdmacm.Dial(ctx, o.dev, "192.0.2.99:7471", nil)
			return err
		},
		"Conn": func() error { <-o.conn.Done(); return o.conn.Err() },
	} {
		ended := make(chan error, 1)
		go func() { ended <- call() }()
		all[name] = ended
	}
	return all
}

// lastEvent reads events until they end, of which DEVICE_FATAL has to be one, and returns
// what is said then.
func lastEvent(next func() (verbs.AsyncEvent, error)) error {
	fatal := false
	for {
		e, err := next()
		switch {
		case err != nil && !fatal:
			return errors.New("no DEVICE_FATAL before: " + err.Error())
		case err != nil:
			return err
		}
		fatal = fatal || e.Type == verbs.EventDeviceFatal
	}
}

// calls are those that a program may make afterwards, but for those that give something back.
func (o *orphan) calls(ctx context.Context) map[string]error {
	a := o.p.A
	buf := make([]byte, 64)
	wcs := make([]verbs.WC, 1)
	gid := a.GID.GID
	calls := map[string]error{
		"PostSend":    a.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpSend}),
		"PostRecv":    a.QP.PostRecv(&verbs.RecvWR{}),
		"PostSRQRecv": o.srq.PostRecv(&verbs.RecvWR{}),
		"CQ.Err":      o.spun.Err(),
		"Resize":      o.spun.Resize(32),
		"CQ.Modify":   o.spun.Modify(2, time.Millisecond),
		"Modify":      a.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState),
		"SRQ.Modify":  o.srq.Modify(&verbs.SRQAttr{Limit: 1}, verbs.SRQAttrLimit),
	}
	_, calls["Wait"] = o.spun.Wait(ctx, wcs)
	calls["WaitEvent"] = o.spun.WaitEvent(ctx)
	_, calls["NextEvent"] = o.dev.NextEvent(ctx)
	_, calls["Subscribe"] = o.dev.Subscribe()
	_, calls["AllocPD"] = o.dev.AllocPD()
	_, calls["AllocBuffer"] = o.dev.AllocBuffer(4096)
	_, calls["CreateCQ"] = o.dev.CreateCQ(16)
	_, calls["CreateQP"] = a.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: a.CQ, RecvCQ: a.CQ})
	_, calls["CreateSRQ"] = a.PD.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 16, MaxSGE: 1})
	_, calls["CreateAH"] = a.PD.CreateAH(&verbs.AddressVector{DGID: gid, Port: 1})
	_, calls["RegisterMemory"] = a.PD.RegisterMemory(buf, verbs.AccessLocalWrite)
	_, calls["AllocMW"] = a.PD.AllocMW(verbs.MWType2)
	_, calls["AllocFastMR"] = a.PD.AllocFastMR(4096)
	_, calls["OpenXRCD"] = o.dev.OpenXRCD(nil)
	_, calls["Query"] = a.QP.Query()
	_, calls["CQ.Query"] = o.spun.Query()
	_, calls["SRQ.Query"] = o.srq.Query()
	_, calls["QueryDevice"] = o.dev.QueryDevice()
	_, calls["QueryPort"] = o.dev.QueryPort()
	_, calls["QueryClock"] = o.dev.QueryClock()
	_, calls["GIDs"] = o.dev.GIDs()
	_, calls["Counters"] = o.dev.Counters()
	_, calls["Resolve"] = o.dev.Resolve(ctx, &verbs.ResolveRequest{Dst: gid.Addr()})
	_, calls["Dial"] = rdmacm.Dial(ctx, o.dev, "192.0.2.2:7471", nil)
	_, calls["Listen"] = rdmacm.Listen(o.dev, "192.0.2.1:7472", nil)
	return calls
}

// The end of a daemon ends the device of its clients, at once: whatever they wait for, or
// ask for from then on, says so in the same words, and what they hold is of use for nothing
// more than to be given back.
func TestEndOfDaemon(t *testing.T) {
	w := newTwin(t, Config{Policy: func(Cred) (Limits, error) { return Limits{Privileged: true}, nil }})
	o := newOrphan(t, w.open(t, 0), w.open(t, 1))
	waits := o.waits(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := w.srv[0].Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for name, ended := range waits {
		select {
		case err := <-ended:
			switch name {
			case "Accept":
				checkEnd(t, "who waits in "+name, err, rdmacm.ErrRemoved)
			case "Dial": // the end comes while it waits, or before, in one of its calls
				if !errors.Is(err, rdmacm.ErrRemoved) {
					checkEnd(t, "who dials", err, verbs.ErrClosed)
				}
			case "Conn": // the peer may have agreed before
				if !errors.Is(err, rdmacm.ErrDisconnected) {
					checkEnd(t, "the connection", err, rdmacm.ErrRemoved)
				}
			default:
				checkEnd(t, "who waits in "+name, err, verbs.ErrClosed)
			}
		case <-ctx.Done():
			t.Errorf("who waits in %s goes on", name)
		}
	}
	for name, err := range o.calls(ctx) {
		checkEnd(t, name, err, verbs.ErrClosed)
	}
	if n := o.spun.Poll(make([]verbs.WC, 1)); n != 0 || o.dev.Progress() {
		t.Errorf("%d completions of nothing, or progress", n)
	}
	if err := errors.Join(o.conn.Close(), o.srq.Destroy(), o.spun.Destroy(), o.p.Close()); err != nil {
		t.Errorf("giving back: %v", err)
	}
	if _, err := w.client(t, 0); !errors.Is(err, verbs.ErrNoDaemon) {
		t.Errorf("open: %v", err)
	}
}

// checkEnd checks that an error tells of the end of the daemon.
func checkEnd(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), "daemon has ended") {
		t.Errorf("%s: %v", what, err)
	}
}
