package serve

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// A fuzzer's input is a conversation: steps of an operation (by its place in
// proto.Messages, what lies beyond is an unknown one), a byte that says how the message
// is made wrong, the length of a piece of input, and that piece. Its first byte says where
// in the body, in words of 32 bits, the others go; the rest of the body is what a good
// client would send.
const (
	stepHeader = 3

	wrongSize   = 1 << 0 // a body one byte longer
	wrongShort  = 1 << 1 // the packet cut in half
	wrongFD     = 1 << 2 // a descriptor that comes along
	wrongHeader = 1 << 3 // FDs and Status are of the input
	wrongMem    = 1 << 4 // the process's memory comes along
	raw0        = 1 << 5 // the body is of the input alone
)

// conversation is a client that says what the input wants.
type conversation struct {
	conn *shm.Conn
	null *os.File
	mem  *os.File
	seq  uint32
	got  map[proto.Op][]byte // last good reply
}

// FuzzControl: whatever a client says, the server lives, other clients are served, and
// nothing of the client is left when it has gone.
func FuzzControl(f *testing.F) {
	s := newStage(f)
	var all []byte
	for i := range proto.Messages {
		f.Add([]byte{byte(i), 0, 0})
		f.Add([]byte{byte(i), 0, 9, 1, 0, 0, 0, 1, 0, 0, 0, 1})
		all = append(all, byte(i), 0, 0)
	}
	f.Add(all)
	f.Fuzz(s.play)
}

// stage is a server for conversations.
type stage struct {
	srv       *Server
	null, mem *os.File // to hand over
	honest    *raw
}

func newStage(t testing.TB) *stage {
	t.Helper()
	r := newRig(t, Config{Policy: func(Cred) (Limits, error) { return Limits{Memory: 8 << 20, QPs: 64, CQs: 64}, nil }, patience: time.Second})
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	mem, merr := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err := errors.Join(err, merr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = null.Close(), mem.Close() })
	return &stage{r.srv, null, mem, r.open(t)}
}

// play has a conversation from beginning to end.
func (s *stage) play(t *testing.T, input []byte) {
	ours, theirs, err := shm.Pair()
	if err != nil {
		t.Fatal(err)
	}
	s.srv.take(unixConn(t, theirs))
	c := &conversation{conn: ours, null: s.null, mem: s.mem, got: map[proto.Op][]byte{}}
	c.run(input)
	_ = ours.Close() // the server may have been first
	waitFor(t, "the end of the session", func() bool { return len(s.srv.of(nil)) == 1 })
	s.honest.t = t
	s.honest.must(proto.OpQueryPort, &proto.Empty{}, &proto.PortAttr{})
}

// unixConn is a socket as accept returns it.
func unixConn(t testing.TB, f *os.File) *net.UnixConn {
	t.Helper()
	c, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn)
}

// run has the conversation, which begins politely.
func (c *conversation) run(input []byte) {
	c.say(proto.OpHello, goodHello())
	c.say(proto.OpOpen, openOf("mem0"))
	c.say(proto.OpCMOpen, &proto.Empty{})
	for _, op := range []proto.Op{proto.OpAllocPD, proto.OpCreateCQ, proto.OpAllocBuffer, proto.OpRegMR, proto.OpCreateQP, proto.OpCreateSRQ} {
		c.say(op, c.sensible(op))
	}
	for len(input) >= stepHeader {
		op, how, n := input[0], input[1], int(input[2])
		piece := input[stepHeader:min(len(input), stepHeader+n)]
		input = input[stepHeader+len(piece):]
		c.step(op, how, piece)
	}
}

// step sends a message and takes the replies that are there.
func (c *conversation) step(op, how byte, piece []byte) {
	o := proto.Op(op) + 200
	var body []byte
	if int(op) < len(proto.Messages) {
		o = proto.Messages[op].Op
		body = encoded(c.sensible(o))
	}
	if how&raw0 != 0 {
		body = piece
	} else if len(piece) > 0 {
		if at := 4 * int(piece[0]); at < len(body) {
			copy(body[at:], piece[1:])
		}
	}
	if how&wrongSize != 0 {
		body = append(body, 0)
	}
	c.seq++
	h := proto.Header{Op: o, Seq: c.seq}
	var fds []int
	if how&wrongFD != 0 {
		fds = append(fds, int(c.null.Fd()))
	}
	if how&wrongMem != 0 || o == proto.OpSetMemory {
		fds = append(fds, int(c.mem.Fd()))
	}
	h.FDs = uint16(len(fds))
	if how&wrongHeader != 0 && len(piece) >= 6 {
		h.FDs, h.Status = binary.LittleEndian.Uint16(piece), proto.Status(binary.LittleEndian.Uint32(piece[2:]))
	}
	h.Size = uint32(proto.HeaderSize + len(body))
	b, _ := binary.Append(nil, binary.LittleEndian, &h) // of a fixed size
	b = append(b, body...)
	if how&wrongShort != 0 {
		b = b[:len(b)/2]
	}
	c.send(b, fds)
}

