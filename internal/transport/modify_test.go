package transport

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

var (
	modSelf  = ibv.GIDOf(netip.MustParseAddr("10.0.0.1"))
	modPeer  = ibv.GIDOf(netip.MustParseAddr("10.0.0.2"))
	modSelf6 = ibv.GIDOf(netip.MustParseAddr("fd00::1"))
	modPeer6 = ibv.GIDOf(netip.MustParseAddr("fd00::2"))
)

// Masks of the usual way of a connection to RTS.
const (
	modInit = ibv.QPAttrState | connInit
	modRTR  = ibv.QPAttrState | connAttrs | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer
	modRTS  = ibv.QPAttrState | ibv.QPAttrSQPSN | rcRTS
)

// goodAttr has a legal value for every attribute.
func goodAttr(state ibv.QPState) *ibv.QPAttr {
	return &ibv.QPAttr{
		State: state, PathMTU: ibv.MTU1024, RQPSN: 100, SQPSN: 200, DestQPN: 17, Port: 1,
		AccessFlags: ibv.AccessRemoteRead | ibv.AccessRemoteWrite, MaxRDAtomic: 4, MaxDestRDAtomic: 4,
		MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
		AV: ibv.AddressVector{DGID: modPeer, HopLimit: 64, Port: 1},
	}
}

// modQP makes a queue pair in RESET with queues of 16.
func modQP(t *testing.T, ty ibv.QPType) *QP {
	t.Helper()
	ring := func(n, elem int) *queue.Ring {
		r, err := queue.New(n, elem)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	cq := NewCQ(ring(64, queue.CQESize))
	qpCap := ibv.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2}
	return NewQP(NewEnv(memory.NewTable(16, func() uint32 { return 1 })), Config{
		QPN: 16, Type: ty, PD: 1, Cap: qpCap, SendCQ: cq, RecvCQ: cq,
		SQ: ring(16, queue.SendElemSize(2, 0)), RQ: ring(16, queue.RecvElemSize(2)),
	})
}

func mustModify(t *testing.T, q *QP, attr *ibv.QPAttr, mask ibv.AttrMask) {
	t.Helper()
	if err := q.Modify(1, attr, mask, modSelf, modPeer); err != nil {
		t.Fatalf("to %v: %v", attr.State, err)
	}
}

// modTo brings a new RC queue pair to a state.
func modTo(t *testing.T, state ibv.QPState) *QP {
	t.Helper()
	q := modQP(t, ibv.QPTypeRC)
	for _, step := range []struct {
		state ibv.QPState
		mask  ibv.AttrMask
	}{
		{ibv.QPStateInit, modInit}, {ibv.QPStateRTR, modRTR}, {ibv.QPStateRTS, modRTS}, {ibv.QPStateSQD, ibv.QPAttrState},
	} {
		if q.State() == state {
			return q
		}
		mustModify(t, q, goodAttr(step.state), step.mask)
	}
	return q
}

func TestModifyToRTS(t *testing.T) {
	q := modTo(t, ibv.QPStateRTS)
	want := *goodAttr(ibv.QPStateRTS)
	want.CurState = ibv.QPStateRTS
	want.Cap = q.Config().Cap
	if diff := cmp.Diff(want, q.Query()); diff != "" {
		t.Error(diff)
	}
	if q.mtu != 1024 || q.destQPN != 17 || q.selfGID != modSelf || q.peerGID != modPeer {
		t.Errorf("mtu %d, destQPN %d, self %v, peer %v", q.mtu, q.destQPN, q.selfGID, q.peerGID)
	}
}

func TestModifyMasksPSNsAndQPN(t *testing.T) {
	conformance.Rule(t, "7.1-17")
	q := modTo(t, ibv.QPStateInit)
	a := goodAttr(ibv.QPStateRTR)
	a.RQPSN, a.DestQPN = 0xff123456, 0xff000011
	mustModify(t, q, a, modRTR)
	a = goodAttr(ibv.QPStateRTS)
	a.SQPSN = 0x01fffffe
	mustModify(t, q, a, modRTS)
	if got := q.Query(); got.RQPSN != 0x123456 || got.SQPSN != 0xfffffe || got.DestQPN != 0x11 {
		t.Errorf("RQ PSN %#x, SQ PSN %#x, QPN %#x", got.RQPSN, got.SQPSN, got.DestQPN)
	}
}

func TestModifyTakesOnlyWhatTheMaskNames(t *testing.T) {
	q := modTo(t, ibv.QPStateRTS)
	before := q.Query()
	a := &ibv.QPAttr{AccessFlags: ibv.AccessRemoteAtomic, MinRNRTimer: 3, Timeout: 1, PathMTU: ibv.MTU256, DestQPN: 99}
	mustModify(t, q, a, ibv.QPAttrAccessFlags)
	before.AccessFlags = ibv.AccessRemoteAtomic
	if diff := cmp.Diff(before, q.Query()); diff != "" {
		t.Error(diff)
	}
}

