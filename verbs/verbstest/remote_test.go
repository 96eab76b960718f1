package verbstest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestDevicesOfADaemon(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	d := daemontest.Start(t, a, serve.Config{})
	t.Setenv(session.DirVariable, d.Dir)
	w := &world{T: t}
	all := get[[]verbs.DeviceInfo](w)(verbs.Devices())
	attr := get[verbs.DeviceAttr](w)(a.QueryDevice())
	if len(all) != 1 || all[0] != (verbs.DeviceInfo{Name: "mem0", NodeGUID: attr.NodeGUID, IfIndex: 1, State: verbs.PortActive}) {
		t.Errorf("%+v", all)
	}
	only := get[*verbs.Context](w)(verbs.Open(""))
	if only.Name() != "mem0" {
		t.Error(only.Name())
	}
	w.ok(only.Close())
	_, err := verbs.Open("eth7")
	w.is("a device that is not there", err, verbs.ErrNoDevice)
	if err == nil || !strings.Contains(err.Error(), "mem0") {
		t.Errorf("the error does not say what there is: %v", err)
	}
	_, err = verbs.Open(strings.Repeat("x", 100))
	w.is("a name that none can have", err, verbs.ErrNoDevice)

	w.ok(d.Server.AddDevice(b))
	all = get[[]verbs.DeviceInfo](w)(verbs.Devices())
	if len(all) != 2 || all[1].Name != "mem1" {
		t.Errorf("%+v", all)
	}
	_, err = verbs.Open("")
	w.is("one of two", err, verbs.ErrNoDevice)
	if err == nil || !strings.Contains(err.Error(), "mem0, mem1") {
		t.Errorf("the error does not say what there is: %v", err)
	}
}

func TestNoDaemon(t *testing.T) {
	w := &world{T: t}
	dir := t.TempDir()
	t.Setenv(session.DirVariable, dir)
	for name, f := range map[string]func() error{
		"open":    func() error { return second(verbs.Open("mem0")) },
		"devices": func() error { return second(verbs.Devices()) },
	} {
		err := f()
		w.is(name, err, verbs.ErrNoDaemon)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, session.SocketName)) || !strings.Contains(err.Error(), "roce-xdp run") {
			t.Errorf("%s: the error does not say what to do: %v", name, err)
		}
	}
}

func TestPolicyOfTheDaemon(t *testing.T) {
	w := &world{T: t}
	a, _ := datapathtest.Pair(t, datapathtest.Options{})
	var policy atomic.Pointer[func() (serve.Limits, error)]
	set := func(l serve.Limits, err error) {
		f := func() (serve.Limits, error) { return l, err }
		policy.Store(&f)
	}
	set(serve.Limits{Devices: []string{}}, nil)
	d := daemontest.Start(t, a, serve.Config{Policy: func(serve.Cred) (serve.Limits, error) { return (*policy.Load())() }})
	t.Setenv(session.DirVariable, d.Dir)
	_, err := verbs.Open("mem0")
	w.is("a device of others", err, verbs.ErrPermission)
	_, err = verbs.Open("")
	w.is("no device at all", err, verbs.ErrNoDevice)

	set(serve.Limits{QPs: 1, Memory: 1 << 20, NoIndirect: true}, nil)
	dev := d.Open(t)
	pd := get[*verbs.PD](w)(dev.AllocPD())
	cq := get[*verbs.CQ](w)(dev.CreateCQ(16))
	init := &verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}
	qp := get[*verbs.QP](w)(pd.CreateQP(init))
	_, err = pd.CreateQP(init)
	w.is("a second queue pair", err, verbs.ErrLimit)
	w.ok(qp.Destroy())
	w.ok(get[*verbs.QP](w)(pd.CreateQP(init)).Destroy())
	_, err = dev.AllocBuffer(1 << 20)
	w.is("a large buffer", err, verbs.ErrLimit)
	_, err = pd.RegisterMemory(make([]byte, 64), verbs.AccessLocalWrite)
	w.is("memory of the program's own", err, verbs.ErrPermission)

	set(serve.Limits{}, errors.New("not today"))
	_, err = verbs.Open("mem0")
	w.is("a user that may not", err, verbs.ErrPermission)
	if err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("the error does not say why: %v", err)
	}
}

