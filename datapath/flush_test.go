package datapath

import (
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// asRXE makes device B look like rdma_rxe on the wire: no MigReq bits, and no
// FLUSH with the standard ICRC gets through to it. It counts FLUSHes by form.
func asRXE(standard, rxe *atomic.Uint32) xsktest.Hook {
	return func(frame []byte) xsktest.Action {
		var p wire.Packet
		if p.ParseReadOnly(frame) != wire.Accept {
			return xsktest.Drop
		}
		if [6]byte(frame[6:12]) == macB {
			p.Hdr().SetMigReq(false)
			wire.PutICRC(frame, wire.EthernetLen)
			return xsktest.Deliver
		}
		switch {
		case p.ICRC == wire.ICRCRXE:
			rxe.Add(1)
		case p.Opcode == wire.Flush:
			standard.Add(1)
			return xsktest.Drop
		}
		return xsktest.Deliver
	}
}

func flushOnce(t *testing.T, p *verbstest.Pair, id uint64) {
	t.Helper()
	err := p.A.Post(verbs.SendWR{
		WRID: id, Opcode: verbs.OpFlush, Flags: verbs.SendSignaled, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(),
		FlushPlacement: verbs.FlushGlobal, FlushLength: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.A.Done(id, verbs.WCFlush); err != nil {
		t.Fatal(err)
	}
}

const flushRights = verbstest.All | verbs.AccessFlushGlobal

// Once rdma_rxe has said a word, a FLUSH to it is right at the first attempt.
func TestFlushToRXE(t *testing.T) {
	conformance.Rule(t, "3.2-4")
	var standard, rxe atomic.Uint32
	r := newRig(t, rigOptions{hook: asRXE(&standard, &rxe)})
	p := r.pair(verbstest.Options{Timeout: slow, Access: flushRights})
	if err := p.Write(100, false); err != nil {
		t.Fatal(err)
	}
	flushOnce(t, p, 1)
	flushOnce(t, p, 2)
	if standard.Load() != 0 || rxe.Load() != 2 {
		t.Errorf("%d FLUSHes with the standard ICRC, %d with rdma_rxe's; want 0 and 2", standard.Load(), rxe.Load())
	}
}

// A FLUSH to a peer of which nothing is known gets through in the end.
func TestFlushFirst(t *testing.T) {
	var standard, rxe atomic.Uint32
	r := newRig(t, rigOptions{hook: asRXE(&standard, &rxe)})
	p := r.pair(verbstest.Options{Timeout: 9, Access: flushRights})
	flushOnce(t, p, 1)
	if standard.Load() == 0 || rxe.Load() == 0 {
		t.Errorf("%d FLUSHes with the standard ICRC, %d with rdma_rxe's: want some of both", standard.Load(), rxe.Load())
	}
}

// Peers that keep to the specification never see the other form.
func TestFlushStandard(t *testing.T) {
	conformance.Rule(t, "3.2-4")
	var rxe atomic.Uint32
	r := newRig(t, rigOptions{hook: func(frame []byte) xsktest.Action {
		var p wire.Packet
		if p.ParseReadOnly(frame) != wire.Accept || p.ICRC == wire.ICRCRXE {
			rxe.Add(1)
		}
		return xsktest.Deliver
	}})
	p := r.pair(verbstest.Options{Timeout: slow, Access: flushRights})
	flushOnce(t, p, 1)
	flushOnce(t, p, 2)
	if rxe.Load() != 0 {
		t.Errorf("%d frames were not what the specification wants", rxe.Load())
	}
}

func TestFlushFormChanges(t *testing.T) {
	heard := func(migReq bool, form wire.ICRCForm) func(*flushForm) {
		return func(f *flushForm) {
			b := make([]byte, wire.BTHLen)
			wire.BTHAt(b).SetMigReq(migReq)
			f.hear(&wire.Packet{BTH: b, ICRC: form})
		}
	}
	sent := func(p psn.PSN) func(*flushForm) { return func(f *flushForm) { f.next(p) } }
	hca, rxe := heard(true, wire.ICRCStandard), heard(false, wire.ICRCStandard)
	for _, tt := range []struct {
		name  string
		steps []func(*flushForm)
		want  bool // rdma_rxe's form for PSN 0
	}{
		{"unknown peer", nil, false},
		{"host channel adapter", []func(*flushForm){hca}, false},
		{"rdma_rxe", []func(*flushForm){rxe}, true},
		{"FLUSH of rdma_rxe through something that sets MigReq", []func(*flushForm){heard(true, wire.ICRCRXE)}, true},
		{"again to an unknown peer", []func(*flushForm){sent(0)}, true},
		{"twice again", []func(*flushForm){sent(0), sent(0)}, false},
		{"again to rdma_rxe", []func(*flushForm){rxe, sent(0)}, false},
		{"rdma_rxe answers what came before it", []func(*flushForm){sent(0), rxe}, true},
		{"twice again, with that answer between", []func(*flushForm){sent(0), rxe, sent(0)}, false},
		{"a newer one", []func(*flushForm){sent(0xffffff)}, false},
		{"all since an older one", []func(*flushForm){sent(0), sent(1)}, true},
		{"all since an older one, the second of them", []func(*flushForm){sent(0xffffff), sent(0), sent(0xffffff)}, true},
		{"answer of rdma_rxe after a change", []func(*flushForm){sent(0xfffffe), sent(0xfffffe), rxe}, true},
		{"more answers change nothing", []func(*flushForm){rxe, sent(0xfffffe), sent(0xfffffe), rxe}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f flushForm
			for _, s := range tt.steps {
				s(&f)
			}
			if got := f.next(0); got != tt.want {
				t.Errorf("rdma_rxe's form: %v, want %v", got, tt.want)
			}
		})
	}
}
