package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// place is where a field is: its first bit, counted from the most significant
// bit of the message's first byte, and its width.
type place struct {
	name      string
	at, width int
	set       func(v uint64)
	get       func() uint64
}

// field makes a place from a setter and a getter of any unsigned type.
func field[T ~uint8 | ~uint16 | ~uint32 | ~uint64](name string, off, bit, width int, set func(T), get func() T) place {
	return place{name, off*8 + bit, width, func(v uint64) { set(T(v)) }, func() uint64 { return uint64(get()) }}
}

func flagAt(name string, off, bit int, set func(bool), get func() bool) place {
	return place{name, off*8 + bit, 1, func(v uint64) { set(v != 0) }, func() uint64 {
		if get() {
			return 1
		}
		return 0
	}}
}

// checkPlaces sets each field to all ones in a message of zeros, and to zero in
// a message of ones: exactly its bits change, and it reads back.
func checkPlaces(t *testing.T, m []byte, all []place) {
	t.Helper()
	for _, p := range all {
		ones := uint64(1)<<p.width - 1
		for _, fill := range []byte{0x00, 0xFF} {
			for i := range m {
				m[i] = fill
			}
			v := ones
			if fill == 0xFF {
				v = 0
			}
			p.set(v)
			if got := p.get(); got != v {
				t.Errorf("%s: set to %#x, reads %#x", p.name, v, got)
			}
			for i := range len(m) * 8 {
				changed := (m[i/8]^fill)>>(7-i%8)&1 != 0
				if inside := i >= p.at && i < p.at+p.width; changed != inside {
					t.Errorf("%s: bit %d of byte %d changed: %v", p.name, i%8, i/8, changed)
					break
				}
			}
		}
	}
}

func TestREQLayout(t *testing.T) {
	var m REQ
	checkPlaces(t, m[:], []place{
		field("local comm id", 0, 0, 32, m.SetLocalCommID, m.LocalCommID),
		field("vendor id", 5, 0, 24, m.SetVendorID, m.VendorID),
		field("service id", 8, 0, 64, m.SetServiceID, m.ServiceID),
		field("local CA GUID", 16, 0, 64, m.SetLocalCAGUID, m.LocalCAGUID),
		field("local Q_Key", 28, 0, 32, m.SetLocalQKey, m.LocalQKey),
		field("local QPN", 32, 0, 24, m.SetLocalQPN, m.LocalQPN),
		field("responder resources", 35, 0, 8, m.SetResponderResources, m.ResponderResources),
		field("local EEC", 36, 0, 24, m.SetLocalEEC, m.LocalEEC),
		field("initiator depth", 39, 0, 8, m.SetInitiatorDepth, m.InitiatorDepth),
		field("remote EEC", 40, 0, 24, m.SetRemoteEEC, m.RemoteEEC),
		field("remote response timeout", 43, 0, 5, m.SetRemoteResponseTimeout, m.RemoteResponseTimeout),
		field("transport type", 43, 5, 2, m.SetTransportType, m.TransportType),
		flagAt("flow control", 43, 7, m.SetFlowControl, m.FlowControl),
		field("starting PSN", 44, 0, 24, m.SetStartingPSN, m.StartingPSN),
		field("local response timeout", 47, 0, 5, m.SetLocalResponseTimeout, m.LocalResponseTimeout),
		field("retry count", 47, 5, 3, m.SetRetryCount, m.RetryCount),
		field("P_Key", 48, 0, 16, m.SetPKey, m.PKey),
		field("path MTU", 50, 0, 4, m.SetPathMTU, m.PathMTU),
		flagAt("RDC exists", 50, 4, m.SetRDCExists, m.RDCExists),
		field("RNR retry count", 50, 5, 3, m.SetRNRRetryCount, m.RNRRetryCount),
		field("max CM retries", 51, 0, 4, m.SetMaxCMRetries, m.MaxCMRetries),
		flagAt("SRQ", 51, 4, m.SetSRQ, m.SRQ),
		field("extended transport", 51, 5, 3, m.SetExtendedTransport, m.ExtendedTransport),
		field("primary flow label", 88, 0, 20, m.Primary().SetFlowLabel, m.Primary().FlowLabel),
		field("primary local LID", 52, 0, 16, m.Primary().SetLocalLID, m.Primary().LocalLID),
		field("primary remote LID", 54, 0, 16, m.Primary().SetRemoteLID, m.Primary().RemoteLID),
		field("primary packet rate", 91, 2, 6, m.Primary().SetPacketRate, m.Primary().PacketRate),
		field("primary SL", 94, 0, 4, m.Primary().SetSL, m.Primary().SL),
		flagAt("primary subnet local", 94, 4, m.Primary().SetSubnetLocal, m.Primary().SubnetLocal),
		field("primary traffic class", 92, 0, 8, m.Primary().SetTrafficClass, m.Primary().TrafficClass),
		field("primary hop limit", 93, 0, 8, m.Primary().SetHopLimit, m.Primary().HopLimit),
		field("primary ACK timeout", 95, 0, 5, m.Primary().SetLocalACKTimeout, m.Primary().LocalACKTimeout),
		field("alternate flow label", 132, 0, 20, m.Alternate().SetFlowLabel, m.Alternate().FlowLabel),
		field("alternate ACK timeout", 139, 0, 5, m.Alternate().SetLocalACKTimeout, m.Alternate().LocalACKTimeout),
	})
}

