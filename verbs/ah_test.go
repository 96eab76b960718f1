package verbs_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func gidOf(s string) verbs.GID { return netip.MustParseAddr(s).As16() }

func TestAHLifetime(t *testing.T) {
	r := newRigOf(t, verbs.UD, verbs.QPStateRTS, verbs.QPCap{})
	av := verbs.AddressVector{DGID: gidOf("::ffff:192.0.2.2"), HopLimit: 7}
	ah := must(r.pd.CreateAH(&av))(t)
	av.HopLimit = 9
	if got := ah.Attr(); got.HopLimit != 7 || got.DGID != av.DGID {
		t.Errorf("attributes %+v are not those of its creation", got)
	}
	if err := r.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := r.pd.Dealloc(); !errors.Is(err, verbs.ErrBusy) || !strings.Contains(err.Error(), "1 address handles") {
		t.Errorf("domain with a handle: %v, want ErrBusy", err)
	}
	for range 2 {
		if err := ah.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if err := r.pd.Dealloc(); err != nil {
		t.Error(err)
	}
	if _, err := r.pd.CreateAH(&av); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("handle of a domain that is gone: %v", err)
	}
	if _, err := r.pd.CreateAH(nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("handle of nothing: %v", err)
	}
}

// TestPostManagement: a management datagram is a plain SEND by an address handle.
func TestPostManagement(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(wr *verbs.SendWR)
		want   error
	}{
		{"right", func(*verbs.SendWR) {}, nil},
		{"redirected to another queue pair", func(wr *verbs.SendWR) { wr.RemoteQPN = 0x11 }, nil},
		{"no handle", func(wr *verbs.SendWR) { wr.AH = nil }, verbs.ErrInvalid},
		{"immediate data", func(wr *verbs.SendWR) { wr.Opcode = verbs.OpSendWithImm }, verbs.ErrInvalid},
		{"WRITE", func(wr *verbs.SendWR) { wr.Opcode = verbs.OpRDMAWrite }, verbs.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRigOf(t, verbs.GSI, verbs.QPStateRTS, verbs.QPCap{})
			ah := must(r.pd.CreateAH(&verbs.AddressVector{}))(t)
			wr := verbs.SendWR{Opcode: verbs.OpSend, AH: ah, RemoteQPN: verbs.GSIQPN, RemoteQKey: verbs.GSIQKey}
			tt.change(&wr)
			if err := r.qp.PostSend(&wr); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if n := len(r.fake().seen); n == 1 != (tt.want == nil) {
				t.Errorf("%d work requests reached the device", n)
			}
		})
	}
}

func TestCloseDestroysAHs(t *testing.T) {
	r := newRigOf(t, verbs.UD, verbs.QPStateRTS, verbs.QPCap{})
	must(r.pd.CreateAH(&verbs.AddressVector{}))(t)
	must(r.pd.CreateAH(&verbs.AddressVector{}))(t)
	if err := r.c.Close(); err != nil {
		t.Fatal(err)
	}
	if len(r.f.ahs) != 0 || r.f.pds != 0 {
		t.Errorf("left on the device: %d handles, %d domains", len(r.f.ahs), r.f.pds)
	}
}

// groupAH leads to a multicast group.
func groupAH(pd *verbs.PD) *verbs.AH {
	ah, _ := pd.CreateAH(&verbs.AddressVector{DGID: gidOf("::ffff:239.1.2.3")})
	return ah
}

