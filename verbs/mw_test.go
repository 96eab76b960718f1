package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// keyRig is a queue pair in RTS, a region that windows may be bound to, windows of
// both types and a fast region for 100 bytes.
type keyRig struct {
	*rig
	mr     *verbs.MR
	w1, w2 *verbs.MW
	fast   *verbs.FastMR
}

func newKeyRig(t *testing.T, typ verbs.QPType) *keyRig {
	t.Helper()
	k := &keyRig{rig: newRigOf(t, typ, verbs.QPStateRTS, verbs.QPCap{MaxInline: 16})}
	k.mr = must(k.pd.RegisterMemory(make([]byte, 256), verbs.AccessLocalWrite|verbs.AccessMWBind))(t)
	k.w1 = must(k.pd.AllocMW(verbs.MWType1))(t)
	k.w2 = must(k.pd.AllocMW(verbs.MWType2))(t)
	k.fast = must(k.pd.AllocFastMR(100))(t)
	return k
}

func (k *keyRig) info(off int, n uint64, access verbs.Access) *verbs.MWBindInfo {
	return &verbs.MWBindInfo{MR: k.mr, Addr: k.mr.Addr() + uint64(off), Length: n, Access: access}
}

func TestBindMW(t *testing.T) {
	conformance.Rule(t, "10-17")
	k := newKeyRig(t, verbs.RC)
	first := k.w1.RKey()
	b := verbs.MWBind{WRID: 7, Flags: verbs.SendSignaled | verbs.SendFence, Info: *k.info(16, 32, verbs.AccessRemoteWrite)}
	for i := range 256 {
		if err := k.qp.BindMW(k.w1, &b); err != nil {
			t.Fatal(err)
		}
		want := first&^0xff | (first+1+uint32(i))&0xff
		if k.w1.RKey() != want {
			t.Fatalf("key after %d bindings is %#x, want %#x", i+1, k.w1.RKey(), want)
		}
		var wcs [1]verbs.WC
		k.cq.Poll(wcs[:])
	}
	want := queue.SendWQE{
		WRID: 7, Opcode: ibv.WRBindMW, Flags: ibv.SendSignaled | ibv.SendFence, RKey: first + 1,
		BindAddr: k.mr.Addr() + 16, BindLength: 32, BindLKey: k.mr.LKey(), BindRKey: first + 1, BindAccess: ibv.AccessRemoteWrite,
	}
	if got := k.fake().seen[0]; got != want {
		t.Errorf("posted %+v\nwant %+v", got, want)
	}
}

func TestBindMWOfNoBytes(t *testing.T) {
	k := newKeyRig(t, verbs.UC)
	if err := k.qp.BindMW(k.w1, &verbs.MWBind{}); err != nil {
		t.Fatal(err)
	}
	if got := k.fake().seen[0]; got.BindLength != 0 || got.BindLKey != 0 || got.BindRKey != k.w1.RKey() {
		t.Errorf("posted %+v", got)
	}
}