func TestREPLayout(t *testing.T) {
	var m REP
	vendor := func(i int) func() uint8 { return func() uint8 { return uint8(m.VendorID() >> i) } }
	setVendor := func(i int) func(uint8) {
		return func(v uint8) { m.SetVendorID(m.VendorID()&^(0xFF<<i) | uint32(v)<<i) }
	}
	checkPlaces(t, m[:], []place{
		field("local comm id", 0, 0, 32, m.SetLocalCommID, m.LocalCommID),
		field("remote comm id", 4, 0, 32, m.SetRemoteCommID, m.RemoteCommID),
		field("local Q_Key", 8, 0, 32, m.SetLocalQKey, m.LocalQKey),
		field("local QPN", 12, 0, 24, m.SetLocalQPN, m.LocalQPN),
		field("vendor id, high", 15, 0, 8, setVendor(16), vendor(16)),
		field("local EEC", 16, 0, 24, m.SetLocalEEC, m.LocalEEC),
		field("vendor id, middle", 19, 0, 8, setVendor(8), vendor(8)),
		field("starting PSN", 20, 0, 24, m.SetStartingPSN, m.StartingPSN),
		field("vendor id, low", 23, 0, 8, setVendor(0), vendor(0)),
		field("responder resources", 24, 0, 8, m.SetResponderResources, m.ResponderResources),
		field("initiator depth", 25, 0, 8, m.SetInitiatorDepth, m.InitiatorDepth),
		field("target ACK delay", 26, 0, 5, m.SetTargetACKDelay, m.TargetACKDelay),
		field("failover", 26, 5, 2, m.SetFailover, m.Failover),
		flagAt("flow control", 26, 7, m.SetFlowControl, m.FlowControl),
		field("RNR retry count", 27, 0, 3, m.SetRNRRetryCount, m.RNRRetryCount),
		flagAt("SRQ", 27, 3, m.SetSRQ, m.SRQ),
		field("local CA GUID", 28, 0, 64, m.SetLocalCAGUID, m.LocalCAGUID),
	})
}

func TestShortMessagesLayout(t *testing.T) {
	var mra MRA
	checkPlaces(t, mra[:], []place{
		field("MRA local comm id", 0, 0, 32, mra.SetLocalCommID, mra.LocalCommID),
		field("MRA remote comm id", 4, 0, 32, mra.SetRemoteCommID, mra.RemoteCommID),
		field("MRA message", 8, 0, 2, mra.SetMessage, mra.Message),
		field("MRA service timeout", 9, 0, 5, mra.SetServiceTimeout, mra.ServiceTimeout),
	})
	var rej REJ
	checkPlaces(t, rej[:], []place{
		field("REJ local comm id", 0, 0, 32, rej.SetLocalCommID, rej.LocalCommID),
		field("REJ remote comm id", 4, 0, 32, rej.SetRemoteCommID, rej.RemoteCommID),
		field("REJ message", 8, 0, 2, rej.SetMessage, rej.Message),
		field("REJ reason", 10, 0, 16, rej.SetReason, rej.Reason),
	})
	var rtu RTU
	checkPlaces(t, rtu[:], []place{
		field("RTU local comm id", 0, 0, 32, rtu.SetLocalCommID, rtu.LocalCommID),
		field("RTU remote comm id", 4, 0, 32, rtu.SetRemoteCommID, rtu.RemoteCommID),
	})
	var dreq DREQ
	checkPlaces(t, dreq[:], []place{
		field("DREQ local comm id", 0, 0, 32, dreq.SetLocalCommID, dreq.LocalCommID),
		field("DREQ remote comm id", 4, 0, 32, dreq.SetRemoteCommID, dreq.RemoteCommID),
		field("DREQ remote QPN", 8, 0, 24, dreq.SetRemoteQPN, dreq.RemoteQPN),
	})
	var req SIDRREQ
	checkPlaces(t, req[:], []place{
		field("SIDR_REQ request id", 0, 0, 32, req.SetRequestID, req.RequestID),
		field("SIDR_REQ P_Key", 4, 0, 16, req.SetPKey, req.PKey),
		field("SIDR_REQ service id", 8, 0, 64, req.SetServiceID, req.ServiceID),
	})
	var rep SIDRREP
	high := func() uint16 { return uint16(rep.VendorID() >> 8) }
	setHigh := func(v uint16) { rep.SetVendorID(rep.VendorID()&0xFF | uint32(v)<<8) }
	checkPlaces(t, rep[:], []place{
		field("SIDR_REP request id", 0, 0, 32, rep.SetRequestID, rep.RequestID),
		field("SIDR_REP status", 4, 0, 8, rep.SetStatus, rep.Status),
		field("SIDR_REP vendor id, high", 6, 0, 16, setHigh, high),
		field("SIDR_REP QPN", 8, 0, 24, rep.SetQPN, rep.QPN),
		field("SIDR_REP service id", 12, 0, 64, rep.SetServiceID, rep.ServiceID),
		field("SIDR_REP Q_Key", 20, 0, 32, rep.SetQKey, rep.QKey),
	})
	var mad MAD
	checkPlaces(t, mad[:], []place{
		field("TID", 8, 0, 64, mad.SetTID, mad.TID),
		field("attribute", 16, 0, 16, mad.SetAttr, mad.Attr),
		field("attribute modifier", 20, 0, 32, mad.SetAttrMod, mad.AttrMod),
	})
}

