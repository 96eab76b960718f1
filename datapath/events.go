package datapath

import (
	"context"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// maxEvents is how many asynchronous events wait for a reader at most; more are
// lost and counted.
const maxEvents = 256

// report queues an event of the engine.
func (d *Device) report(e transport.Event) {
	out := verbs.ProviderEvent{Type: e.Type, Port: 1}
	if e.QP != nil {
		out.QP = e.QP.Config().Owner.(*qp)
	}
	if e.CQ != nil {
		out.CQ = e.CQ.Owner.(*cq)
	}
	if e.SRQ != nil {
		out.SRQ = e.SRQ.Owner.(*srq)
	}
	d.queueEvent(out)
}

// reportPort queues an event of the port or the device.
func (d *Device) reportPort(t ibv.EventType) {
	d.queueEvent(verbs.ProviderEvent{Type: t, Port: 1})
}

func (d *Device) queueEvent(e verbs.ProviderEvent) {
	select {
	case d.events <- e:
	default:
		d.eventsLost.Add(1)
	}
}

// NextEvent waits for the next asynchronous event, the end of ctx, or the end of
// the device (ErrClosed).
func (d *Device) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	select {
	case e := <-d.events:
		return e, nil
	default:
	}
	select {
	case e := <-d.events:
		return e, nil
	case <-ctx.Done():
		return verbs.ProviderEvent{}, ctx.Err()
	case <-d.done:
		return verbs.ProviderEvent{}, ErrClosed
	}
}
