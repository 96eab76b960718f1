package integration_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestLoss runs every operation, both ways at once, over a link that loses one
// frame in a hundred each way.
func TestLoss(t *testing.T) {
	for _, link := range []int{1500, 9000} {
		t.Run(fmt.Sprintf("link %d", link), func(t *testing.T) {
			r := newRig(t, netns.PairOptions{MTU: link, Bridge: true, StaticNeighbors: true}, nil)
			o := verbstest.Options{BufferSize: 1<<20 + 4096, Timeout: 12}
			pairs := []*verbstest.Pair{r.pair(t, o), r.pair(t, o).Reverse()}
			bad := loseFrames(t, r.hosts)
			bad.set(t, 0.01)
			var wg sync.WaitGroup
			for i, p := range pairs {
				wg.Go(func() {
					for range soak(2, 40) {
						if err := p.Every(1, p.MTU.Bytes(), 50_000, 1<<20); err != nil {
							t.Errorf("direction %d: %v", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			if bad.dropped(t) == 0 {
				t.Error("the link has lost nothing")
			}
			a := counters(t, r.a)
			if a["completer_retry_err"]+a["rcvd_seq_err"]+a["implied_nak"] == 0 {
				t.Errorf("%d frames were lost and nothing was sent again", bad.dropped(t))
			}
			t.Logf("lost %d frames; A was told of %d gaps, timed out or restarted %d times", bad.dropped(t), a["rcvd_seq_err"], a["completer_retry_err"])
		})
	}
}

// lossyBridge drops a share of what enters the bridge between two hosts.
type lossyBridge struct {
	threshold *ebpf.Map // a frame is dropped when a random 32-bit number is below it
	drops     *ebpf.Map // how many were
}

// loseFrames puts the dropping program, which drops nothing yet, on both ports
// of the hosts' bridge.
func loseFrames(t *testing.T, hosts *netns.Pair) *lossyBridge {
	t.Helper()
	l := &lossyBridge{threshold: word(t), drops: word(t)}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lossy", Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.Mov.Reg32(asm.R6, asm.R0),
		asm.LoadMapValue(asm.R1, l.threshold.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.JGE.Reg(asm.R6, asm.R1, "pass"),
		asm.LoadMapValue(asm.R1, l.drops.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 2), // TC_ACT_SHOT
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("pass"), // TC_ACT_OK
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	err = hosts.Bridge.Do(func() error {
		for _, port := range hosts.Taps {
			if err := filterIngress(port, prog.FD()); err != nil {
				return fmt.Errorf("%s: %w", port, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func filterIngress(name string, prog int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	err = netlink.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	})
	if err != nil {
		return fmt.Errorf("add clsact: %w", err)
	}
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL},
		Fd:          prog, Name: "lossy", DirectAction: true,
	})
}

// word is a map of one 64-bit word.
func word(t *testing.T) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "word", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// set changes the share of frames that is dropped, 0 to 1.
func (l *lossyBridge) set(t *testing.T, share float64) {
	t.Helper()
	if err := l.threshold.Put(uint32(0), uint64(share*(math.MaxUint32+1))); err != nil {
		t.Fatal(err)
	}
}

// dropped is how many frames were.
func (l *lossyBridge) dropped(t *testing.T) (n uint64) {
	t.Helper()
	if err := l.drops.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
