package impair

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// ErrRate reports a probability outside of 0 to 1.
var ErrRate = errors.New("impair: not a probability")

// Rates are the probabilities, from 0 to 1, of what may happen to a frame. A
// frame that is dropped is not duplicated. Of a duplicated frame only one copy may
// be corrupted, by one bit behind the Ethernet header.
type Rates struct {
	Drop, Duplicate, Corrupt float64
}

// Counts say what has happened to RoCE frames of one direction.
type Counts struct {
	Frames                         uint64 // seen, before anything happened to them
	Dropped, Duplicated, Corrupted uint64
}

// Direction is where frames come from.
type Direction int

// Directions.
const (
	FromA Direction = iota // to B
	FromB                  // to A
)

// Link is the link between two hosts, good until Set makes it bad.
type Link struct {
	configs, counts [2]*ebpf.Map // by Direction, one element each
}

// config is what the program goes by; its layout is that of the off constants.
type config struct {
	Seed                     uint64
	Other                    uint64 // index of the other port's interface
	Drop, Duplicate, Corrupt uint64 // a random 32-bit number below it says yes
}

// New takes over the link of hosts, which must have been made with
// PairOptions.Bridge; until Set nothing happens to frames.
func New(hosts *netns.Pair, seed uint64) (*Link, error) {
	if hosts.Bridge == nil {
		return nil, errors.New("impair: the hosts have no bridge between them: set PairOptions.Bridge")
	}
	l := &Link{}
	err := hosts.Bridge.Do(func() error {
		for dir := range l.configs {
			if err := l.attach(dir, hosts.Taps, seed); err != nil {
				return fmt.Errorf("impair: port %s: %w", hosts.Taps[dir], err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// attach puts the program on the port where frames of a direction come in.
func (l *Link) attach(dir int, ports [2]string, seed uint64) error {
	in, err := netlink.LinkByName(ports[dir])
	if err != nil {
		return err
	}
	out, err := netlink.LinkByName(ports[1-dir])
	if err != nil {
		return err
	}
	if l.configs[dir], err = oneElement("config", configSize); err != nil {
		return err
	}
	if l.counts[dir], err = oneElement("counts", countsSize); err != nil {
		return err
	}
	if err := l.configs[dir].Put(uint32(0), &config{Seed: mixSeed(seed, dir), Other: uint64(out.Attrs().Index)}); err != nil {
		return err
	}
	prog, err := ebpf.NewProgram(program(l.configs[dir].FD(), l.counts[dir].FD()))
	if err != nil {
		return fmt.Errorf("load program: %w", err)
	}
	defer prog.Close() // the filter holds it
	return filterIngress(in.Attrs().Index, prog.FD())
}

func oneElement(name string, size uint32) (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: size, MaxEntries: 1})
}

// mixSeed gives both directions sequences that have nothing to do with each
// other.
func mixSeed(seed uint64, dir int) uint64 { return (seed + uint64(dir) + 1) * 0xd1342543de82ef95 }

func filterIngress(index, prog int) error {
	err := netlink.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	})
	if err != nil {
		return fmt.Errorf("add clsact: %w", err)
	}
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL},
		Fd:          prog, Name: "impair", DirectAction: true,
	})
}

// Set changes the probabilities of a direction. Errors: ErrRate.
func (l *Link) Set(dir Direction, r Rates) error {
	var c config
	if err := l.configs[dir].Lookup(uint32(0), &c); err != nil {
		return fmt.Errorf("impair: read the rates: %w", err)
	}
	for _, f := range []struct {
		to   *uint64
		rate float64
	}{{&c.Drop, r.Drop}, {&c.Duplicate, r.Duplicate}, {&c.Corrupt, r.Corrupt}} {
		if !(f.rate >= 0 && f.rate <= 1) {
			return fmt.Errorf("%w: %v", ErrRate, f.rate)
		}
		*f.to = uint64(f.rate * (math.MaxUint32 + 1))
	}
	return l.configs[dir].Put(uint32(0), &c)
}

// SetBoth is Set for both directions.
func (l *Link) SetBoth(r Rates) error { return errors.Join(l.Set(FromA, r), l.Set(FromB, r)) }

// Counts tells what has happened so far to frames of a direction.
func (l *Link) Counts(dir Direction) (c Counts, err error) {
	if err := l.counts[dir].Lookup(uint32(0), &c); err != nil {
		return c, fmt.Errorf("impair: read the counts: %w", err)
	}
	return c, nil
}

// Close ends the use of l. The link stays as bad as it is until its hosts are
// closed.
func (l *Link) Close() error {
	var errs []error
	for _, m := range append(l.configs[:], l.counts[:]...) {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// ForTest makes the link of hosts a bad one for as long as the test.
func ForTest(t netns.TB, hosts *netns.Pair, seed uint64) *Link {
	t.Helper()
	l, err := New(hosts, seed)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Fatalf("%v", err)
		}
	})
	return l
}