// say sends a good message.
func (c *conversation) say(op proto.Op, body any) {
	c.seq++
	b, err := proto.Append(nil, proto.Header{Op: op, Seq: c.seq}, body)
	if err == nil {
		c.send(b, nil)
	}
}

// send sends a packet and takes a reply, of this or of another request.
func (c *conversation) send(b []byte, fds []int) {
	if len(b) == 0 || len(b) > proto.MaxMessage || c.conn.Send(b, fds...) != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, proto.MaxMessage)
	n, in, err := c.conn.Recv(buf)
	in.Close()
	if err != nil {
		return
	}
	if h, body, err := proto.Parse(buf[:n]); err == nil && h.Status == proto.StatusOK {
		c.got[h.Op] = body
	}
}

// sensible is what a client that means well would send.
func (c *conversation) sensible(op proto.Op) any {
	k := c.made()
	h := func(handle uint64) any { return &proto.Handle{Handle: handle} }
	switch op {
	case proto.OpCreateCQ:
		return &proto.CreateCQ{Entries: 16}
	case proto.OpResizeCQ:
		return &proto.ResizeCQ{Handle: k.cq.Handle, Entries: 64}
	case proto.OpModifyCQ:
		return &proto.ModifyCQ{Handle: k.cq.Handle, Count: 2}
	case proto.OpQueryCQ, proto.OpDestroyCQ:
		return h(k.cq.Handle)
	case proto.OpAllocBuffer:
		return &proto.AllocBuffer{Size: bufferSize}
	case proto.OpFreeBuffer:
		return h(k.buffer.Handle)
	case proto.OpRegMR:
		return sharedMR(k)
	case proto.OpReregMR:
		return &proto.ReregMR{Handle: k.mr.Handle, New: *sharedMR(k), Flags: 7}
	case proto.OpDeregMR:
		return h(k.mr.Handle)
	case proto.OpAllocMW:
		return &proto.AllocMW{PD: k.pd.PD, Type: 1}
	case proto.OpDeallocMW:
		return h(k.mw.Handle)
	case proto.OpAllocFastMR:
		return &proto.AllocFastMR{PD: k.pd.PD, Limit: 4096}
	case proto.OpDeallocFast:
		return h(k.fast.Handle)
	case proto.OpCreateSRQ:
		return &proto.CreateSRQ{PD: k.pd.PD, Attr: proto.SRQAttr{MaxWR: 10, MaxSGE: 2}}
	case proto.OpModifySRQ:
		return &proto.ModifySRQ{Handle: k.srq.Handle, Attr: proto.SRQAttr{MaxWR: 20}, Mask: 1}
	case proto.OpQuerySRQ, proto.OpDestroySRQ:
		return h(k.srq.Handle)
	case proto.OpCreateQP:
		return qpOf(k, 2)
	case proto.OpModifyQP:
		return &proto.ModifyQP{Handle: k.qp.Handle, Attr: proto.QPAttr{State: 1, Port: 1}, Mask: 1 | 1<<3 | 1<<4 | 1<<5}
	case proto.OpQueryQP, proto.OpDestroyQP:
		return h(k.qp.Handle)
	case proto.OpAdviseMR:
		return &proto.AdviseMR{PD: k.pd.PD, Count: 1, SGE: [proto.MaxAdvise]proto.SGE{{Addr: sharedAddr, Length: 64, LKey: k.mr.LKey}}}
	case proto.OpDeallocPD:
		return &k.pd
	case proto.OpMapSegment:
		return &proto.MapSegment{Segment: 1}
	case proto.OpCMCreate:
		return &proto.CMCreate{PortSpace: 0x0106, Type: 2}
	default:
	}
	for i := range proto.Messages {
		if proto.Messages[i].Op == op {
			return proto.Messages[i].Request
		}
	}
	return proto.Empty{}
}

// made is what the last replies say that there is.
func (c *conversation) made() *kit {
	k := &kit{}
	for op, to := range map[proto.Op]any{
		proto.OpAllocPD: &k.pd, proto.OpCreateCQ: &k.cq, proto.OpCreateQP: &k.qp, proto.OpCreateSRQ: &k.srq, proto.OpAllocBuffer: &k.buffer,
		proto.OpRegMR: &k.mr, proto.OpAllocMW: &k.mw, proto.OpAllocFastMR: &k.fast,
	} {
		if body, ok := c.got[op]; ok && proto.Decode(body, to) != nil {
			panic("a reply of another size")
		}
	}
	return k
}

func encoded(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // of a fixed size
	}
	return b
}
