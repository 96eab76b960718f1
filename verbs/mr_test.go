package verbs_test

import (
	"errors"
	"math"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestRereg(t *testing.T) {
	f, ctx := newFake(t)
	pd, other := must(ctx.AllocPD())(t), must(ctx.AllocPD())(t)
	oldBuf, newBuf := make([]byte, 64), make([]byte, 32)
	mr := must(pd.RegisterMemory(oldBuf, verbs.AccessLocalWrite))(t)
	key := mr.RKey()

	if err := mr.Rereg(verbs.ReregPD, other, newBuf, verbs.AccessRemoteRead); err != nil {
		t.Fatal(err)
	}
	if mr.PD() != other || mr.RKey() != key || mr.Len() != 64 || mr.Access() != verbs.AccessLocalWrite {
		t.Errorf("domain %p, key %#x, %d bytes, %v", mr.PD(), mr.RKey(), mr.Len(), mr.Access())
	}
	if err := pd.Dealloc(); err != nil {
		t.Errorf("the old domain is still in use: %v", err)
	}
	if err := other.Dealloc(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("the new domain: %v", err)
	}
	if err := mr.Rereg(verbs.ReregTranslation|verbs.ReregAccess, nil, newBuf, verbs.AccessRemoteRead); err != nil {
		t.Fatal(err)
	}
	if mr.RKey() == key || &mr.Bytes()[0] != &newBuf[0] || mr.Len() != 32 || mr.Access() != verbs.AccessRemoteRead || mr.PD() != other {
		t.Errorf("key %#x, %d bytes, %v", mr.RKey(), mr.Len(), mr.Access())
	}
	last := f.reregs[1]
	if last.Flags != verbs.ReregTranslation|verbs.ReregAccess || last.PD != 0 || len(last.Buf) != 32 || last.Access != verbs.AccessRemoteRead {
		t.Errorf("the provider was told %+v", last)
	}
	if err := mr.Deregister(); err != nil || len(f.regions) != 0 {
		t.Errorf("%v, %d regions are left", err, len(f.regions))
	}
	if err := mr.Rereg(verbs.ReregAccess, nil, nil, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("after that: %v", err)
	}
}

// What is refused leaves the region as it was, whoever refuses.
func TestReregRefused(t *testing.T) {
	f, ctx := newFake(t)
	_, foreign := newFake(t)
	pd, away := must(ctx.AllocPD())(t), must(foreign.AllocPD())(t)
	gone := must(ctx.AllocPD())(t)
	if err := gone.Dealloc(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	mr := must(pd.RegisterMemory(buf, verbs.AccessLocalWrite))(t)
	implicit := must(pd.RegisterImplicit(verbs.AccessLocalWrite))(t)
	key := mr.RKey()
	for _, tt := range []struct {
		name   string
		mr     *verbs.MR
		flags  verbs.ReregFlags
		pd     *verbs.PD
		buf    []byte
		access verbs.Access
		want   error
	}{
		{"no flags", mr, 0, pd, buf, 0, verbs.ErrInvalid},
		{"unknown flags", mr, 8, pd, buf, 0, verbs.ErrInvalid},
		{"no domain", mr, verbs.ReregPD, nil, nil, 0, verbs.ErrInvalid},
		{"domain of another device", mr, verbs.ReregPD, away, nil, 0, verbs.ErrInvalid},
		{"domain that is gone", mr, verbs.ReregPD, gone, nil, 0, verbs.ErrClosed},
		{"no bytes", mr, verbs.ReregTranslation, nil, nil, 0, verbs.ErrInvalid},
		{"rights", mr, verbs.ReregAccess, nil, nil, verbs.AccessRemoteWrite, verbs.ErrInvalid},
		{"memory of an implicit region", implicit, verbs.ReregTranslation, nil, buf, 0, verbs.ErrInvalid},
	} {
		if err := tt.mr.Rereg(tt.flags, tt.pd, tt.buf, tt.access); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if len(f.reregs) != 0 {
		t.Errorf("the provider was asked %d times", len(f.reregs))
	}
	f.refuse = errors.New("no")
	if err := mr.Rereg(verbs.ReregTranslation, nil, make([]byte, 8), 0); !errors.Is(err, f.refuse) {
		t.Error(err)
	}
	if mr.RKey() != key || mr.Len() != 64 || mr.PD() != pd {
		t.Error("the region has changed")
	}
}

// A buffer is in use by the region that it was given to last.
func TestReregAndBuffers(t *testing.T) {
	_, ctx := newFake(t)
	pd := must(ctx.AllocPD())(t)
	a, b := must(ctx.AllocBuffer(64))(t), must(ctx.AllocBuffer(64))(t)
	mr := must(pd.RegisterMemory(a, verbs.AccessLocalWrite))(t)
	if err := ctx.FreeBuffer(a); !errors.Is(err, verbs.ErrBusy) {
		t.Error(err)
	}
	if err := mr.Rereg(verbs.ReregTranslation, nil, b, 0); err != nil {
		t.Fatal(err)
	}
	if err := ctx.FreeBuffer(b); !errors.Is(err, verbs.ErrBusy) {
		t.Error(err)
	}
	for range 2 { // of what was refused before, too
		err := ctx.FreeBuffer(a)
		if a == nil && !errors.Is(err, verbs.ErrInvalid) || a != nil && err != nil {
			t.Error(err)
		}
		a = nil
	}
}

func TestImplicitRegion(t *testing.T) {
	f, ctx := newFake(t)
	pd := must(ctx.AllocPD())(t)
	for _, bad := range []verbs.Access{verbs.AccessRemoteWrite, verbs.AccessLocalWrite | verbs.AccessRemoteAtomic, verbs.AccessMWBind} {
		if _, err := pd.RegisterImplicit(bad); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	mr := must(pd.RegisterImplicit(verbs.AccessLocalWrite))(t)
	if mr.Addr() != 0 || mr.Len() != math.MaxInt || mr.Bytes() != nil {
		t.Errorf("%d bytes at %#x", mr.Len(), mr.Addr())
	}
	buf := make([]byte, 24)
	part := must(pd.RegisterMemory(buf, 0))(t)
	if e := mr.SGEOf(buf[8:]); e.Length != 16 || e.LKey != mr.LKey() || e.Addr != part.SGEOf(buf).Addr+8 {
		t.Errorf("%+v", e)
	}
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
	if err := pd.Advise(verbs.AdvisePrefetchWrite, nil); err != nil || len(f.advice) != 1 || f.advice[0] != verbs.AdvisePrefetchWrite {
		t.Errorf("%v, advice %v", err, f.advice)
	}
	if err := pd.Advise(3, nil); !errors.Is(err, verbs.ErrInvalid) || len(f.advice) != 1 {
		t.Errorf("unknown advice: %v", err)
	}
}