func TestPostDatagram(t *testing.T) {
	type setting struct {
		ud, rc *rig
		ah     *verbs.AH
	}
	for name, c := range map[string]struct {
		change func(s *setting, wr *verbs.SendWR)
		rc     bool
		is     error
		says   string
	}{
		"right":          {func(*setting, *verbs.SendWR) {}, false, nil, ""},
		"immediate data": {func(_ *setting, wr *verbs.SendWR) { wr.Opcode = verbs.OpSendWithImm }, false, nil, ""},
		"no handle":      {func(_ *setting, wr *verbs.SendWR) { wr.AH = nil }, false, verbs.ErrInvalid, "needs AH"},
		"no queue pair":  {func(_ *setting, wr *verbs.SendWR) { wr.RemoteQPN = 0 }, false, verbs.ErrInvalid, "RemoteQPN is 0x0"},
		"a group":        {func(_ *setting, wr *verbs.SendWR) { wr.RemoteQPN = 0xFFFFFF }, false, verbs.ErrInvalid, "0xffffff"},
		"to a group": {func(s *setting, wr *verbs.SendWR) {
			s.ah, wr.RemoteQPN = groupAH(s.ud.pd), verbs.MulticastQPN
			wr.AH = s.ah
		}, false, nil, ""},
		"a queue pair at a group": {func(s *setting, wr *verbs.SendWR) { wr.AH = groupAH(s.ud.pd) }, false, verbs.ErrInvalid, "has MulticastQPN"},
		"25 bits":                 {func(_ *setting, wr *verbs.SendWR) { wr.RemoteQPN = 1<<24 + 1 }, false, verbs.ErrInvalid, "0x1000001"},
		"destroyed":               {func(s *setting, _ *verbs.SendWR) { _ = s.ah.Destroy() }, false, verbs.ErrClosed, "destroyed"},
		"WRITE":                   {func(_ *setting, wr *verbs.SendWR) { wr.Opcode = verbs.OpRDMAWrite }, false, verbs.ErrInvalid, "connected"},
		"READ":                    {func(_ *setting, wr *verbs.SendWR) { wr.Opcode = verbs.OpRDMARead }, false, verbs.ErrInvalid, "reliable"},
		"invalidate":              {func(_ *setting, wr *verbs.SendWR) { wr.Opcode = verbs.OpSendWithInv }, false, verbs.ErrInvalid, "reliable"},
		"on a connection":         {func(*setting, *verbs.SendWR) {}, true, verbs.ErrInvalid, "to its peer only"},
		"of another's domain":     {func(s *setting, wr *verbs.SendWR) { wr.AH, _ = s.rc.pd.CreateAH(&verbs.AddressVector{}) }, false, verbs.ErrInvalid, "another protection domain"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &setting{
				ud: newRigOf(t, verbs.UD, verbs.QPStateRTS, verbs.QPCap{}),
				rc: newRigOf(t, verbs.RC, verbs.QPStateRTS, verbs.QPCap{}),
			}
			must(s.ud.pd.CreateAH(&verbs.AddressVector{}))(t)
			s.ah = must(s.ud.pd.CreateAH(&verbs.AddressVector{}))(t)
			wr := verbs.SendWR{Opcode: verbs.OpSend, AH: s.ah, RemoteQPN: 0x123456, RemoteQKey: 0x80000001}
			c.change(s, &wr)
			r := s.ud
			if c.rc {
				r = s.rc
			}
			err := r.qp.PostSend(&wr)
			if !errors.Is(err, c.is) || c.is != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %v with %q", err, c.is, c.says)
			}
			if c.is != nil {
				if len(r.fake().seen) != 0 {
					t.Error("a refused work request reached the device")
				}
				return
			}
			if got := r.fake().seen[0]; s.ud.f.ahs[got.AH] != s.ah.Attr() || got.RemoteQPN != wr.RemoteQPN || got.RemoteQKey != 0x80000001 {
				t.Errorf("device saw %+v", got)
			}
		})
	}
}

