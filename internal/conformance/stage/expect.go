package stage

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Completion is an expected completion.
type Completion struct {
	queue.CQE
	any bool // opcode: that of the work request
}

// Done is the success of the send work request id. READs report their length and
// atomics 8 bytes.
func Done(id uint64) Completion {
	return Completion{CQE: queue.CQE{WRID: id}, any: true}
}

// Failed is a failure with status.
func Failed(id uint64, status ibv.WCStatus) Completion {
	return Completion{CQE: queue.CQE{WRID: id, Status: status}}
}

// Flushed is a failure with WR_FLUSH_ERR.
func Flushed(id uint64) Completion { return Failed(id, ibv.WCWRFlushErr) }

// Received is the success of the receive id, 101 for the first: n bytes of a
// SEND.
func Received(id uint64, n int) Completion {
	return Completion{CQE: queue.CQE{WRID: id, ByteLen: uint32(n), Opcode: ibv.WCRecv}}
}

// Written is the success of a receive that an RDMA WRITE of n bytes with
// immediate has used.
func Written(id uint64, n int) Completion {
	c := Received(id, n).WithImm(Imm)
	c.Opcode = ibv.WCRecvRDMAWithImm
	return c
}

// Datagram is the success of a receive for a datagram of n bytes from PeerQPN:
// the 40 bytes before its payload count too.
func Datagram(id uint64, n int) Completion {
	c := Received(id, n+40)
	c.Flags, c.SrcQP = ibv.WCFlagGRH, PeerQPN
	return c
}

// WithImm adds immediate data.
func (c Completion) WithImm(v uint32) Completion {
	c.Flags |= ibv.WCFlagWithImm
	c.Imm = v
	return c
}

// WithInv adds the key that was invalidated.
func (c Completion) WithInv(key uint32) Completion {
	c.Flags |= ibv.WCFlagWithInv
	c.Imm = key
	return c
}

// sendOpcodes are the completion opcodes of work requests.
var sendOpcodes = map[ibv.WROpcode]ibv.WCOpcode{
	ibv.WRSend: ibv.WCSend, ibv.WRSendWithImm: ibv.WCSend, ibv.WRSendWithInv: ibv.WCSend,
	ibv.WRRDMAWrite: ibv.WCRDMAWrite, ibv.WRRDMAWriteWithImm: ibv.WCRDMAWrite, ibv.WRRDMARead: ibv.WCRDMARead,
	ibv.WRAtomicCmpAndSwp: ibv.WCCompSwap, ibv.WRAtomicFetchAdd: ibv.WCFetchAdd,
	ibv.WRAtomicWrite: ibv.WCAtomicWrite, ibv.WRFlush: ibv.WCFlush,
	ibv.WRBindMW: ibv.WCBindMW, ibv.WRLocalInv: ibv.WCLocalInv, ibv.WRRegMR: ibv.WCRegMR,
}

// Completes wants exactly these completions of send work requests since the last
// call.
func (s *Stage) Completes(want ...Completion) {
	s.Helper()
	for i := range want {
		c := &want[i]
		if !c.any || c.WRID == 0 || c.WRID > uint64(len(s.posted)) {
			continue
		}
		m := &s.posted[c.WRID-1]
		c.Opcode = sendOpcodes[m.w.Opcode]
		switch c.Opcode {
		case ibv.WCRDMARead, ibv.WCCompSwap, ibv.WCFetchAdd:
			c.ByteLen = uint32(m.n)
		default: // the others report no length
		}
	}
	s.completions("send completions", s.scq, want)
}

// Receives wants exactly these completions of receives since the last call.
func (s *Stage) Receives(want ...Completion) {
	s.Helper()
	s.completions("receive completions", s.rcq, want)
}

func (s *Stage) completions(what string, cq *queue.Consumer, want []Completion) {
	s.Helper()
	var wants, gots []string
	for i := range want {
		wants = append(wants, completionText(&want[i].CQE))
	}
	n, ok := cq.Avail()
	if !ok {
		s.Fatalf("%s: the queue is corrupt", what)
	}
	for range n {
		var c queue.CQE
		queue.GetCQE(cq.Slot(0), &c)
		cq.Release(1)
		text := completionText(&c)
		if c.QPN != QPN || c.QPContext != context || c.Timestamp < int64(begin) || c.Timestamp > int64(s.now) {
			text += fmt.Sprintf(" of QP %#x, context %d, at %d", c.QPN, c.QPContext, c.Timestamp)
		}
		gots = append(gots, text)
	}
	if !slices.Equal(wants, gots) {
		s.Fatalf("at %v: %s (- wanted, + there):%s", s.clock(), what, sideBySide(wants, gots))
	}
}

