package xsk

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// answer is what a scripted kernel does on a transmit call.
type answer struct {
	takes int
	errno unix.Errno
}

// scriptedTX returns a transmit half whose kernel follows the script, and the
// number of calls it got. A call beyond the script ends the test.
func scriptedTX(t *testing.T, queued int, script []answer) (*TX, *int) {
	t.Helper()
	p, c, err := ring.Pair[Desc](64, 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	s := &Socket{ifindex: 3, queue: 1, fd: 5, opts: Options{}, rings: &queueRings{fill: ring.EmptyProducer[uint64](), comp: ring.EmptyConsumer[uint64]()}}
	s.rx.ring = ring.EmptyConsumer[Desc]()
	s.tx.ring = p
	s.initHalves()
	s.tx.send = func(fd int) unix.Errno {
		if fd != 5 {
			t.Fatalf("call on descriptor %d", fd)
		}
		if calls == len(script) {
			t.Fatalf("call number %d", calls+1)
		}
		a := script[calls]
		calls++
		if n := c.Take(make([]Desc, a.takes)); n != a.takes {
			t.Fatalf("kernel takes %d of %d", a.takes, n)
		}
		return a.errno
	}
	c.SetNeedWakeup(true)
	if n := s.tx.Submit(make([]Desc, queued)); n != queued {
		t.Fatalf("queued %d of %d", n, queued)
	}
	return &s.tx, &calls
}

func TestKick(t *testing.T) {
	for _, tc := range []struct {
		name   string
		queued int
		script []answer
		want   error
		left   int
		stats  Stats // of which only the kick counters are compared
	}{
		{name: "nothing queued", queued: 0},
		{name: "all in one call", queued: 3, script: []answer{{3, 0}}, stats: Stats{Kicks: 1}},
		{
			name: "budget used up twice", queued: 40, script: []answer{{16, unix.EAGAIN}, {16, unix.EAGAIN}, {8, 0}},
			stats: Stats{Kicks: 3, KickAgain: 2},
		},
		{
			name: "budget used up by the last", queued: 16, script: []answer{{16, unix.EAGAIN}},
			stats: Stats{Kicks: 1, KickAgain: 1},
		},
		{
			name: "stuck at once", queued: 5, script: []answer{{0, unix.EAGAIN}}, left: 5,
			stats: Stats{Kicks: 1, KickAgain: 1, KickLater: 1},
		},
		{
			name: "stuck on the way", queued: 5, script: []answer{{2, unix.EAGAIN}, {0, unix.EAGAIN}}, left: 3,
			stats: Stats{Kicks: 2, KickAgain: 2, KickLater: 1},
		},
		{
			name: "device drops each", queued: 3, script: []answer{{1, unix.EBUSY}, {1, unix.EBUSY}, {1, unix.EBUSY}},
			stats: Stats{Kicks: 3, KickBusy: 3},
		},
		{
			name: "device busy", queued: 3, script: []answer{{0, unix.EBUSY}}, left: 3,
			stats: Stats{Kicks: 1, KickBusy: 1, KickLater: 1},
		},
		{
			name: "no buffers", queued: 3, script: []answer{{1, unix.ENOBUFS}}, left: 2,
			stats: Stats{Kicks: 1, KickNoBufs: 1, KickLater: 1},
		},
		{
			name: "no memory", queued: 3, script: []answer{{0, unix.ENOMEM}}, left: 3,
			stats: Stats{Kicks: 1, KickNoBufs: 1, KickLater: 1},
		},
		{
			name: "interrupted without progress", queued: 2, script: []answer{{0, unix.EINTR}, {0, unix.EINTR}, {2, 0}},
			stats: Stats{Kicks: 3, KickInterrupted: 2},
		},
		{
			name: "interrupted, then stuck", queued: 2, script: []answer{{1, unix.EINTR}, {0, unix.EAGAIN}}, left: 1,
			stats: Stats{Kicks: 2, KickInterrupted: 1, KickAgain: 1, KickLater: 1},
		},
		{
			name: "completion ring full", queued: 4, script: []answer{{1, 0}}, left: 3,
			stats: Stats{Kicks: 1},
		},
		{
			name: "link down", queued: 2, script: []answer{{0, unix.ENETDOWN}}, want: ErrDown, left: 2,
			stats: Stats{Kicks: 1, KickErrors: 1},
		},
		{
			name: "interface gone", queued: 2, script: []answer{{0, unix.ENXIO}}, want: ErrGone, left: 2,
			stats: Stats{Kicks: 1, KickErrors: 1},
		},
		{
			name: "descriptor closed", queued: 2, script: []answer{{0, unix.EBADF}}, want: ErrClosed, left: 2,
			stats: Stats{Kicks: 1, KickErrors: 1},
		},
		{
			name: "something else", queued: 2, script: []answer{{0, unix.EPERM}}, want: unix.EPERM, left: 2,
			stats: Stats{Kicks: 1, KickErrors: 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tx, calls := scriptedTX(t, tc.queued, tc.script)
			if err := tx.Kick(); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if *calls != len(tc.script) || tx.TxPending() != tc.left {
				t.Errorf("%d calls, %d left, want %d and %d", *calls, tx.TxPending(), len(tc.script), tc.left)
			}
			got := Stats{
				Kicks: tx.kicks.Load(), KickAgain: tx.again.Load(), KickBusy: tx.busy.Load(), KickNoBufs: tx.noBufs.Load(),
				KickInterrupted: tx.intr.Load(), KickLater: tx.later.Load(), KickErrors: tx.kickFail.Load(),
			}
			if got != tc.stats {
				t.Errorf("counted %+v, want %+v", got, tc.stats)
			}
		})
	}
}

func TestKickAsksOnlyWhenNeeded(t *testing.T) {
	for _, tc := range []struct {
		name            string
		flag, alwaysAsk bool
		calls           int
	}{
		{"driver awake", false, false, 0},
		{"driver asleep", true, false, 1},
		{"no flags in use", false, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tx, calls := scriptedTX(t, 1, []answer{{1, 0}})
			p, c, err := ring.Pair[Desc](4, 0)
			if err != nil {
				t.Fatal(err)
			}
			c.SetNeedWakeup(tc.flag)
			tx.ring, tx.alwaysAsk = p, tc.alwaysAsk
			tx.send = func(int) unix.Errno { *calls++; return 0 }
			if n, err := tx.Transmit(make([]Desc, 1)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if *calls != tc.calls {
				t.Errorf("%d calls, want %d", *calls, tc.calls)
			}
		})
	}
}

func TestSubmitTakesWholeFrames(t *testing.T) {
	const more = Continued
	for _, tc := range []struct {
		name    string
		free    int
		options []uint32
		want    int
	}{
		{"all fit", 8, []uint32{0, more, 0}, 3},
		{"second does not fit", 2, []uint32{0, more, 0}, 1},
		{"none fits", 2, []uint32{more, more, 0}, 0},
		{"last is not complete", 8, []uint32{0, 0, more}, 2},
		{"only a piece", 8, []uint32{more}, 0},
		{"nothing", 8, nil, 0},
		{"no room", 0, []uint32{0}, 0},
		{"metadata is not continuation", 8, []uint32{TxMetadata, TxMetadata | more, 0}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tx, _ := scriptedTX(t, 0, nil)
			for tx.TxFree() > tc.free {
				tx.ring.Put(make([]Desc, 1))
			}
			descs := make([]Desc, len(tc.options))
			frames := uint64(0)
			for i, o := range tc.options {
				descs[i] = Desc{Len: 10, Options: o}
				if i < tc.want && o&more == 0 {
					frames++
				}
			}
			if n := tx.Submit(descs); n != tc.want {
				t.Errorf("took %d, want %d", n, tc.want)
			}
			if f, b := tx.frames.Load(), tx.bytes.Load(); f != frames || b != uint64(10*tc.want) {
				t.Errorf("counted %d frames and %d bytes, want %d and %d", f, b, frames, 10*tc.want)
			}
		})
	}
}