func TestPostDatagramDoesNotAllocate(t *testing.T) {
	r := newRigOf(t, verbs.UD, verbs.QPStateRTS, verbs.QPCap{MaxInline: 16})
	r.fake().record = false
	wr := verbs.SendWR{
		Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: make([]byte, 16),
		AH: must(r.pd.CreateAH(&verbs.AddressVector{}))(t), RemoteQPN: 2,
	}
	wcs := make([]verbs.WC, 4)
	if n := testing.AllocsPerRun(200, func() { _ = r.qp.PostSend(&wr); r.cq.Poll(wcs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// grh4 is what lies in front of a datagram that came over IPv4: 20 bytes of
// anything and the header, from 192.0.2.2 to 192.0.2.1, TOS 0x2a.
func grh4(junk byte) []byte {
	b := make([]byte, verbs.GRHLen)
	for i := range 20 {
		b[i] = junk
	}
	copy(b[20:], []byte{0x45, 0x2a, 0, 60, 0, 1, 0x40, 0, 63, 17, 0xb7, 0x82, 192, 0, 2, 2, 192, 0, 2, 1})
	return b
}

// grh6 is the same over IPv6: from fd00::2 to fd00::1, class 0x2a, label 0x5ba59.
func grh6() []byte {
	b := make([]byte, verbs.GRHLen)
	copy(b, []byte{0x62, 0xa5, 0xba, 0x59, 0, 24, 17, 63})
	src, dst := gidOf("fd00::2"), gidOf("fd00::1")
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return b
}

func TestInitAHFromWC(t *testing.T) {
	received := verbs.WC{Opcode: verbs.WCRecv, Flags: verbs.WCGRH, SrcQP: 0x77}
	with := func(b []byte, at int, v ...byte) []byte { copy(b[at:], v); return b }
	four := verbs.AddressVector{DGID: gidOf("::ffff:192.0.2.2"), SGIDIndex: 2, TrafficClass: 0x2a, Port: 1}
	six := verbs.AddressVector{DGID: gidOf("fd00::2"), SGIDIndex: 0, TrafficClass: 0x2a, FlowLabel: 0x5ba59, Port: 1}
	marked := four
	marked.TrafficClass = 0x2a
	for name, c := range map[string]struct {
		wc   verbs.WC
		grh  []byte
		want verbs.AddressVector
		says string // of the error, if there has to be one
	}{
		"IPv4":                             {received, grh4(0), four, ""},
		"IPv4, more bytes than needed":     {received, append(grh4(0), "payload"...), four, ""},
		"IPv4 after bytes that could be 6": {received, grh4(0x66), four, ""},
		"IPv4, congested":                  {received, with(grh4(0), 21, 0x2b), marked, ""},
		"IPv6":                             {received, grh6(), six, ""},
		"IPv6 whose address looks like IPv4's first byte": {received, with(grh6(), 20, 0x45), verbs.AddressVector{
			DGID: gidOf("fd00::4500:2"), SGIDIndex: 0, TrafficClass: 0x2a, FlowLabel: 0x5ba59, Port: 1}, ""},
		"IPv4 to a group": {received, with(grh4(0), 36, 239, 1, 2, 3), four, ""},
		"IPv6 to a group": {received, with(grh6(), 24, 0xff, 0x0e), six, ""},
		"IPv6 to a group of the link, from a global address": {received, with(grh6(), 24, 0xff, 0x02), six, ""},
		"neither":                 {received, make([]byte, verbs.GRHLen), verbs.AddressVector{}, "neither"},
		"too short":               {received, grh4(0)[:39], verbs.AddressVector{}, "39 bytes"},
		"nothing":                 {received, nil, verbs.AddressVector{}, "0 bytes"},
		"to an address long gone": {received, with(grh4(0), 36, 192, 0, 2, 99), verbs.AddressVector{}, "192.0.2.99"},
		"of a connection":         {verbs.WC{Opcode: verbs.WCRecv}, grh4(0), verbs.AddressVector{}, "not that of a received datagram"},
		"of a send":               {verbs.WC{Opcode: verbs.WCSend, Flags: verbs.WCGRH}, grh4(0), verbs.AddressVector{}, "not that of"},
		"of a failure":            {verbs.WC{Status: verbs.WCFlushed, Opcode: verbs.WCRecv, Flags: verbs.WCGRH}, grh4(0), verbs.AddressVector{}, "not that of"},
	} {
		t.Run(name, func(t *testing.T) {
			f, ctx := newFake(t)
			f.gids = []verbs.GIDEntry{
				{Index: 0, GID: gidOf("fd00::1"), Valid: true}, {Index: 1}, {Index: 2, GID: gidOf("::ffff:192.0.2.1"), Valid: true},
			}
			got, err := ctx.InitAHFromWC(&c.wc, c.grh)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (!errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error %v, want %q", err, c.says)
			}
			ah, err := must(ctx.AllocPD())(t).CreateAHFromWC(&c.wc, c.grh)
			if (err == nil) != (c.says == "") {
				t.Errorf("handle: %v", err)
			}
			if err == nil && ah.Attr() != c.want {
				t.Errorf("handle of %+v", ah.Attr())
			}
		})
	}
	_, ctx := newFake(t)
	if _, err := ctx.InitAHFromWC(nil, grh4(0)); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("no completion: %v", err)
	}
}