// A binding that is not posted does not change the key.
func TestBindMWThatFails(t *testing.T) {
	k := newKeyRig(t, verbs.RC)
	key := k.w1.RKey()
	for name, err := range map[string]error{
		"range":      k.qp.BindMW(k.w1, &verbs.MWBind{Info: *k.info(0, 257, 0)}),
		"no window":  k.qp.BindMW(nil, &verbs.MWBind{}),
		"no binding": k.qp.BindMW(k.w1, nil),
		"type 2":     k.qp.BindMW(k.w2, &verbs.MWBind{Info: *k.info(0, 8, 0)}),
	} {
		if !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if k.w1.RKey() != key {
		t.Errorf("the key is %#x, was %#x", k.w1.RKey(), key)
	}
}

func TestPostKeyOperations(t *testing.T) {
	k := newKeyRig(t, verbs.RC)
	k2, kf := verbs.IncRKey(k.w2.RKey()), verbs.IncRKey(k.fast.LKey())
	wrs := []verbs.SendWR{
		{WRID: 1, Opcode: verbs.OpBindMW, MW: k.w2, RKey: k2, Bind: k.info(8, 16, verbs.AccessRemoteRead|verbs.AccessZeroBased)},
		{WRID: 2, Opcode: verbs.OpRegMR, FastMR: k.fast, RKey: kf, Bind: k.info(24, 100, verbs.AccessLocalWrite)},
		{WRID: 3, Opcode: verbs.OpLocalInv, InvalidateKey: k2},
	}
	if n, err := k.qp.PostSendBatch(wrs); n != 3 || err != nil {
		t.Fatalf("%d posted: %v", n, err)
	}
	want := []queue.SendWQE{
		{WRID: 1, Opcode: ibv.WRBindMW, RKey: k2, BindAddr: k.mr.Addr() + 8, BindLength: 16, BindLKey: k.mr.LKey(), BindRKey: k2, BindAccess: ibv.AccessRemoteRead | ibv.AccessZeroBased},
		{WRID: 2, Opcode: ibv.WRRegMR, RKey: kf, BindAddr: k.mr.Addr() + 24, BindLength: 100, BindLKey: k.mr.LKey(), BindRKey: kf, BindAccess: ibv.AccessLocalWrite},
		{WRID: 3, Opcode: ibv.WRLocalInv, Imm: k2},
	}
	for i, w := range want {
		if got := k.fake().seen[i]; got != w {
			t.Errorf("posted %+v\nwant %+v", got, w)
		}
	}
	if k.w2.RKey() != k2 || k.fast.LKey() != kf || k.fast.RKey() != kf {
		t.Errorf("keys %#x and %#x, want %#x and %#x", k.w2.RKey(), k.fast.LKey(), k2, kf)
	}
	if s := k.fast.SGE(4, 5); k.fast.Len() != 100 || k.fast.Addr() != k.mr.Addr()+24 || s != (verbs.SGE{Addr: k.mr.Addr() + 28, Length: 5, LKey: kf}) {
		t.Errorf("fast region has %d bytes at %#x, entry %+v", k.fast.Len(), k.fast.Addr(), s)
	}
	again := verbs.SendWR{
		Opcode: verbs.OpRegMR, FastMR: k.fast, RKey: verbs.IncRKey(kf),
		Bind: &verbs.MWBindInfo{LKey: 0x1234, Addr: 99, Length: 1, Access: verbs.AccessZeroBased},
	}
	if err := k.qp.PostSend(&again); err != nil {
		t.Fatal(err)
	}
	if got := k.fake().seen[3]; got.BindLKey != 0x1234 || k.fast.Addr() != 0 || k.fast.Len() != 1 {
		t.Errorf("posted %+v; %d bytes at %#x", got, k.fast.Len(), k.fast.Addr())
	}
}

func TestPostKeyOperationsRefuses(t *testing.T) {
	const rw = verbs.AccessRemoteWrite
	bind := func(change func(*keyRig, *verbs.SendWR)) func(*keyRig) *verbs.SendWR {
		return func(k *keyRig) *verbs.SendWR {
			wr := &verbs.SendWR{Opcode: verbs.OpBindMW, MW: k.w2, RKey: verbs.IncRKey(k.w2.RKey()), Bind: k.info(0, 8, rw)}
			change(k, wr)
			return wr
		}
	}
	reg := func(change func(*keyRig, *verbs.SendWR)) func(*keyRig) *verbs.SendWR {
		return func(k *keyRig) *verbs.SendWR {
			wr := &verbs.SendWR{Opcode: verbs.OpRegMR, FastMR: k.fast, RKey: verbs.IncRKey(k.fast.LKey()), Bind: k.info(0, 8, 0)}
			change(k, wr)
			return wr
		}
	}
	for _, tc := range []struct {
		name string
		make func(*keyRig) *verbs.SendWR
		says string
	}{
		{"bind without window", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.MW = nil }), "needs MW and Bind"},
		{"bind without binding", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind = nil }), "needs MW and Bind"},
		{"bind of type 1", bind(func(k *keyRig, wr *verbs.SendWR) { wr.MW = k.w1 }), "QP.BindMW"},
		{"bind with local rights", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.Access = verbs.AccessLocalWrite }), "remote rights and ZERO_BASED only"},
		{"bind of no bytes", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.Length = 0 }), "Length is 0"},
		{"bind past the region", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.Length = 257 }), "not inside the region"},
		{"bind before the region", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.Addr-- }), "not inside the region"},
		{"bind without region", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.MR = nil }), "needs MR, or the LKey"},
		{"bind by the same key", bind(func(k *keyRig, wr *verbs.SendWR) { wr.RKey = k.w2.RKey() }), "IncRKey"},
		{"bind by another index", bind(func(k *keyRig, wr *verbs.SendWR) { wr.RKey += 0x100 }), "IncRKey"},
		{"bind with data", bind(func(k *keyRig, wr *verbs.SendWR) { wr.SGList = []verbs.SGE{k.mr.SGE(0, 8)} }), "has no data"},
		{"bind inline", bind(func(_ *keyRig, wr *verbs.SendWR) { wr.Flags = verbs.SendInline }), "has no data"},
		{"bind to a region without MW_BIND", bind(func(k *keyRig, wr *verbs.SendWR) {
			wr.Bind.MR = must(k.pd.RegisterMemory(make([]byte, 8), verbs.AccessLocalWrite))(t)
		}), "lacks MW_BIND"},
		{"bind to a read-only region", bind(func(k *keyRig, wr *verbs.SendWR) {
			wr.Bind.MR = must(k.pd.RegisterMemory(make([]byte, 8), verbs.AccessMWBind))(t)
			wr.Bind.Addr = wr.Bind.MR.Addr()
		}), "lacks LOCAL_WRITE"},
		{"bind to a region of another domain", bind(func(k *keyRig, wr *verbs.SendWR) {
			wr.Bind.MR = must(must(k.c.AllocPD())(t).RegisterMemory(make([]byte, 8), verbs.AccessMWBind))(t)
		}), "another protection domain"},
		{"window of another domain", bind(func(k *keyRig, wr *verbs.SendWR) {
			wr.MW = must(must(k.c.AllocPD())(t).AllocMW(verbs.MWType2))(t)
		}), "another protection domain"},
		{"register without region", reg(func(_ *keyRig, wr *verbs.SendWR) { wr.FastMR = nil }), "needs FastMR and Bind"},
		{"register too much", reg(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.Length = 101 }), "allocated for 100 bytes"},
		{"register remote rights only", reg(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.Access = rw }), "need LOCAL_WRITE"},
		{"register by the same key", reg(func(k *keyRig, wr *verbs.SendWR) { wr.RKey = k.fast.LKey() }), "IncRKey"},
		{"register no bytes", reg(func(_ *keyRig, wr *verbs.SendWR) { wr.Bind.Length = 0 }), "Length is 0"},
		{"register as of another domain", reg(func(k *keyRig, wr *verbs.SendWR) {
			wr.FastMR = must(must(k.c.AllocPD())(t).AllocFastMR(8))(t)
		}), "another protection domain"},
		{"invalidate with data", func(k *keyRig) *verbs.SendWR {
			return &verbs.SendWR{Opcode: verbs.OpLocalInv, SGList: []verbs.SGE{k.mr.SGE(0, 8)}}
		}, "has no data"},
	} {
		k := newKeyRig(t, verbs.RC)
		err := k.qp.PostSend(tc.make(k))
		if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want ErrInvalid with %q", tc.name, err, tc.says)
		}
		if len(k.fake().seen) != 0 {
			t.Errorf("%s: posted", tc.name)
		}
	}
	k := newKeyRig(t, verbs.RC)
	w2, fast := bind(func(*keyRig, *verbs.SendWR) {})(k), reg(func(*keyRig, *verbs.SendWR) {})(k)
	if err := errors.Join(k.w2.Dealloc(), k.fast.Deregister()); err != nil {
		t.Fatal(err)
	}
	for _, wr := range []*verbs.SendWR{w2, fast} {
		if err := k.qp.PostSend(wr); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s of what is gone: %v", wr.Opcode, err)
		}
	}
}

