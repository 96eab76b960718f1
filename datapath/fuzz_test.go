package datapath

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// FuzzFrame gives a device with live queue pairs on two workers any bytes as a
// frame, in any number of buffers, with the ICRC that they should have. Nothing
// may panic, and no buffer may get lost.
func FuzzFrame(f *testing.F) {
	for _, op := range []wire.Opcode{wire.SendOnly, wire.SendFirst, wire.WriteOnly, wire.ReadRequest, wire.FetchAdd, wire.Acknowledge, wire.ReadRespOnly} {
		f.Add(fuzzFrame(op, 0), uint8(0), uint8(0))
		f.Add(fuzzFrame(op, 100), uint8(70), uint8(1))
	}
	f.Add([]byte{}, uint8(0), uint8(0))
	r := newRig(f, rigOptions{queues: 2, opts: Options{RingSize: 64}})
	var pairs [2]*verbstest.Pair
	f.Fuzz(func(t *testing.T, frame []byte, split, which uint8) {
		p := r.alive(t, &pairs[which%2])
		w := r.a.workers[0]
		if err := w.acquire(); err != nil {
			t.Fatal(err)
		}
		frame = aim(frame, p)
		descs := w.scatter(frame, int(split))
		if descs != nil {
			w.frames(clock(), descs)
		}
		w.transmit(clock())
		w.finish()
		w.release(controller)
		r.a.Progress()
		for _, x := range r.a.workers {
			if x.rx.Rejected() != 0 {
				t.Fatal("a buffer was freed twice")
			}
		}
	})
}

// alive is the pair at p, or a new one there if a frame has ended the last one.
func (r *rig) alive(t *testing.T, p **verbstest.Pair) *verbstest.Pair {
	t.Helper()
	if *p != nil {
		attr, err := r.a.table.get((*p).A.QP.Num()).Query()
		if err != nil {
			t.Fatal(err)
		}
		if attr.State == ibv.QPStateRTS {
			return *p
		}
		if err := (*p).Close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	// The frames of the seeds have PSN 1 too.
	if *p, err = verbstest.NewRCPair(r.ca, r.cb, verbstest.Options{BufferSize: 4096, PSN: 1}); err != nil {
		t.Fatal(err)
	}
	return *p
}

// aim makes a frame be for a queue pair that exists, from its peer, and gives it
// the right ICRC, where it is long enough for that.
func aim(frame []byte, p *verbstest.Pair) []byte {
	const ip, bth = wire.EthernetLen, wire.EthernetLen + wire.IPv4Len + wire.UDPLen
	if len(frame) < bth+wire.BTHLen+wire.ICRCLen {
		return frame
	}
	out := append([]byte(nil), frame...)
	src, dst := addrB.As4(), addrA.As4()
	copy(out[ip+12:], src[:])
	copy(out[ip+16:], dst[:])
	wire.BTHAt(out[bth:]).SetDestQP(p.A.QP.Num())
	if out[ip]>>4 == 4 {
		wire.PutICRC(out, ip)
	}
	return out
}

// scatter puts frame into free buffers of the worker, the first of at most split
// bytes unless that is 0. It returns nil if there are too few.
func (w *worker) scatter(frame []byte, split int) (descs []xsk.Desc) {
	for first := true; first || len(frame) != 0; first = false {
		addr, ok := w.rx.GetOne()
		if !ok {
			w.freeAll(descs)
			return nil
		}
		n := min(len(frame), w.dev.opts.FrameSize-xsk.KernelHeadroom)
		if first && split != 0 {
			n = min(n, split)
		}
		addr += xsk.KernelHeadroom
		copy(w.mem[addr:], frame[:n])
		frame = frame[n:]
		d := xsk.Desc{Addr: addr, Len: uint32(n), Options: xsk.Continued}
		if len(frame) == 0 {
			d.Options = 0
		}
		descs = append(descs, d)
	}
	return descs
}

// fuzzFrame is a packet with n bytes of payload.
func fuzzFrame(op wire.Opcode, n int) []byte {
	var p wire.Path
	f := wire.PathFields{SrcMAC: macB, DstMAC: macA, SrcGID: gidOf(addrB), DstGID: gidOf(addrA), UDPSrcPort: 0xC000}
	if p.Set(&f) != nil {
		return nil
	}
	info := (wire.RC | op).Info()
	ib := info.HeaderLen + n + wire.ICRCLen
	buf := make([]byte, p.Len()+ib)
	h := wire.BTHAt(buf[p.Put(buf, ib, 0):])
	h.SetOpcode(info.Opcode)
	h.SetPKey(0xFFFF)
	h.SetPSN(1)
	return buf
}
