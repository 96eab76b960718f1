package serve

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// hostile is a client that writes to all the memory that it shares with the server: two
// queue pairs that are connected to each other, their queues, a buffer, doorbells.
type hostile struct {
	w     *raw
	kit   *kit
	pages [][]byte
	bells []byte
}

func newHostile(t testing.TB, r *rig) *hostile {
	t.Helper()
	w := r.greet(t)
	var open proto.OpenReply
	w.must(proto.OpOpen, openOf("mem0"), &open)
	h := &hostile{w: w}
	bells, err := shm.OpenWhole(w.fds.Take(2), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bells.Close() })
	h.bells = bells.Bytes()
	w.fds.Close()
	h.kit = makeKit(w)
	second := &proto.QPReply{}
	w.must(proto.OpCreateQP, qpOf(h.kit, ibv.QPTypeRC), second)
	h.connect(h.kit.qp, second.QPN)
	h.connect(*second, h.kit.qp.QPN)
	seen := map[uint32]bool{}
	for _, span := range []proto.Span{h.kit.qp.SQ, h.kit.buffer.Span} {
		if !seen[span.Segment] {
			seen[span.Segment] = true
			h.pages = append(h.pages, h.segment(t, span.Segment))
		}
	}
	return h
}

// segment maps all of a segment.
func (h *hostile) segment(t testing.TB, number uint32) []byte {
	t.Helper()
	var rep proto.MapSegmentReply
	h.w.must(proto.OpMapSegment, &proto.MapSegment{Segment: number}, &rep)
	m, err := shm.Open(h.w.fds.Take(0), rep.Size, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m.Bytes()
}

// connect takes a queue pair to RTS, with a peer on the same device.
func (h *hostile) connect(q proto.QPReply, to uint32) {
	h.w.t.Helper()
	for _, a := range []struct {
		attr proto.QPAttr
		mask ibv.AttrMask
	}{
		{proto.QPAttr{State: uint32(ibv.QPStateInit), Port: 1, AccessFlags: uint32(allRights)},
			ibv.QPAttrState | ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags},
		{proto.QPAttr{State: uint32(ibv.QPStateRTR), PathMTU: 3, DestQPN: to, MaxDestRDAtomic: 4, MinRNRTimer: 1,
			AV: proto.AddressVector{DGID: ibv.GIDOf(ownAddr), Port: 1}},
			ibv.QPAttrState | ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer},
		{proto.QPAttr{State: uint32(ibv.QPStateRTS), Timeout: 8, RetryCnt: 1, RNRRetry: 1, MaxRDAtomic: 4},
			ibv.QPAttrState | ibv.QPAttrSQPSN | ibv.QPAttrTimeout | ibv.QPAttrRetryCnt | ibv.QPAttrRNRRetry | ibv.QPAttrMaxQPRDAtomic},
	} {
		h.w.must(proto.OpModifyQP, &proto.ModifyQP{Handle: q.Handle, Attr: a.attr, Mask: uint32(a.mask)}, nil)
	}
}

// scribble writes input over shared memory: each step is a page set, an offset of 24
// bits in words of 32, a length, and bytes; and rings all doorbells.
func (h *hostile) scribble(input []byte) {
	for len(input) > 5 {
		b := h.bells
		if n := int(input[0]); n < 2*len(h.pages) {
			b = h.pages[n%len(h.pages)]
		}
		at := 4 * (int(binary.LittleEndian.Uint32(input)>>8) % (len(b) / 4))
		n := min(int(input[4]), len(input)-5)
		copy(b[at:], input[5:5+n])
		input = input[5+n:]
		for i := range h.bells[:1024] {
			h.bells[i] = 0xFF
		}
	}
}

// FuzzRings: whatever a client writes over the memory that it shares with the server, the
// server lives and an honest client's traffic is right.
func FuzzRings(f *testing.F) {
	s := newScene(f)
	sample := newHostile(f, s.rig)
	k := sample.kit
	sample.w.close()
	word := func(span proto.Span, at int, value byte) []byte {
		where := (uint32(span.Offset) + uint32(at)) / 4
		return append(binary.LittleEndian.AppendUint32(nil, where<<8), 4, value, 0, 0, 0)
	}
	for _, span := range []proto.Span{k.qp.SQ, k.qp.RQ, k.cq.Ring, k.srq.Ring} {
		f.Add(word(span, 128, 1))   // an element
		f.Add(word(span, 128, 200)) // more than there is room for
		f.Add(word(span, 256, 77))  // more than there was
		f.Add(word(span, 0, 1))     // another form of the ring
	}
	f.Add([]byte{255, 0, 0, 0, 8, 1, 1, 1, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, input []byte) { s.play(t, input) })
}

// scene is an honest pair on the device that hostile clients are served on.
type scene struct {
	rig  *rig
	good *verbstest.Pair
}

func newScene(t testing.TB) *scene {
	t.Helper()
	r := newRig(t, Config{})
	return &scene{r, verbstest.RCPair(t, r.dev, r.peer, verbstest.Options{BufferSize: 1 << 16})}
}

// play has a hostile client come, write, and go.
func (s *scene) play(t *testing.T, input []byte) {
	t.Helper()
	bad := newHostile(t, s.rig)
	bad.scribble(input)
	if err := errors.Join(s.good.Send(5000, false), s.good.Write(3000, true), s.good.Read(2000)); err != nil {
		t.Errorf("the honest client: %v", err)
	}
	bad.scribble(input)
	bad.w.must(proto.OpQueryClock, &proto.Empty{}, &proto.Clock{})
	bad.w.close()
	waitFor(t, "the end of the client", func() bool { return len(s.rig.srv.Snapshot("")) == 0 })
}

// TestHostile has random garbage written over all shared memory while an honest client's
// messages go through.
func TestHostile(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := newScene(t)
	for i := range conversations() {
		input := make([]byte, 400)
		for i := range input {
			input[i] = byte(rnd.Uint32() >> rnd.IntN(32))
		}
		if !t.Run(strconv.Itoa(i), func(t *testing.T) { s.play(t, input) }) {
			return
		}
	}
}