func TestModifyWithoutStateStays(t *testing.T) {
	q := modTo(t, ibv.QPStateRTS)
	mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateErr, MinRNRTimer: 5}, ibv.QPAttrMinRNRTimer)
	if got := q.Query(); got.State != ibv.QPStateRTS || got.MinRNRTimer != 5 {
		t.Errorf("state %v, timer %d", got.State, got.MinRNRTimer)
	}
}

func TestModifyCurState(t *testing.T) {
	conformance.Rule(t, "7.1-15")
	q := modTo(t, ibv.QPStateRTS)
	a := &ibv.QPAttr{State: ibv.QPStateRTS, CurState: ibv.QPStateRTR}
	err := q.Modify(1, a, ibv.QPAttrState|ibv.QPAttrCurState, modSelf, modPeer)
	if !errors.Is(err, ErrAttrValue) || !strings.Contains(err.Error(), "CUR_STATE is RTR, the QP is in RTS") {
		t.Errorf("got %v", err)
	}
	a.CurState = ibv.QPStateRTS
	mustModify(t, q, a, ibv.QPAttrState|ibv.QPAttrCurState)
}

func TestModifyResetForgets(t *testing.T) {
	conformance.Rule(t, "7.1-20")
	for _, from := range allQPStates[:5] {
		q := modTo(t, from)
		mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
		want := ibv.QPAttr{Cap: q.Config().Cap}
		if diff := cmp.Diff(want, q.Query()); diff != "" {
			t.Errorf("from %v: %s", from, diff)
		}
		if q.mtu != 0 || q.destQPN != 0 || !q.peerGID.IsZero() {
			t.Errorf("from %v: mtu %d, destQPN %d, peer %v are left", from, q.mtu, q.destQPN, q.peerGID)
		}
	}
}

func TestModifyToErr(t *testing.T) {
	for _, from := range allQPStates[1:5] {
		q := modTo(t, from)
		mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
		mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
		if q.State() != ibv.QPStateErr {
			t.Errorf("from %v: in %v", from, q.State())
		}
		mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
	}
	q := modQP(t, ibv.QPTypeRC)
	if err := q.Modify(1, &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState, modSelf, modPeer); !errors.Is(err, ErrTransition) {
		t.Errorf("RESET to ERR: %v", err)
	}
}

func TestModifySQDAndBack(t *testing.T) {
	q := modTo(t, ibv.QPStateRTS)
	mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateSQD, EnSQDAsyncNotify: true}, ibv.QPAttrState|ibv.QPAttrEnSQDAsyncNotify)
	if got := q.Query(); got.State != ibv.QPStateSQD || got.SQDraining || !got.EnSQDAsyncNotify {
		t.Errorf("state %v, draining %v, notify %v", got.State, got.SQDraining, got.EnSQDAsyncNotify)
	}
	mustModify(t, q, &ibv.QPAttr{RetryCnt: 3, Timeout: 9}, ibv.QPAttrRetryCnt|ibv.QPAttrTimeout)
	mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateRTS}, ibv.QPAttrState)
	if got := q.Query(); got.State != ibv.QPStateRTS || got.RetryCnt != 3 || got.Timeout != 9 || got.EnSQDAsyncNotify {
		t.Errorf("state %v, retries %d, timeout %d, notify %v", got.State, got.RetryCnt, got.Timeout, got.EnSQDAsyncNotify)
	}
}

func TestModifyDatagramTypes(t *testing.T) {
	for ty, init := range map[ibv.QPType]ibv.AttrMask{
		ibv.QPTypeUD:  dgramInit | ibv.QPAttrPort,
		ibv.QPTypeGSI: dgramInit,
	} {
		q := modQP(t, ty)
		a := goodAttr(ibv.QPStateInit)
		a.QKey = 0x11111111
		mustModify(t, q, a, ibv.QPAttrState|init)
		mustModify(t, q, goodAttr(ibv.QPStateRTR), ibv.QPAttrState)
		mustModify(t, q, goodAttr(ibv.QPStateRTS), ibv.QPAttrState|ibv.QPAttrSQPSN)
		if got := q.Query(); got.State != ibv.QPStateRTS || got.QKey != 0x11111111 {
			t.Errorf("%v: state %v, Q_Key %#x", ty, got.State, got.QKey)
		}
	}
}

