package verbs_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestPostSendRefuses(t *testing.T) {
	one := []verbs.SGE{{Addr: 1, Length: 8, LKey: 1}}
	for name, c := range map[string]struct {
		state verbs.QPState
		wr    *verbs.SendWR
		is    error
		says  string
	}{
		"nil":               {verbs.QPStateRTS, nil, verbs.ErrInvalid, "no work request"},
		"in RESET":          {verbs.QPStateReset, &verbs.SendWR{Opcode: verbs.OpSend}, verbs.ErrState, "needs RTS"},
		"in INIT":           {verbs.QPStateInit, &verbs.SendWR{Opcode: verbs.OpSend}, verbs.ErrState, "needs RTS"},
		"in RTR":            {verbs.QPStateRTR, &verbs.SendWR{Opcode: verbs.OpSend}, verbs.ErrState, "needs RTS"},
		"too many entries":  {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpSend, SGList: make([]verbs.SGE, 3)}, verbs.ErrInvalid, "MaxSendSGE"},
		"too long":          {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{{Length: 1 << 31}, {Length: 1}}}, verbs.ErrInvalid, "at most"},
		"inline too long":   {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: make([]byte, 65)}, verbs.ErrInvalid, "MaxInline"},
		"data without flag": {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpSend, InlineData: make([]byte, 8)}, verbs.ErrInvalid, "SendInline"},
		"inline twice":      {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: make([]byte, 8), SGList: one}, verbs.ErrInvalid, "one of them"},
		"inline outside":    {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGList: one}, verbs.ErrInvalid, "InlineData"},
		"inline READ":       {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendInline, InlineData: make([]byte, 8)}, verbs.ErrInvalid, "inline"},
		"atomic of 4 bytes": {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpAtomicFetchAdd, SGList: []verbs.SGE{{Length: 4}}}, verbs.ErrInvalid, "exactly 8"},
		"flush of nothing":  {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpFlush}, verbs.ErrInvalid, "FlushPlacement is 0x0"},
		"flush of a kind":   {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpFlush, FlushPlacement: 4}, verbs.ErrInvalid, "FlushPlacement is 0x4"},
		"flush of a level":  {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpFlush, FlushPlacement: verbs.FlushGlobal, FlushLevel: 2}, verbs.ErrInvalid, "FlushLevel"},
		"flush too long":    {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpFlush, FlushPlacement: verbs.FlushGlobal, FlushLength: 1<<31 + 1}, verbs.ErrInvalid, "FlushLength"},
		"flush with data":   {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpFlush, FlushPlacement: verbs.FlushGlobal, SGList: one}, verbs.ErrInvalid, "no data"},
		"inline flush":      {verbs.QPStateRTS, &verbs.SendWR{Opcode: verbs.OpFlush, FlushPlacement: verbs.FlushGlobal, Flags: verbs.SendInline}, verbs.ErrInvalid, "no data"},
		"unknown operation": {verbs.QPStateRTS, &verbs.SendWR{Opcode: 77}, verbs.ErrInvalid, "cannot be posted"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.state, verbs.QPCap{MaxSendSGE: 2, MaxInline: 64})
			err := r.qp.PostSend(c.wr)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %v with %q", err, c.is, c.says)
			}
			var op *verbs.OpError
			if !errors.As(err, &op) || op.Op != "post send" {
				t.Errorf("%v is not an OpError of post send", err)
			}
			if len(r.fake().seen) != 0 {
				t.Error("a refused work request reached the device")
			}
		})
	}
}

func TestPostSendIsAcceptedInErr(t *testing.T) {
	r := newRig(t, verbs.QPStateErr, verbs.QPCap{})
	if err := r.qp.PostSend(&verbs.SendWR{Opcode: verbs.OpSend}); err != nil {
		t.Errorf("the device flushes it, verbs must not refuse: %v", err)
	}
}

func TestSendQueueHoldsWhatWasAskedFor(t *testing.T) {
	// 5 is rounded up to 8 slots; the sixth must still be refused.
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{MaxSendWR: 5})
	r.f.lazy = true
	for round := range 3 {
		wrs := make([]verbs.SendWR, 7)
		for i := range wrs {
			wrs[i] = verbs.SendWR{WRID: uint64(10*round + i), Opcode: verbs.OpSend}
		}
		n, err := r.qp.PostSendBatch(wrs)
		if n != 5 || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("round %d: posted %d, error %v; want 5 and ErrQueueFull", round, n, err)
		}
		if err := r.qp.PostSend(&wrs[0]); !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("round %d: %v, want ErrQueueFull", round, err)
		}
		var wcs [8]verbs.WC
		if n := r.cq.Poll(wcs[:]); n != 5 {
			t.Fatalf("round %d: polled %d, want 5", round, n)
		}
		for i := range 5 {
			if wcs[i].WRID != uint64(10*round+i) || wcs[i].Err() != nil {
				t.Errorf("round %d: completion %d is %+v", round, i, wcs[i])
			}
		}
	}
}

