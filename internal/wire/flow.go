package wire

// firstFlowPort is the start of the range of RoCEv2 source ports, 0xC000 to
// 0xFFFF.
const firstFlowPort = 0xC000

// FlowLabelToPort is the UDP source port for a flow label (20 bits), as Linux
// and HCAs compute it: the label's high bits folded onto its low 14 bits.
func FlowLabelToPort(label uint32) uint16 {
	return firstFlowPort | uint16(label&0x3FFF^label&0xFC000>>14)
}

// FlowLabelFromQPNs is the flow label, 20 bits, of a connected queue pair
// whose address vector has none. It is the same at both ends.
func FlowLabelFromQPNs(local, remote uint32) uint32 {
	v := uint64(local) * uint64(remote)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v & 0xFFFFF)
}

// FlowLabelFromPorts is the flow label, 20 bits, that the connection manager
// gives a connection between two ports of its port space, unless an IPv6
// destination has one of its own.
func FlowLabelFromPorts(src, dst uint16) uint32 {
	return (uint32(src)*31 + uint32(dst)) & 0xFFFFF
}

// PortFromQPN is the UDP source port of a queue pair that has no address
// vector: rdma_rxe uses it for UD and for the connection manager's packets.
func PortFromQPN(qpn uint32) uint16 {
	return firstFlowPort | uint16(qpn*0x61C88647>>18)
}