func TestReceiveGivesWholeFrames(t *testing.T) {
	const more = Continued
	for _, tc := range []struct {
		name    string
		options []uint32
		room    int
		want    []int // what calls return, until 0
	}{
		{"single buffers", []uint32{0, 0, 0}, 2, []int{2, 1}},
		{"frame at the end of dst", []uint32{0, more, 0}, 2, []int{1, 2}},
		{"frame as long as dst", []uint32{more, 0, 0}, 2, []int{2, 1}},
		{"frame longer than dst", []uint32{more, more, 0, 0}, 2, []int{2, 2}},
		{"frame not yet complete", []uint32{0, more}, 8, []int{1}},
		{"only a piece", []uint32{more}, 8, nil},
		{"no room", []uint32{0}, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, c, err := ring.Pair[Desc](8, 0)
			if err != nil {
				t.Fatal(err)
			}
			rx := &RX{ring: c}
			total := uint64(0)
			for i, o := range tc.options {
				p.Put([]Desc{{Addr: uint64(i), Len: 100, Options: o}})
			}
			dst := make([]Desc, tc.room)
			next := 0
			for _, want := range append(tc.want, 0) {
				n := rx.Receive(dst)
				if n != want {
					t.Fatalf("received %d, want %d", n, want)
				}
				for i := range dst[:n] {
					if dst[i].Addr != uint64(next) {
						t.Errorf("buffer %d is number %d", next, dst[i].Addr)
					}
					next++
				}
				total += uint64(n)
			}
			if rx.buffers.Load() != total || rx.bytes.Load() != 100*total || rx.RxAvail() != len(tc.options)-int(total) {
				t.Errorf("counted %d buffers and %d bytes of %d", rx.buffers.Load(), rx.bytes.Load(), total)
			}
		})
	}
}