// completionText has what means something: of a failure only the status.
func completionText(c *queue.CQE) string {
	if c.Status != ibv.WCSuccess {
		return fmt.Sprintf("%d %v", c.WRID, c.Status)
	}
	text := fmt.Sprintf("%d %v %v %dB", c.WRID, c.Status, c.Opcode, c.ByteLen)
	if c.Flags != 0 {
		text += fmt.Sprintf(" %v %#x", c.Flags, c.Imm)
	}
	if c.SrcQP != 0 {
		text += fmt.Sprintf(" from QP %#x", c.SrcQP)
	}
	return text
}

// Events wants exactly these asynchronous events since the last call.
func (s *Stage) Events(want ...ibv.EventType) {
	s.Helper()
	var got []ibv.EventType
	for _, e := range s.Env.Events {
		got = append(got, e.Type)
	}
	s.Env.Events = s.Env.Events[:0]
	if d := cmp.Diff(want, got); d != "" {
		s.Fatalf("at %v: events (-want +got):\n%s", s.clock(), d)
	}
}

// State wants the queue pair to be in a state.
func (s *Stage) State(want ibv.QPState) {
	s.Helper()
	if got := s.QP.State(); got != want {
		s.Fatalf("at %v: the queue pair is in %v, want %v", s.clock(), got, want)
	}
}

// Counts wants a counter at n.
func (s *Stage) Counts(c transport.Counter, n uint64) {
	s.Helper()
	if got := s.Env.Counters[c]; got != n {
		s.Errorf("at %v: %v is %d, want %d", s.clock(), c, got, n)
	}
}

// Drops wants exactly these packets of the peer, since the last call, dropped
// before they reached the queue pair.
func (s *Stage) Drops(want ...wire.DropReason) {
	s.Helper()
	if d := cmp.Diff(want, s.drops, cmp.Transformer("name", wire.DropReason.String)); d != "" {
		s.Fatalf("at %v: dropped (-want +got):\n%s", s.clock(), d)
	}
	s.drops = nil
}

// Refuses wants this NAK to be sent, and all that follows from it: the event,
// the queue pair in ERR, and nothing sent afterwards. Receives that the program
// has posted complete too: Receives says them.
func (s *Stage) Refuses(nak Packet) {
	s.Helper()
	s.Sends(nak)
	switch nak.syn {
	case wire.NakInvalidRequest:
		s.Events(ibv.EventQPReqErr)
	case wire.NakRemoteAccess:
		s.Events(ibv.EventQPAccessErr)
	default:
		s.Events(ibv.EventQPFatal)
	}
	s.State(ibv.QPStateErr)
	s.Idle()
}

// Fails wants the oldest work request, id, to fail with status, the others that
// were posted to be flushed, and the queue pair in ERR.
func (s *Stage) Fails(id uint64, status ibv.WCStatus) {
	s.Helper()
	s.Quiet()
	want := []Completion{Failed(id, status)}
	for i := id + 1; i <= s.sends; i++ {
		want = append(want, Flushed(i))
	}
	s.Completes(want...)
	s.State(ibv.QPStateErr)
}

// Arm asks for one event of the completion queue of receives: for the next
// completion, or for the next solicited one.
func (s *Stage) Arm(solicited bool) {
	arm := uint32(queue.ArmNext)
	if solicited {
		arm = queue.ArmSolicited
	}
	s.rcq.Ring().Arm().Store(arm)
}

// Wakes wants n events of completion queues since the last call.
func (s *Stage) Wakes(n int) {
	s.Helper()
	if got := len(s.Env.Woken); got != n {
		s.Errorf("at %v: %d completion queues woken, want %d", s.clock(), got, n)
	}
	s.Env.Woken = s.Env.Woken[:0]
}

// Discard forgets what the queue pair has sent, completed and raised so far: it is
// for tests that have seen what they are about.
func (s *Stage) Discard() {
	s.Helper()
	s.poll()
	for _, cq := range []*queue.Consumer{s.scq, s.rcq} {
		n, ok := cq.Avail()
		if !ok {
			s.Fatal("a completion queue is corrupt")
		}
		cq.Release(n)
	}
	s.Env.Events, s.drops = s.Env.Events[:0], nil
}