func TestDatagramsHaveNoKeyOperations(t *testing.T) {
	k := newKeyRig(t, verbs.UD)
	for _, op := range []verbs.Opcode{verbs.OpBindMW, verbs.OpLocalInv, verbs.OpRegMR} {
		if err := k.qp.PostSend(&verbs.SendWR{Opcode: op}); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestWindowsAreInUse(t *testing.T) {
	k := newKeyRig(t, verbs.RC)
	if _, err := k.pd.AllocMW(3); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("type 3: %v", err)
	}
	if _, err := k.pd.AllocFastMR(0); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("0 bytes: %v", err)
	}
	if k.w1.Type() != verbs.MWType1 || k.w2.PD() != k.pd || k.fast.PD() != k.pd || k.fast.Limit() != 100 {
		t.Error("the objects do not tell what they were made of")
	}
	k.f.busy = verbs.ErrBusy
	for range 2 { // refused, they stay as they were
		if err := k.mr.Deregister(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("region: %v", err)
		}
		if err := k.fast.Deregister(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("fast region: %v", err)
		}
	}
	k.f.busy = nil
	if err := k.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{k.mr.Deregister, k.w1.Dealloc, k.w1.Dealloc, k.w2.Dealloc, k.fast.Deregister, k.fast.Deregister} {
		if err := k.pd.Dealloc(); k.f.aliases > 0 && !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("domain with %d windows and fast regions: %v", k.f.aliases, err)
		}
		if err := step(); err != nil {
			t.Error(err)
		}
	}
	if err := k.pd.Dealloc(); err != nil {
		t.Error(err)
	}
	if _, err := k.pd.AllocMW(verbs.MWType1); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("window of a domain that is gone: %v", err)
	}
	if _, err := k.pd.AllocFastMR(1); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("fast region of a domain that is gone: %v", err)
	}
}

