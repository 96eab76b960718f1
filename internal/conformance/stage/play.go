package stage

import (
	"slices"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// At goes on to the time d after the beginning. The queue pair is polled on the
// way whenever it wants to be, and must not send anything: what it sends at d is
// for Sends to say.
func (s *Stage) At(d time.Duration) *Stage {
	s.Helper()
	to := begin.Add(d)
	if to < s.now {
		s.Fatalf("it is %v already", s.clock())
	}
	if to == s.now {
		return s
	}
	s.Sends()
	for polls := 0; s.QP.NextDeadline() < to; polls++ {
		s.now = max(s.now, s.QP.NextDeadline())
		if got := s.poll(); len(got) > 0 {
			s.Fatalf("sent before %v, at %v:%s", d, s.clock(), listed(got))
		}
		if polls > 1000 {
			s.Fatalf("at %v: polled %d times and still due at once", s.clock(), polls)
		}
	}
	s.now = to
	return s
}

// After goes on by d.
func (s *Stage) After(d time.Duration) *Stage {
	s.Helper()
	return s.At(s.clock() + d)
}

// Now is the time on stage, for calls to QP.
func (s *Stage) Now() mono.Time { return s.now }

func (s *Stage) clock() time.Duration { return s.now.Sub(begin) }

// Gets hands over packets of the peer as one batch: what the queue pair has to
// say to them it says afterwards, in Sends.
func (s *Stage) Gets(packets ...Packet) {
	s.Helper()
	for _, p := range packets {
		s.get(p)
	}
}

func (s *Stage) get(p Packet) {
	s.Helper()
	f := s.arriving(p)
	s.note(&p, &f)
	frame := s.frame(&p, f.encode(true))
	s.ref++
	pkt := wire.Packet{Ref: s.ref}
	reason := pkt.Parse(frame)
	if reason != wire.Accept {
		s.drops = append(s.drops, reason)
		return
	}
	if n := pkt.Hdr().DestQP(); n != QPN && n != wire.MulticastQP {
		s.Fatalf("%v is for QP %#x: there is only %#x", p, n, QPN)
	}
	if s.QP.HandlePacket(s.now, &pkt) == transport.Keep {
		s.frames[pkt.Ref] = frame
	} else {
		poison(frame)
	}
	s.release()
}

// note remembers what the peer has asked for.
func (s *Stage) note(p *Packet, f *fields) {
	info := f.op.Info()
	if info.Response {
		return
	}
	inside := false
	for _, a := range s.reads {
		inside = inside || p.psn > a.psn && p.psn < a.psn+a.packets()
	}
	if info.Pos&wire.Last != 0 && !inside {
		s.ends[p.psn] = true
	}
	if p.op == wire.ReadRequest {
		s.reads = append(s.reads, asked{p.psn, int(f.reth.VA - s.RemoteVA()), int(f.reth.DMALen)})
	}
}

// frame puts Ethernet, IP, UDP and ICRC around a packet of the peer.
func (s *Stage) frame(p *Packet, ib []byte) []byte {
	s.Helper()
	path := s.in
	if p.has(setFrom | setTo) {
		f := wire.PathFields{SrcGID: peer, DstGID: self, UDPSrcPort: 0xC321}
		if p.has(setFrom) {
			f.SrcGID = p.from
		}
		if p.has(setTo) {
			f.DstGID = p.to
		}
		s.must(path.Set(&f))
	}
	if p.has(setRaw) {
		ib[0] = byte(p.raw)
	}
	if p.bth != nil {
		p.bth(wire.BTHAt(ib))
	}
	n := path.Len()
	frame := make([]byte, n+len(ib)+wire.ICRCLen)
	path.Put(frame, len(ib)+wire.ICRCLen, 1)
	copy(frame[n:], ib)
	wire.PutICRC(frame, path.L3())
	if p.frame != nil {
		p.frame(frame)
	}
	if p.tag != nil {
		frame = slices.Insert(frame, 12, p.tag...)
	}
	return frame
}

// release takes back frames that the queue pair has kept.
func (s *Stage) release() {
	s.Helper()
	for _, ref := range s.Env.Released {
		frame, ok := s.frames[ref]
		if !ok {
			s.Fatalf("frame %d was released, but is not kept", ref)
		}
		poison(frame)
		delete(s.frames, ref)
	}
	s.Env.Released = s.Env.Released[:0]
}

// poison makes a frame unreadable whose memory is free again.
func poison(frame []byte) {
	for i := range frame {
		frame[i] = 0xDD
	}
}

// poll lets the queue pair send what it may.
func (s *Stage) poll() (sent []fields) {
	s.Helper()
	for more, rounds := true, 0; more; rounds++ {
		if rounds > 1000 {
			s.Fatalf("at %v: the queue pair never stops", s.clock())
		}
		s.tx.Reset(s.cfg.batch)
		more = s.QP.Poll(s.now, s.tx)
		sent = append(sent, s.layOut()...)
		s.release()
	}
	return sent
}

// layOut reads what a driver would send. A datagram by an address handle without
// a path ends the batch.
func (s *Stage) layOut() (sent []fields) {
	s.Helper()
	for i := range s.tx.Intents {
		in := &s.tx.Intents[i]
		if in.Info.DETH != 0 && in.AH != AH {
			s.QP.AddressFault(s.now, in)
			break
		}
		sent = append(sent, s.decode(in))
	}
	return sent
}

// Sends polls and wants exactly these packets, in this order.
func (s *Stage) Sends(want ...Packet) {
	s.Helper()
	got := s.poll()
	var wants, gots []string
	detail := ""
	same := len(got) == len(want)
	for i, p := range want {
		w := s.expected(p)
		if i < len(got) {
			g := &got[i]
			if g.aeth.Syndrome.Kind() == wire.KindACK && w.aeth.Syndrome.Kind() == wire.KindACK && !p.has(setCredit) {
				w.aeth.Syndrome = g.aeth.Syndrome
			}
			if *g != w {
				same = false
				detail = g.difference(&w)
			}
		}
		wants = append(wants, w.String())
	}
	for i := range got {
		gots = append(gots, got[i].String())
	}
	if !same {
		s.Fatalf("at %v: sent (- wanted, + sent):%s%s", s.clock(), sideBySide(wants, gots), detail)
	}
}

// Quiet wants nothing to be sent now.
func (s *Stage) Quiet() {
	s.Helper()
	s.Sends()
}

// sideBySide lists what is the same in both, and where they part.
func sideBySide(want, got []string) string {
	out := ""
	for i := range max(len(want), len(got)) {
		switch {
		case i < len(want) && i < len(got) && want[i] == got[i]:
			out += "\n\t  " + want[i]
			continue
		case i < len(want):
			out += "\n\t- " + want[i]
		}
		if i < len(got) {
			out += "\n\t+ " + got[i]
		}
	}
	return out
}

func listed(packets []fields) string {
	out := ""
	for i := range packets {
		out += "\n\t" + packets[i].String()
	}
	return out
}

// Due wants the queue pair to ask for the next poll at the time d after the
// beginning.
func (s *Stage) Due(d time.Duration) {
	s.Helper()
	if got := s.QP.NextDeadline(); got != begin.Add(d) {
		s.Errorf("at %v: due at %v, want %v", s.clock(), dueAt(got), d)
	}
}

// Idle wants nothing to be due, ever.
func (s *Stage) Idle() {
	s.Helper()
	s.Quiet()
	if got := s.QP.NextDeadline(); got != mono.Never {
		s.Errorf("at %v: due at %v, want never", s.clock(), dueAt(got))
	}
}

func dueAt(t mono.Time) any {
	if t == mono.Never {
		return "never"
	}
	return t.Sub(begin)
}
