package queue

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// unhex takes spaces and line ends out.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every byte of a field differs from every other, so a field in the wrong place
// or order shows.
func TestSendWQELayout(t *testing.T) {
	w := SendWQE{
		WRID: 0x0807060504030201, Opcode: 0x09, Flags: 0x0a, NumSGE: 0x0c0b, Imm: 0x100f0e0d,
		RemoteAddr: 0x1817161514131211, RKey: 0x1c1b1a19, Length: 0x201f1e1d, CompareAdd: 0x2827262524232221,
		Swap: 0x302f2e2d2c2b2a29, AH: 0x34333231, RemoteQPN: 0x38373635, RemoteQKey: 0x3c3b3a39, SRQN: 0x403f3e3d,
		BindAddr: 0x4847464544434241, BindLength: 0x504f4e4d4c4b4a49, BindLKey: 0x54535251, BindRKey: 0x58575655,
		BindAccess: 0x5c5b5a59, FlushType: 0x5e5d, FlushLevel: 0x605f,
	}
	want := make([]byte, 96) // 1, 2, 3, ... 96: no gap between fields
	for i := range want {
		want[i] = byte(i + 1)
	}
	slot := make([]byte, 128)
	PutSend(slot, &w)
	if diff := cmp.Diff(want, slot[:96]); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(slot[96:], make([]byte, 32)) {
		t.Error("written past the header")
	}
	var got SendWQE
	GetSend(slot, &got)
	if diff := cmp.Diff(w, got); diff != "" {
		t.Error(diff)
	}
}

func TestRecvWQELayout(t *testing.T) {
	slot := bytes.Repeat([]byte{0xff}, 48)
	w := RecvWQE{WRID: 0x0807060504030201, Length: 0x0c0b0a09, NumSGE: 0x0e0d}
	PutRecv(slot, &w)
	want := unhex(t, "0102030405060708 090a0b0c 0d0e 0000"+strings.Repeat("ff", 32))
	if diff := cmp.Diff(want, slot); diff != "" {
		t.Error(diff)
	}
	var got RecvWQE
	GetRecv(slot, &got)
	if got != w {
		t.Errorf("got %+v", got)
	}
}

func TestSGELayout(t *testing.T) {
	e := SGE{Addr: 0x0807060504030201, Length: 0x0c0b0a09, LKey: 0x100f0e0d}
	want := unhex(t, "0102030405060708 090a0b0c 0d0e0f10")
	for i := range 2 {
		send, recv := make([]byte, 128), make([]byte, 48)
		PutSendSGE(send, i, e)
		PutRecvSGE(recv, i, e)
		if at := 96 + 16*i; !bytes.Equal(send[at:at+16], want) || SendSGE(send, i) != e {
			t.Errorf("send entry %d: %x", i, send)
		}
		if at := 16 + 16*i; !bytes.Equal(recv[at:at+16], want) || RecvSGE(recv, i) != e {
			t.Errorf("receive entry %d: %x", i, recv)
		}
	}
}

func TestCQELayout(t *testing.T) {
	c := CQE{
		WRID: 0x0807060504030201, Timestamp: 0x100f0e0d0c0b0a09, ByteLen: 0x14131211, Imm: 0x18171615,
		QPN: 0x1c1b1a19, SrcQP: 0x201f1e1d, VendorErr: 0x24232221, Status: 0x25, Opcode: 0x26, Flags: 0x27,
		SL: 0x28, PKeyIndex: 0x2a29, VLAN: 0x2c2b, QPContext: 0x3837363534333231,
	}
	slot := bytes.Repeat([]byte{0xff}, 64)
	PutCQE(slot, &c)
	want := unhex(t, `0102030405060708 090a0b0c0d0e0f10 11121314 15161718 191a1b1c 1d1e1f20 21222324
		25 26 27 28 292a2b2c00000000 3132333435363738 0000000000000000`)
	if diff := cmp.Diff(want, slot); diff != "" {
		t.Error(diff)
	}
	var got CQE
	GetCQE(slot, &got)
	if diff := cmp.Diff(c, got); diff != "" {
		t.Error(diff)
	}
}

