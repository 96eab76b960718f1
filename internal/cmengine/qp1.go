package cmengine

import (
	"errors"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Queue pair 1 has a receive for each datagram that may come while the engine
// does something else. What is longer than a MAD goes on into a place that all
// receives share: nobody looks at it, and the length tells.
const (
	recvDepth = 512
	sendDepth = 256
	slotLen   = verbs.GRHLen + wire.MADLen
	spillLen  = 4096
	spillAt   = recvDepth * slotLen
	memoryLen = spillAt + spillLen
	sendWRID  = 1 << 32
)

// open makes queue pair 1 and posts its receives.
func (e *Engine) open() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, e.free())
		}
	}()
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	// Not of AllocBuffer: the device may be closed, and take that away, while the
	// engine looks at a datagram.
	e.buf = make([]byte, memoryLen)
	if e.mr, err = e.pd.RegisterMemory(e.buf, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if e.cq, err = e.dev.CreateCQ(recvDepth + sendDepth); err != nil {
		return err
	}
	e.qp, err = e.pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.GSI, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: recvDepth, MaxRecvSGE: 2, MaxInline: wire.MADLen},
	})
	switch {
	case errors.Is(err, verbs.ErrBusy):
		return explain(err, "another connection manager has queue pair 1 of this device")
	case errors.Is(err, verbs.ErrPermission):
		return explain(err, "run the program with CAP_NET_RAW, or leave the device to the daemon")
	case err != nil:
		return err
	}
	err = e.qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, QKey: verbs.GSIQKey}, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrQKey)
	if err != nil {
		return err
	}
	for slot := range uint64(recvDepth) {
		if err := e.postRecv(slot); err != nil {
			return err
		}
	}
	if err := e.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTR}, verbs.AttrState); err != nil {
		return err
	}
	return e.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState|verbs.AttrSQPSN)
}

// free gives back what open has made.
func (e *Engine) free() error {
	var errs []error
	if e.qp != nil {
		errs = append(errs, e.qp.Destroy())
	}
	if e.cq != nil {
		errs = append(errs, e.cq.Destroy())
	}
	if e.mr != nil {
		errs = append(errs, e.mr.Deregister())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Dealloc())
	}
	return errors.Join(errs...)
}

func (e *Engine) postRecv(slot uint64) error {
	sges := [2]verbs.SGE{e.mr.SGE(int(slot)*slotLen, slotLen), e.mr.SGE(spillAt, spillLen)}
	return e.qp.PostRecv(&verbs.RecvWR{WRID: slot, SGList: sges[:]})
}

// completed takes a completion of queue pair 1. It reports false when the queue
// pair is dead. The lock is held.
func (e *Engine) completed(wc *verbs.WC) bool {
	switch {
	case wc.WRID >= sendWRID:
		// Only failures complete. They leave the queue pair in SQE, where what follows is flushed.
		e.count[ctrSendErrors]++
		return wc.Status == verbs.WCFlushed || e.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState) == nil
	case wc.Status == verbs.WCFlushed:
		return false
	case wc.Status == verbs.WCSuccess:
		e.received(wc)
	}
	return e.postRecv(wc.WRID) == nil
}

func (e *Engine) received(wc *verbs.WC) {
	at := int(wc.WRID) * slotLen
	if wc.SrcQP != verbs.GSIQPN || wc.ByteLen < verbs.GRHLen {
		e.count[ctrNotGSI]++
		return
	}
	av, err := e.dev.InitAHFromWC(wc, e.buf[at:])
	if err != nil {
		e.count[ctrNoReply]++
		return
	}
	own, err := e.dev.QueryGID(av.SGIDIndex)
	if err != nil {
		e.count[ctrNoReply]++
		return
	}
	from := cmfsm.Path{
		Local: addrOf(&own), Remote: av.DGID.Addr(), FlowLabel: av.FlowLabel, TrafficClass: av.TrafficClass,
		HopLimit: hopLimit(e.buf[at : at+verbs.GRHLen]), SL: av.SL, VLAN: own.VLAN,
	}
	// One that is longer than a MAD is cut here, and its length is refused as it was.
	n := int(wc.ByteLen)
	data := e.buf[at+verbs.GRHLen : at+min(n, slotLen)]
	if n > slotLen {
		data = nil
	}
	if !e.looked && len(data) == wire.MADLen && wire.MADAt(data).Attr() == wire.AttrREQ {
		e.lookAtMTU() // which requests are judged by
	}
	e.m.Handle(e.now(), &from, data)
}

// hopLimit is that of the IP header in front of a datagram's payload.
func hopLimit(grh []byte) uint8 {
	if grh[0]>>4 == 6 {
		return grh[7]
	}
	return grh[verbs.GRHLen-20+8]
}

// send sends a MAD, or has it wait for its path. The lock is held.
func (e *Engine) send(mad *cmfsm.MAD) {
	key := mad.Path
	p := e.paths[key]
	if p == nil {
		if e.resolving >= maxResolving || e.leaving {
			e.count[ctrNoPath]++
			return
		}
		var err error
		if p, err = e.pathTo(key); err != nil {
			e.count[ctrNoPath]++
			return
		}
	}
	p.used = e.now()
	switch {
	case p.ah != nil:
		e.post(p, mad)
	case len(p.waiting) < maxWaiting:
		p.waiting = append(p.waiting, *mad)
	default:
		e.count[ctrNoPath]++
	}
}

// post puts a MAD into the send queue. One that finds no room is lost, as on the
// way: what matters is repeated.
func (e *Engine) post(p *path, mad *cmfsm.MAD) {
	if e.ended {
		return
	}
	err := e.qp.PostSend(&verbs.SendWR{
		WRID: sendWRID, Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: mad.Data[:],
		AH: p.ah, RemoteQPN: verbs.GSIQPN, RemoteQKey: verbs.GSIQKey,
	})
	if err != nil {
		e.count[ctrSendErrors]++
	}
}