func TestReceiveQueue(t *testing.T) {
	r := newRig(t, verbs.QPStateReset, verbs.QPCap{MaxRecvWR: 3, MaxRecvSGE: 1})
	if err := r.qp.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrState) {
		t.Errorf("in RESET: %v, want ErrState", err)
	}
	if err := r.qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if err := r.qp.PostRecv(&verbs.RecvWR{SGList: make([]verbs.SGE, 2)}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("two entries: %v, want ErrInvalid", err)
	}
	if err := r.qp.PostRecv(nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("nil: %v, want ErrInvalid", err)
	}
	n, err := r.qp.PostRecvBatch(make([]verbs.RecvWR, 4))
	if n != 3 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("posted %d, error %v; want 3 and ErrQueueFull", n, err)
	}
}

func TestInlineDataIsCopiedAtPost(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{MaxSendSGE: 2, MaxInline: 32})
	r.f.lazy = true
	buf := []byte("one two three")
	mr := must(r.pd.RegisterMemory(buf, 0))(t)
	wrs := []verbs.SendWR{
		{Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: buf[:3]},
		{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGList: []verbs.SGE{mr.SGE(8, 5), mr.SGE(3, 4)}},
		{Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: []byte{}},
	}
	if n, err := r.qp.PostSendBatch(wrs); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	clear(buf)
	r.c.Progress()
	for i, want := range []string{"one", "three two", ""} {
		if got := r.fake().inline[i]; !bytes.Equal(got, []byte(want)) {
			t.Errorf("inline data %d is %q, want %q", i, got, want)
		}
	}
}

func TestWorkRequestFieldsReachTheDevice(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{MaxSendSGE: 4})
	wr := verbs.SendWR{
		WRID: 7, Opcode: verbs.OpAtomicCmpAndSwp, Flags: verbs.SendSignaled | verbs.SendFence,
		SGList: []verbs.SGE{{Addr: 16, Length: 3, LKey: 5}, {Addr: 32, Length: 5, LKey: 5}},
		Imm:    0xa1b2c3d4, RemoteAddr: 1 << 40, RKey: 9, CompareAdd: 11, Swap: 12,
	}
	if err := r.qp.PostSend(&wr); err != nil {
		t.Fatal(err)
	}
	got := r.fake().seen[0]
	if got.WRID != 7 || got.Opcode != wr.Opcode || got.Flags != wr.Flags || got.NumSGE != 2 || got.Length != 8 ||
		got.Imm != wr.Imm || got.RemoteAddr != wr.RemoteAddr || got.RKey != 9 || got.CompareAdd != 11 || got.Swap != 12 {
		t.Errorf("device saw %+v", got)
	}
	inv := verbs.SendWR{Opcode: verbs.OpSendWithInv, InvalidateKey: 0x1234}
	if err := r.qp.PostSend(&inv); err != nil {
		t.Fatal(err)
	}
	if got := r.fake().seen[1].Imm; got != 0x1234 {
		t.Errorf("key to invalidate is %#x", got)
	}
	flush := verbs.SendWR{
		Opcode: verbs.OpFlush, RemoteAddr: 1 << 41, RKey: 10,
		FlushPlacement: verbs.FlushPersistent, FlushLevel: verbs.FlushRegion, FlushLength: 77,
	}
	if err := r.qp.PostSend(&flush); err != nil {
		t.Fatal(err)
	}
	if got := r.fake().seen[2]; got.FlushType != 2 || got.FlushLevel != 1 || got.Length != 77 || got.NumSGE != 0 ||
		got.RemoteAddr != flush.RemoteAddr || got.RKey != 10 {
		t.Errorf("device saw %+v", got)
	}
}

func TestPostAndPollDoNotAllocate(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{MaxSendSGE: 1, MaxInline: 16})
	r.fake().record = false
	buf := make([]byte, 64)
	mr := must(r.pd.RegisterMemory(buf, verbs.AccessLocalWrite))(t)
	wcs := make([]verbs.WC, 16)
	batch := make([]verbs.SendWR, 4)
	recv := verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 64)}}
	for i := range batch {
		batch[i] = verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{mr.SGE(0, 8)}}
	}
	inline := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, SGList: []verbs.SGE{mr.SGE(0, 8)}}
	if err := r.qp.PostRecv(&recv); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"post and poll":  func() { _ = r.qp.PostSend(&batch[0]); r.cq.Poll(wcs) },
		"inline":         func() { _ = r.qp.PostSend(&inline); r.cq.Poll(wcs) },
		"batch":          func() { _, _ = r.qp.PostSendBatch(batch); r.cq.Poll(wcs) },
		"empty poll":     func() { r.cq.Poll(wcs) },
		"request notify": func() { r.cq.ReqNotify(false) },
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
