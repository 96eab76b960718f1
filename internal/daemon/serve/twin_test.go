package serve

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	program "github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// twin are two daemons, each with an end of a link.
type twin struct {
	srv [2]*Server
	dev [2]*verbs.Context
	dir [2]string
}

func newTwin(t testing.TB, cfg Config) *twin {
	t.Helper()
	w := &twin{}
	w.dev[0], w.dev[1] = datapathtest.Pair(t, datapathtest.Options{})
	for i := range w.srv {
		w.srv[i], w.dir[i] = New(cfg), t.TempDir()
		if err := w.srv[i].AddDevice(w.dev[i]); err != nil {
			t.Fatal(err)
		}
		serveAt(t, w.srv[i], filepath.Join(w.dir[i], program.SocketName))
	}
	return w
}

// open opens the device of a side through its daemon, for the test.
func (w *twin) open(t testing.TB, side int) *verbs.Context {
	t.Helper()
	c, err := w.client(t, side)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func (w *twin) client(t testing.TB, side int) (*verbs.Context, error) {
	t.Helper()
	t.Setenv(program.DirVariable, w.dir[side])
	return verbs.Open("")
}

var typesOfPairs = []verbs.QPType{verbs.RC, verbs.UC, verbs.UD, verbs.XRCSend}

// Two programs at two daemons exchange messages of all kinds; memory is compared.
func TestTraffic(t *testing.T) {
	w := newTwin(t, Config{})
	a, b := w.open(t, 0), w.open(t, 1)
	for _, typ := range typesOfPairs {
		t.Run(typ.String(), func(t *testing.T) {
			p, err := verbstest.NewPair(typ, a, b, verbstest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			sizes := []int{0, 1, 1024, 4096, 4097, 100_000}
			if typ == verbs.UD {
				sizes = []int{0, 1, 1024}
			}
			for _, p := range []*verbstest.Pair{p, p.Reverse()} {
				if err := p.Every(sizes...); err != nil {
					t.Error(err)
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Two programs at one daemon reach each other too.
func TestLoopback(t *testing.T) {
	w := newTwin(t, Config{})
	p := verbstest.RCPair(t, w.open(t, 0), w.open(t, 0), verbstest.Options{})
	if err := p.Every(0, 1, 4096, 50_000); err != nil {
		t.Error(err)
	}
}

// Memory that is not of AllocBuffer is reached through the program's own descriptor.
func TestOwnMemory(t *testing.T) {
	w := newTwin(t, Config{})
	a, b := w.open(t, 0), w.open(t, 1)
	p := verbstest.RCPair(t, a, b, verbstest.Options{})
	own := make([]byte, 64<<10)
	verbstest.Fill(own, 7)
	mr, err := p.A.PD.RegisterMemory(own, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	write := verbs.SendWR{
		WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, len(own))},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(),
	}
	if err := p.A.Post(write); err != nil {
		t.Fatal(err)
	}
	if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil {
		t.Fatal(err)
	}
	if string(p.B.Buf[:len(own)]) != string(own) {
		t.Error("what was written is not what was there")
	}
	clear(own)
	read := verbs.SendWR{
		WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.B.MR.SGE(0, len(own))},
		RemoteAddr: mr.Addr(), RKey: mr.RKey(),
	}
	if err := p.B.Post(read); err != nil {
		t.Fatal(err)
	}
	if _, err := p.B.Done(2, verbs.WCRDMARead); err != nil {
		t.Fatal(err)
	}
	for i, v := range p.B.Buf[:len(own)] {
		if v != 0 {
			t.Fatalf("byte %d is %#x after reading zeros", i, v)
		}
	}
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
}

// A device that is removed ends its clients alone.
func TestRemoveDevice(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	srv, dir := New(Config{}), t.TempDir()
	for _, d := range []*verbs.Context{a, b} {
		if err := srv.AddDevice(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := srv.AddDevice(a); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("added twice: %v", err)
	}
	serveAt(t, srv, filepath.Join(dir, program.SocketName))
	t.Setenv(program.DirVariable, dir)
	list, err := verbs.Devices()
	if err != nil || len(list) != 2 || list[0].Name != "mem0" || list[1].Name != "mem1" {
		t.Fatal(list, err)
	}
	if _, err := verbs.Open(""); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("open without a name: %v", err)
	}
	one, two := openNamed(t, "mem0"), openNamed(t, "mem1")
	if err := srv.RemoveDevice(t.Context(), "mem0"); err != nil {
		t.Fatal(err)
	}
	if err := srv.RemoveDevice(t.Context(), "mem0"); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := one.AllocPD(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("a call: %v", err)
	}
	if _, err := two.AllocPD(); err != nil {
		t.Error(err)
	}
	if _, err := verbs.Open("mem0"); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("open: %v", err)
	}
	if err := srv.AddDevice(a); err != nil {
		t.Fatal(err)
	}
	if _, err := openNamed(t, "mem0").AllocPD(); err != nil {
		t.Error(err)
	}
}

func openNamed(t *testing.T, name string) *verbs.Context {
	t.Helper()
	c, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