// breakable is the memory of a ring of 4 descriptors whose indices a test can
// set as it likes: producer first, then consumer, flags, and the entries.
func breakable() ([]byte, ring.Layout) {
	l := ring.Layout{Producer: 0, Consumer: 8, Flags: 16, Entries: 32}
	return alignedBytes(ring.Length[Desc](l, 4)), l
}

// A ring index that cannot be yields a named error, never a panic.
func TestBrokenRing(t *testing.T) {
	mem, l := breakable()
	p, err := ring.MapProducer[Desc](mem, l, 4)
	if err != nil {
		t.Fatal(err)
	}
	rxMem, l := breakable()
	c, err := ring.MapConsumer[Desc](rxMem, l, 4)
	if err != nil {
		t.Fatal(err)
	}
	tx, _ := scriptedTX(t, 0, nil)
	s := tx.sock
	tx.ring, s.rx.ring = p, c
	if err := s.Err(); err != nil {
		t.Fatalf("good rings: %v", err)
	}
	tx.Submit(make([]Desc, 1))
	mem[l.Consumer] = 200 // far beyond what was submitted
	if err := tx.Kick(); !errors.Is(err, ErrBroken) || !errors.Is(s.Err(), ErrBroken) {
		t.Errorf("Kick: %v, want ErrBroken", err)
	}
	if n := tx.Submit(make([]Desc, 4)); n != 0 {
		t.Errorf("Submit took %d", n)
	}

	s.tx.ring = ring.EmptyProducer[Desc]()
	rxMem[l.Producer] = 5 // more than the ring has
	if n := s.Receive(make([]Desc, 9)); n != 0 || !errors.Is(s.Err(), ErrBroken) {
		t.Errorf("received %d, %v", n, s.Err())
	}
	w, err := NewWaiter(s)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Sleep(0); !errors.Is(err, ErrBroken) {
		t.Errorf("Sleep: %v, want ErrBroken", err)
	}
}