func TestElementSizes(t *testing.T) {
	for _, tc := range []struct{ sge, inline, size, holds int }{
		{0, 0, 128, 2}, {1, 0, 128, 2}, {2, 32, 128, 2}, {3, 0, 192, 6}, {1, 33, 192, 6}, {1, 96, 192, 6},
		{32, 0, 640, 34}, {1, ibv.MaxInline, 640, 34}, {ibv.MaxSGE, ibv.MaxInline, 640, 34},
	} {
		got := SendElemSize(tc.sge, tc.inline)
		if got != tc.size || SendMaxSGE(got) != tc.holds {
			t.Errorf("send queue of %d entries, %d inline: %d bytes for %d entries, want %d for %d",
				tc.sge, tc.inline, got, SendMaxSGE(got), tc.size, tc.holds)
		}
		if n := len(SendInline(make([]byte, got))); n < tc.inline {
			t.Errorf("room for %d inline bytes of %d", n, tc.inline)
		}
	}
	for _, tc := range []struct{ sge, size, holds int }{{0, 32, 1}, {1, 32, 1}, {2, 64, 3}, {3, 64, 3}, {4, 96, 5}, {32, 544, 33}} {
		if got := RecvElemSize(tc.sge); got != tc.size || RecvMaxSGE(got) != tc.holds {
			t.Errorf("receive queue of %d entries: %d bytes for %d entries, want %d for %d", tc.sge, got, RecvMaxSGE(got), tc.size, tc.holds)
		}
	}
}

// Whatever the values, what is put is what is got.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slot := rapid.SliceOfN(rapid.Byte(), 128, 128).Draw(rt, "old")
		w, gotW := rapid.Make[SendWQE]().Draw(rt, "send"), SendWQE{}
		PutSend(slot, &w)
		if GetSend(slot, &gotW); gotW != w {
			rt.Fatal(cmp.Diff(w, gotW))
		}
		r, gotR := rapid.Make[RecvWQE]().Draw(rt, "receive"), RecvWQE{}
		PutRecv(slot, &r)
		if GetRecv(slot, &gotR); gotR != r {
			rt.Fatal(cmp.Diff(r, gotR))
		}
		c, gotC := rapid.Make[CQE]().Draw(rt, "completion"), CQE{}
		PutCQE(slot, &c)
		if GetCQE(slot, &gotC); gotC != c {
			rt.Fatal(cmp.Diff(c, gotC))
		}
	})
}

// Elements are copied between address spaces: no field may be a pointer.
func TestElementsHoldNoPointers(t *testing.T) {
	for _, ty := range []reflect.Type{reflect.TypeFor[SendWQE](), reflect.TypeFor[RecvWQE](), reflect.TypeFor[CQE](), reflect.TypeFor[SGE]()} {
		for i := range ty.NumField() {
			if k := ty.Field(i).Type.Kind(); k < reflect.Int8 || k > reflect.Uint64 {
				t.Errorf("%v.%s is a %v", ty, ty.Field(i).Name, k)
			}
		}
	}
}

func TestDatapathDoesNotAllocate(t *testing.T) {
	r, _ := newRing(t, 8, 128)
	p, c := NewProducer(r), NewConsumer(r)
	w, out := SendWQE{WRID: 1}, SendWQE{}
	cqe := CQE{WRID: 1}
	if n := testing.AllocsPerRun(100, func() {
		if p.Free() == 0 {
			t.Fatal("full")
		}
		PutSend(p.Slot(0), &w)
		PutSendSGE(p.Slot(0), 0, SGE{Addr: 1})
		p.Publish(1)
		if n, ok := c.Avail(); n != 1 || !ok {
			t.Fatal("nothing there")
		}
		GetSend(c.Slot(0), &out)
		PutCQE(c.Slot(0), &cqe)
		GetCQE(c.Slot(0), &cqe)
		c.Release(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