// Fields that have no setter of their own, and variable parts.
func TestEncodeOffsets(t *testing.T) {
	ones := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i + 1)
		}
		return b
	}
	var gid [2]ibv.GID
	gid[0][0], gid[1][15] = 0xA1, 0xB2
	path := CMPathFields{
		LocalLID: 0x0102, RemoteLID: 0x0304, LocalGID: gid[0], RemoteGID: gid[1], FlowLabel: 0xABCDE, PacketRate: 0x25,
		TrafficClass: 0x68, HopLimit: 0x40, SL: 5, SubnetLocal: true, LocalACKTimeout: 17,
	}
	var req REQ
	req.Encode(&REQFields{Primary: path, Alternate: path, PrivateData: ones(100)})
	var lap LAP
	lap.Encode(&LAPFields{RemoteQPN: 0x123456, RemoteResponseTimeout: 20, Alternate: path, PrivateData: ones(1)})
	var apr APR
	apr.Encode(&APRFields{Status: APUnsupported, Info: ones(2), PrivateData: ones(3)})
	var rej REJ
	rej.Encode(&REJFields{Info: ones(80), PrivateData: ones(148)})
	var rep SIDRREP
	rep.Encode(&SIDRREPFields{Info: ones(72), PrivateData: ones(136)})
	for _, c := range []struct {
		name string
		msg  []byte
		off  int
		want []byte
	}{
		{"primary LIDs", req[:], 52, []byte{1, 2, 3, 4, 0xA1}},
		{"primary remote GID", req[:], 87, []byte{0xB2}},
		{"primary flow label to ACK timeout", req[:], 88, []byte{0xAB, 0xCD, 0xE0, 0x25, 0x68, 0x40, 0x58, 17 << 3}},
		{"alternate path", req[:], 96, append([]byte{}, req[52:96]...)},
		{"REQ private data, cut off", req[:], 140, ones(92)},
		{"LAP QPN and timeout", lap[:], 12, []byte{0x12, 0x34, 0x56, 20 << 3, 0, 0, 0, 0, 1, 2, 3, 4, 0xA1}},
		{"LAP path", lap[:], 55, []byte{0xB2, 0xAB, 0xCD, 0xE0, 0x68, 0x40, 0x25, 0x58, 17 << 3, 1, 0}},
		{"APR", apr[:], 8, []byte{2, 2, 0, 0, 1, 2, 0}},
		{"APR private data", apr[:], 84, []byte{1, 2, 3, 0}},
		{"REJ info", rej[:], 9, append([]byte{72 << 1, 0, 0}, ones(72)...)},
		{"REJ private data", rej[:], 84, ones(148)},
		{"SIDR_REP info", rep[:], 5, []byte{72}},
		{"SIDR_REP private data", rep[:], 24, append(ones(72), ones(136)...)},
	} {
		if d := cmp.Diff(c.want, c.msg[c.off:c.off+len(c.want)]); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	if want := psn.PSN(0); req.StartingPSN() != want || !req.HasAlternate() {
		t.Errorf("PSN %d, alternate path %v", req.StartingPSN(), req.HasAlternate())
	}
}
