package integration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

const hugePage = 2 << 20

var inHugePages = datapath.Options{HugePages: true, Queues: 1, Frames: 512, RingSize: 256}

// lack is what a device says of its huge pages.
func lack(dev *verbs.Context) error {
	_, err := dev.Provider().(*datapath.Device).HugePages()
	return err
}

// TestHugePages: packet memory and the buffers of a daemon's programs are in huge pages.
// A program that takes those of a region away, which others have then, fails, and
// nothing else does.
func TestHugePages(t *testing.T) {
	pages := netns.RaiseHugePages(t, 16)
	settled := func(what string, want int) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); pages.Free() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d huge pages are free, want %d", what, pages.Free(), want)
			}
		}
	}
	before := pages.Free()
	r := newRig(t, netns.PairOptions{MTU: 9000}, &inHugePages)
	for _, dev := range []*verbs.Context{r.a, r.b} {
		if err := lack(dev); err != nil {
			t.Errorf("%s: %v", dev.Name(), err)
		}
	}
	opened := pages.Free()
	if opened >= before {
		t.Errorf("%d huge pages are free with two devices, %d were", opened, before)
	}
	da, db := daemontest.Start(t, r.a, serve.Config{}), daemontest.Start(t, r.b, serve.Config{})
	t.Run("programs", func(t *testing.T) {
		a, b := da.Open(t), db.Open(t)
		p := verbstest.RCPair(t, a, b, verbstest.Options{BufferSize: 2 * hugePage, Timeout: 12, Retry: 2})
		settled("two pages for the buffer of each end", opened-4)
		if err := p.Every(1, 4096, 100_000, hugePage); err != nil {
			t.Error(err)
		}

		_ = unix.Munlock(p.A.Buf) // locked pages cannot be given back
		if err := unix.Madvise(p.A.Buf, unix.MADV_REMOVE); err != nil {
			t.Fatal(err)
		}
		giveBack := pages.Take(pages.Free())
		err := p.B.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.B.MR.SGE(0, 64)}, RemoteAddr: p.A.MR.Addr(), RKey: p.A.MR.RKey()})
		if err != nil {
			t.Fatal(err)
		}
		if wc, err := p.B.Next(); err != nil || wc.Status != verbs.WCRemoteAccess {
			t.Errorf("a write to pages that are gone: %v, %v", wc.Status, err)
		}
		giveBack()
		if err := verbstest.RCPair(t, a, b, verbstest.Options{}).Every(1, 9000); err != nil {
			t.Errorf("the daemon's other queue pairs: %v", err)
		}
	})
	settled("programs have ended", opened)
}

// TestNoHugePages: without enough of them all works in ordinary pages, and says what to
// do.
func TestNoHugePages(t *testing.T) {
	pages := netns.RaiseHugePages(t, 1)
	pages.Take(pages.Free())
	r := newRig(t, netns.PairOptions{MTU: 9000}, &inHugePages)
	for _, dev := range []*verbs.Context{r.a, r.b} {
		if err := lack(dev); err == nil || !strings.Contains(err.Error(), "raise vm.nr_hugepages") {
			t.Errorf("%s says %v", dev.Name(), err)
		}
	}
	a := daemontest.Start(t, r.a, serve.Config{}).Open(t)
	p := verbstest.RCPair(t, a, r.b, verbstest.Options{BufferSize: 2 * hugePage})
	if err := p.Every(1, 4096, hugePage); err != nil {
		t.Error(fmt.Errorf("in ordinary pages: %w", err))
	}
}
