package datapath

import (
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Marks in Desc.Options, beyond those of package xsk, on frames that do not go
// to a port.
const (
	// alsoSent: the frame is being sent as well, so that nothing may write to it.
	alsoSent = 1 << 30
	// copied: another worker has the frame too and has seen to all others.
	copied = 1 << 31
)

// multicast gives the datagram in w.pkt, whose frame is descs, to all queue pairs
// that are attached to its group (IBTA vol. 1, 10.5.2): to its own at once, to
// those of other workers by copies of the frame. Each decides by itself whether
// P_Key and Q_Key fit.
func (w *worker) multicast(now mono.Time, descs []xsk.Desc) {
	g := w.dev.groups.get(w.pkt.DstGID)
	p := &w.pkt
	wrongTag := p.VLAN|p.OuterVLAN != 0 && !w.dev.groupTagFits(p)
	if g == nil || wrongTag {
		if wrongTag {
			w.count(ctrVLAN)
		} else {
			w.count(ctrUnknownGroup)
		}
		w.freeAll(descs)
		return
	}
	if descs[0].Options&copied == 0 {
		w.count(ctrMulticast)
		if others := g.workers &^ (1 << w.id); others != 0 {
			w.copyToAll(others, descs)
		}
	}
	for _, q := range g.members[w.id] {
		w.count(ctrMulticastCopies)
		_ = q.t.HandlePacket(now, &w.pkt) // datagrams are never kept
		w.activate(q)
	}
	w.freeAll(descs)
}

// copyToAll hands a copy of the frame in w.segs to each of a set of workers.
func (w *worker) copyToAll(workers uint64, descs []xsk.Desc) {
	size := 0
	for i := range descs {
		size += int(descs[i].Len)
	}
	frameSize := w.dev.share.frameSize
	n := (size + frameSize - 1) / frameSize
	for _, t := range w.dev.workers {
		if workers&(1<<t.id) == 0 {
			continue
		}
		var addrs [wire.MaxSegments]uint64
		var to [wire.MaxSegments]xsk.Desc
		if n > len(addrs) {
			w.count(ctrNoCopy)
			return
		}
		if got := w.rx.Get(addrs[:n]); got < n {
			w.rx.PutAll(addrs[:got])
			w.count(ctrNoCopy)
			return
		}
		w.copyFrame(addrs[:n], to[:n], w.segs[:len(descs)])
		w.handOver(t, to[:n])
	}
}

// copyFrame fills buffers with the bytes of segs and describes them.
func (w *worker) copyFrame(addrs []uint64, to []xsk.Desc, segs [][]byte) {
	frameSize := uint64(w.dev.share.frameSize)
	seg, off := 0, 0
	for i, addr := range addrs {
		buf := w.mem[addr : addr+frameSize : addr+frameSize]
		filled := 0
		for filled < len(buf) && seg < len(segs) {
			n := copy(buf[filled:], segs[seg][off:])
			filled += n
			if off += n; off == len(segs[seg]) {
				seg, off = seg+1, 0
			}
		}
		to[i] = xsk.Desc{Addr: addr, Len: uint32(filled), Options: copied | xsk.Continued}
	}
	to[len(to)-1].Options = copied
}