// Every value is tried just outside its range, in the transition that needs it;
// nothing may change then.
func TestModifyRefusesValues(t *testing.T) {
	conformance.Rule(t, "7.1-19", "7.3-3")
	for _, tc := range []struct {
		name string
		from ibv.QPState
		mask ibv.AttrMask
		set  func(*ibv.QPAttr)
		want string
	}{
		{"P_Key index", ibv.QPStateReset, modInit, func(a *ibv.QPAttr) { a.PKeyIndex = 1 }, "PKEY_INDEX is 1 (0 to 0)"},
		{"port 0", ibv.QPStateReset, modInit, func(a *ibv.QPAttr) { a.Port = 0 }, "PORT is 0 (1)"},
		{"port 2", ibv.QPStateReset, modInit, func(a *ibv.QPAttr) { a.Port = 2 }, "PORT is 2 (1)"},
		{"rights", ibv.QPStateReset, modInit, func(a *ibv.QPAttr) { a.AccessFlags |= ibv.AccessHugeTLB }, "ACCESS_FLAGS has HUGETLB"},
		{"MTU 0", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.PathMTU = 0 }, "PATH_MTU has the code 0"},
		{"MTU 6", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.PathMTU = 6 }, "PATH_MTU has the code 6"},
		{"no QPN", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.DestQPN = 1 << 24 }, "DEST_QPN is 0x0"},
		{"multicast QPN", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.DestQPN = 0xffffff }, "DEST_QPN is 0xffffff"},
		{"RNR timer", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.MinRNRTimer = 32 }, "MIN_RNR_TIMER is 32 (0 to 31)"},
		{"dest reads", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.MaxDestRDAtomic = 129 }, "MAX_DEST_RD_ATOMIC is 129 (0 to 128)"},
		{"service level", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.AV.SL = 8 }, "AV.SL is 8 (0 to 7)"},
		{"flow label", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.AV.FlowLabel = 1 << 20 }, "AV.FlowLabel is 0x100000 (20 bits)"},
		{"AV port", ibv.QPStateInit, modRTR, func(a *ibv.QPAttr) { a.AV.Port = 2 }, "AV.Port is 2 (1)"},
		{"timeout", ibv.QPStateRTR, modRTS, func(a *ibv.QPAttr) { a.Timeout = 32 }, "TIMEOUT is 32 (0 to 31)"},
		{"retries", ibv.QPStateRTR, modRTS, func(a *ibv.QPAttr) { a.RetryCnt = 8 }, "RETRY_CNT is 8 (0 to 7)"},
		{"RNR retries", ibv.QPStateRTR, modRTS, func(a *ibv.QPAttr) { a.RNRRetry = 8 }, "RNR_RETRY is 8 (0 to 7)"},
		{"reads", ibv.QPStateRTR, modRTS, func(a *ibv.QPAttr) { a.MaxRDAtomic = 129 }, "MAX_QP_RD_ATOMIC is 129 (0 to 128)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := modTo(t, tc.from)
			before := q.Query()
			a := goodAttr(tc.from + 1)
			tc.set(a)
			err := q.Modify(1, a, tc.mask, modSelf, modPeer)
			if !errors.Is(err, ErrAttrValue) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff(before, q.Query()); diff != "" {
				t.Errorf("changed: %s", diff)
			}
			mustModify(t, q, goodAttr(tc.from+1), tc.mask)
		})
	}
}

func TestModifyTakesTheLimits(t *testing.T) {
	conformance.Rule(t, "7.1-19", "7.3-3")
	q := modTo(t, ibv.QPStateInit)
	a := goodAttr(ibv.QPStateRTR)
	a.DestQPN, a.MinRNRTimer, a.MaxDestRDAtomic, a.PathMTU = 0xfffffe, 31, 128, ibv.MTU4096
	a.AV.SL, a.AV.FlowLabel, a.AV.Port = 7, 1<<20-1, 0
	mustModify(t, q, a, modRTR)
	a = goodAttr(ibv.QPStateRTS)
	a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRDAtomic = 31, 7, 7, 128
	mustModify(t, q, a, modRTS)
}

func TestModifyAddresses(t *testing.T) {
	conformance.Rule(t, "7.1-18")
	addr := func(s string) ibv.GID { return ibv.GIDOf(netip.MustParseAddr(s)) }
	for _, tc := range []struct {
		name       string
		self, peer ibv.GID
		want       string // empty: good
	}{
		{"IPv4", modSelf, modPeer, ""},
		{"IPv6", modSelf6, modPeer6, ""},
		{"to itself", modSelf, modSelf, ""},
		{"own entry unused", ibv.GID{}, modPeer, "AV.SGIDIndex 3 has no address"},
		{"no peer", modSelf6, ibv.GID{}, "AV.DGID is not set"},
		{"peer 0.0.0.0", modSelf, addr("0.0.0.0"), "AV.DGID is not set"},
		{"IPv4 to IPv6", modSelf, modPeer6, "one is IPv4, the other IPv6"},
		{"IPv6 to IPv4", modSelf6, modPeer, "one is IPv4, the other IPv6"},
		{"IPv4 multicast", modSelf, addr("224.0.0.1"), "multicast"},
		{"IPv6 multicast", modSelf6, addr("ff02::1"), "multicast"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := modTo(t, ibv.QPStateInit)
			a := goodAttr(ibv.QPStateRTR)
			a.AV.DGID, a.AV.SGIDIndex = tc.peer, 3
			err := q.Modify(1, a, modRTR, tc.self, tc.peer)
			if tc.want == "" {
				if err != nil || q.selfGID != tc.self || q.peerGID != tc.peer {
					t.Errorf("self %v, peer %v, error %v", q.selfGID, q.peerGID, err)
				}
				return
			}
			if !errors.Is(err, ErrAttrValue) || !strings.Contains(err.Error(), tc.want) || q.State() != ibv.QPStateInit {
				t.Errorf("in %v, error %v, want %q", q.State(), err, tc.want)
			}
		})
	}
}
