package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/icrccheck"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestCapture captures on the bridge between the hosts whatever a queue pair can
// say, refusals and repetitions included, and has three decoders that share no
// code look at every RoCE frame: tshark's, the checker of ICRCs, and ours.
func TestCapture(t *testing.T) {
	requireTshark(t)
	for _, link := range []int{1500, 9000} {
		t.Run(fmt.Sprintf("link %d", link), func(t *testing.T) {
			r := newRig(t, netns.PairOptions{MTU: link, Bridge: true, StaticNeighbors: true}, nil)
			bad := loseFrames(t, r.hosts)
			s := sniff(t, r.hosts.Bridge, r.hosts.Taps[0])
			o := verbstest.Options{BufferSize: 256 << 10, Timeout: 13}
			for _, p := range []*verbstest.Pair{r.pair(t, o), r.pair6(t, o).Reverse()} {
				sayEverything(t, p, bad)
			}
			for _, refuse := range []func(*testing.T, *verbstest.Pair){refusedKey, refusedAlignment} {
				refuse(t, r.pair(t, o))
			}
			checkCapture(t, s.stop(t))
		})
	}
}

// sayEverything runs every operation with a healthy link, with a receiver that
// is not ready, and with a link that loses frames.
func sayEverything(t *testing.T, p *verbstest.Pair, bad lossyLink) {
	t.Helper()
	m := p.MTU.Bytes()
	must(t, p.Every(0, 1, 2, 3, 4, 63, m-1, m, m+1, 3*m+5))
	must(t, p.A.Post(verbs.SendWR{
		WRID: 3, Opcode: verbs.OpAtomicWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(),
	}))
	_, err := p.A.Done(3, verbs.WCAtomicWrite)
	must(t, err)

	before := count(t, p.B.Dev, "send_rnr_err")
	must(t, p.A.Post(verbs.SendWR{WRID: 4, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 3*m)}}))
	eventually(t, "the peer says that it is not ready", func() bool { return count(t, p.B.Dev, "send_rnr_err") > before })
	must(t, p.B.Recv(5, 0, 3*m))
	_, err = p.B.Done(5, verbs.WCRecv)
	must(t, err)
	_, err = p.A.Done(4, verbs.WCSend)
	must(t, err)

	bad.set(t, 0.03)
	must(t, p.Every(200_000))
	bad.set(t, 0)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refusedKey has the peer say NAK_REMOTE_ACCESS_ERROR.
func refusedKey(t *testing.T, p *verbstest.Pair) {
	must(t, p.A.Post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: ^p.B.MR.RKey()}))
	expect(t, p.A, verbs.WCRemoteAccess)
}

// refusedAlignment has the peer say NAK_INVALID_REQUEST.
func refusedAlignment(t *testing.T, p *verbstest.Pair) {
	must(t, p.A.Post(verbs.SendWR{Opcode: verbs.OpAtomicFetchAdd, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr() + 4, RKey: p.B.MR.RKey()}))
	expect(t, p.A, verbs.WCRemoteInvalidRequest)
}

// expect takes one completion of the given status.
func expect(t *testing.T, e *verbstest.End, want verbs.WCStatus) verbs.WC {
	t.Helper()
	wc, err := e.Next()
	must(t, err)
	if wc.Status != want {
		t.Fatalf("completion of work request %d: %v, want %v", wc.WRID, wc.Status, want)
	}
	return wc
}

// checkCapture has every RoCE frame judged and looks for what must be among them.
func checkCapture(t *testing.T, frames []frame) {
	t.Helper()
	judge(t, frames).check(t)
}

// judge has every RoCE frame judged and says what there was.
func judge(t *testing.T, frames []frame) *seen {
	t.Helper()
	seen := newSeen()
	for i, row := range tshark(t, savePcap(t, frames)) {
		if !row.roce {
			continue
		}
		data := frames[i].Data
		what := fmt.Sprintf("frame %d at %s (opcode %#02x)", i+1, frames[i].Time.Format(time.StampMicro), row.fields.Opcode)
		if row.complaint != "" && !unknownToTshark(wire.Opcode(row.fields.Opcode)) {
			t.Errorf("%s: tshark says %s", what, row.complaint)
		}
		if err := icrccheck.Check(data); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		var p wire.Packet
		if reason := p.ParseReadOnly(data); reason != wire.Accept {
			t.Errorf("%s: our decoder: %v", what, reason)
			continue
		}
		if diff := cmp.Diff(row.fields, fieldsOf(&p)); diff != "" {
			t.Errorf("%s: tshark (-) and our decoder (+) disagree:\n%s", what, diff)
		}
		seen.note(&p)
		if t.Failed() {
			break // one bad frame is enough to read
		}
	}
	return seen
}

// seen collects what a capture has.
type seen struct {
	frames    int
	opcodes   map[wire.Opcode]int
	syndromes map[wire.Syndrome]int
	psns      map[[3]uint32]int // destination, PSN, opcode
	families  map[bool]int      // by IPv6
}

func newSeen() *seen {
	return &seen{
		opcodes: map[wire.Opcode]int{}, syndromes: map[wire.Syndrome]int{}, psns: map[[3]uint32]int{}, families: map[bool]int{},
	}
}

func (s *seen) note(p *wire.Packet) {
	s.frames++
	s.opcodes[p.Opcode]++
	s.families[p.IPv6]++
	if p.Info.AETH != 0 {
		syn := p.AETH().Syndrome()
		if syn.Kind() == wire.KindRNR {
			syn = wire.SynRNR(0)
		}
		s.syndromes[syn]++
	}
	if !p.Info.Response {
		s.psns[[3]uint32{p.Hdr().DestQP(), uint32(p.Hdr().PSN()), uint32(p.Opcode)}]++
	}
}

func (s *seen) check(t *testing.T) {
	t.Helper()
	for op := wire.SendFirst; op <= wire.FetchAdd; op++ {
		if s.opcodes[op] == 0 {
			t.Errorf("no %s in the capture", op.Info().Name)
		}
	}
	if s.opcodes[wire.AtomicWrite] == 0 {
		t.Error("no ATOMIC_WRITE in the capture")
	}
	for _, syn := range []wire.Syndrome{wire.NakPSNSeq, wire.NakInvalidRequest, wire.NakRemoteAccess, wire.SynRNR(0)} {
		if s.syndromes[syn] == 0 {
			t.Errorf("no NAK with syndrome %#02x in the capture", uint8(syn))
		}
	}
	repeated := 0
	for _, n := range s.psns {
		if n > 1 {
			repeated++
		}
	}
	if repeated == 0 {
		t.Error("no request was repeated")
	}
	if s.families[false] == 0 || s.families[true] == 0 {
		t.Errorf("%d IPv4 and %d IPv6 packets, want both", s.families[false], s.families[true])
	}
	t.Logf("%d RoCE frames, %d requests repeated", s.frames, repeated)
}
