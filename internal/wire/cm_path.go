package wire

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// CMPathLen is the size of a path in a REQ.
const CMPathLen = 44

// CMPath is a path as a REQ describes it: the sender's side is "local".
type CMPath [CMPathLen]byte

// CMPathFields is what a path says; all reserved bits are zero.
type CMPathFields struct {
	LocalLID, RemoteLID uint16 // 0xFFFF on routed RoCE
	LocalGID, RemoteGID ibv.GID
	FlowLabel           uint32 // 20 bits
	PacketRate          uint8  // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits
	SubnetLocal         bool
	LocalACKTimeout     uint8 // 5 bits
}

// CMPathAt lays a path over the first 44 bytes of b.
func CMPathAt(b []byte) *CMPath { return (*CMPath)(b) }

// LocalLID is the sender's LID; RoCE has none.
func (p *CMPath) LocalLID() uint16 { return binary.BigEndian.Uint16(p[0:2]) }

// RemoteLID is the receiver's LID; RoCE has none.
func (p *CMPath) RemoteLID() uint16 { return binary.BigEndian.Uint16(p[2:4]) }

// LocalGID is the sender's address.
func (p *CMPath) LocalGID() ibv.GID { return ibv.GID(p[4:20]) }

// RemoteGID is the receiver's address.
func (p *CMPath) RemoteGID() ibv.GID { return ibv.GID(p[20:36]) }

// FlowLabel is the flow label, 20 bits, which also selects UDP source ports.
func (p *CMPath) FlowLabel() uint32 { return get24((*[3]byte)(p[36:39])) >> 4 }

// PacketRate is the static rate, 6 bits; receivers ignore it.
func (p *CMPath) PacketRate() uint8 { return p[39] & 0x3F }

// TrafficClass is the traffic class or TOS of the data.
func (p *CMPath) TrafficClass() uint8 { return p[40] }

// HopLimit is the hop limit of the sender's packets.
func (p *CMPath) HopLimit() uint8 { return p[41] }

// SL is the service level, 0 to 15.
func (p *CMPath) SL() uint8 { return p[42] >> 4 }

// SubnetLocal says that no router is between the two.
func (p *CMPath) SubnetLocal() bool { return p[42]&8 != 0 }

// LocalACKTimeout is the timeout of the receiver's queue pair, 0 to 31.
func (p *CMPath) LocalACKTimeout() uint8 { return p[43] >> 3 }

// SetLocalLID replaces the sender's LID.
func (p *CMPath) SetLocalLID(v uint16) { binary.BigEndian.PutUint16(p[0:2], v) }

// SetRemoteLID replaces the receiver's LID.
func (p *CMPath) SetRemoteLID(v uint16) { binary.BigEndian.PutUint16(p[2:4], v) }

// SetLocalGID replaces the sender's address.
func (p *CMPath) SetLocalGID(g ibv.GID) { copy(p[4:20], g[:]) }

// SetRemoteGID replaces the receiver's address.
func (p *CMPath) SetRemoteGID(g ibv.GID) { copy(p[20:36], g[:]) }

// SetFlowLabel replaces the flow label with the low 20 bits of v.
func (p *CMPath) SetFlowLabel(v uint32) { put24((*[3]byte)(p[36:39]), v<<4|uint32(p[38]&0x0F)) }

// SetPacketRate replaces the static rate with the low 6 bits of v.
func (p *CMPath) SetPacketRate(v uint8) { p[39] = p[39]&0xC0 | v&0x3F }

// SetTrafficClass replaces the traffic class.
func (p *CMPath) SetTrafficClass(v uint8) { p[40] = v }

// SetHopLimit replaces the hop limit.
func (p *CMPath) SetHopLimit(v uint8) { p[41] = v }

// SetSL replaces the service level with the low 4 bits of v.
func (p *CMPath) SetSL(v uint8) { p[42] = p[42]&0x0F | v<<4 }

// SetSubnetLocal replaces the subnet local bit.
func (p *CMPath) SetSubnetLocal(v bool) { setBit(&p[42], 8, v) }

// SetLocalACKTimeout replaces the timeout with the low 5 bits of v.
func (p *CMPath) SetLocalACKTimeout(v uint8) { p[43] = p[43]&7 | v<<3 }

// Fields takes all fields out.
func (p *CMPath) Fields() CMPathFields {
	return CMPathFields{
		LocalLID: p.LocalLID(), RemoteLID: p.RemoteLID(), LocalGID: p.LocalGID(), RemoteGID: p.RemoteGID(),
		FlowLabel: p.FlowLabel(), PacketRate: p.PacketRate(), TrafficClass: p.TrafficClass(), HopLimit: p.HopLimit(),
		SL: p.SL(), SubnetLocal: p.SubnetLocal(), LocalACKTimeout: p.LocalACKTimeout(),
	}
}

// Encode writes the whole path.
func (p *CMPath) Encode(f *CMPathFields) {
	clear(p[36:])
	p.SetLocalLID(f.LocalLID)
	p.SetRemoteLID(f.RemoteLID)
	p.SetLocalGID(f.LocalGID)
	p.SetRemoteGID(f.RemoteGID)
	p.SetFlowLabel(f.FlowLabel)
	p.SetPacketRate(f.PacketRate)
	p.SetTrafficClass(f.TrafficClass)
	p.SetHopLimit(f.HopLimit)
	p.SetSL(f.SL)
	p.SetSubnetLocal(f.SubnetLocal)
	p.SetLocalACKTimeout(f.LocalACKTimeout)
}