func TestCloseFreesWindows(t *testing.T) {
	k := newKeyRig(t, verbs.RC)
	if err := k.c.Close(); err != nil || k.f.aliases != 0 || len(k.f.regions) != 0 {
		t.Errorf("%v; %d windows and fast regions and %d regions are left", err, k.f.aliases, len(k.f.regions))
	}
}

func TestIncRKey(t *testing.T) {
	for key, want := range map[uint32]uint32{0: 1, 0x1234_56fe: 0x1234_56ff, 0x1234_56ff: 0x1234_5600, 0xffff_ffff: 0xffff_ff00} {
		if got := verbs.IncRKey(key); got != want {
			t.Errorf("after %#x comes %#x, want %#x", key, got, want)
		}
	}
}

func TestPostingBindingsDoesNotAllocate(t *testing.T) {
	k := newKeyRig(t, verbs.RC)
	k.fake().record = false
	b := verbs.MWBind{Info: *k.info(0, 8, 0)}
	wr := verbs.SendWR{Opcode: verbs.OpBindMW, MW: k.w2, Bind: k.info(0, 8, 0)}
	var wcs [4]verbs.WC
	if n := testing.AllocsPerRun(100, func() {
		wr.RKey = verbs.IncRKey(k.w2.RKey())
		if k.qp.BindMW(k.w1, &b) != nil || k.qp.PostSend(&wr) != nil {
			t.Fatal("refused")
		}
		k.cq.Poll(wcs[:])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