// What a program learns when its daemon ends: that it did, at once and once, and
// nothing that hangs or faults. It opens the next daemon like the first.
func TestTheDaemonEnds(t *testing.T) {
	w := &world{T: t}
	devA, devB := datapathtest.Pair(t, datapathtest.Options{})
	first := daemontest.Start(t, devA, serve.Config{})
	other := daemontest.Start(t, devB, serve.Config{})
	a, b := first.Open(t), other.Open(t)
	p := get[*verbstest.Pair](w)(verbstest.NewRCPair(a, b, verbstest.Options{Retry: 1, Timeout: 8}))
	sub := get[*verbs.Events](w)(a.Subscribe())
	w.ok(p.Every(1000))

	waiting := make(chan error, 1)
	go func() {
		var wcs [1]verbs.WC
		_, err := p.A.CQ.Wait(t.Context(), wcs[:])
		waiting <- err
	}()
	first.Stop(t)
	w.is("what waited for a completion", <-waiting, verbs.ErrClosed)
	for _, r := range []func() (verbs.AsyncEvent, error){
		func() (verbs.AsyncEvent, error) { return a.NextEvent(w.soon()) },
		func() (verbs.AsyncEvent, error) { return sub.Next(w.soon()) },
	} {
		e := get[verbs.AsyncEvent](w)(r())
		if e.Type != verbs.EventDeviceFatal {
			t.Errorf("%+v", e)
		}
		_, err := r()
		w.is("after the last event", err, verbs.ErrClosed)
	}
	_, err := a.Subscribe()
	w.is("a reader that comes later", err, verbs.ErrClosed)
	w.is("post a send", p.A.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpSend}), verbs.ErrClosed)
	w.is("post a receive", p.A.QP.PostRecv(&verbs.RecvWR{}), verbs.ErrClosed)
	w.is("the queue", p.A.CQ.Err(), verbs.ErrClosed)
	_, err = a.QueryPort()
	w.is("query the port", err, verbs.ErrClosed)
	p.A.Buf[0]++ // memory stays until it is given back
	w.ok(p.A.QP.Destroy())
	w.ok(p.A.MR.Deregister())
	w.ok(a.FreeBuffer(p.A.Buf))
	w.ok(a.Close())

	again := daemontest.Start(t, devA, serve.Config{}).Open(t)
	w.ok(get[*verbstest.Pair](w)(verbstest.NewRCPair(again, b, verbstest.Options{})).Every(1000))
}

// Descriptors and mappings do not grow with the number of queue pairs, and nothing is
// left of a program that has closed its device.
func TestFewDescriptorsAndMappings(t *testing.T) {
	w := &world{T: t}
	a, _ := datapathtest.Pair(t, datapathtest.Options{})
	d := daemontest.Start(t, a, serve.Config{})
	fds := countFiles(t)
	dev := d.Open(t)
	pd := get[*verbs.PD](w)(dev.AllocPD())
	cq := get[*verbs.CQ](w)(dev.CreateCQ(1000))
	before, maps := countFiles(t), countMappings(t)
	for range 500 {
		get[*verbs.QP](w)(pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}))
		get[[]byte](w)(dev.AllocBuffer(4096))
	}
	// Both ends are this process: each segment is a descriptor and two mappings.
	if n, m := countFiles(t)-before, countMappings(t)-maps; n > 16 || m > 60 {
		t.Errorf("%d descriptors and %d mappings for 500 queue pairs and buffers", n, m)
	}
	w.ok(dev.Close())
	d.Stop(t)
	if n := countFiles(t); n > fds {
		t.Errorf("%d descriptors before, %d after", fds, n)
	}
}

func countFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func countMappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}
