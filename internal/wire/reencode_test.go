package wire

import "encoding/binary"

// reencode takes a parsed frame apart into fields, headers and payload alike,
// and builds a frame of them. Only what no header of ours has is copied:
// bytes after the packet.
func reencode(p *Packet, frame []byte) []byte {
	out := make([]byte, 0, len(frame))
	hdr := func(n int) []byte {
		out = append(out, make([]byte, n)...)
		return out[len(out)-n:]
	}
	eth := EthernetAt(frame).Fields()
	EthernetAt(hdr(EthernetLen)).Encode(&eth)
	for len(out) < p.l3 {
		tag := VLANAt(frame[len(out):]).Fields()
		VLANAt(hdr(VLANLen)).Encode(&tag)
	}
	if p.IPv6 {
		ip := IPv6At(p.IP).Fields()
		IPv6At(hdr(IPv6Len)).Encode(&ip)
	} else {
		ip := IPv4At(p.IP).Fields()
		IPv4At(hdr(IPv4Len)).Encode(&ip)
	}
	udp := UDPAt(frame[len(out):]).Fields()
	UDPAt(hdr(UDPLen)).Encode(&udp)

	bth := len(out)
	f := p.Hdr().Fields()
	BTHAt(hdr(BTHLen)).Encode(&f)
	reencodeExt(p, hdr)
	for _, s := range p.Segments() {
		out = append(out, s...)
	}
	hdr(PadLen(p.PayloadLen))

	icrc := ICRC(out, p.l3, len(out)-p.l3)
	if p.ICRC == ICRCRXE {
		icrc = ICRCFlushRXE(icrc, out[bth:])
	}
	out = binary.LittleEndian.AppendUint32(out, icrc)
	return append(out, frame[len(out):]...)
}

// reencodeExt writes the extension headers in wire order.
func reencodeExt(p *Packet, hdr func(int) []byte) {
	has := func(h Hdr) bool { return p.Info.Headers&h != 0 }
	if has(HasXRCETH) {
		XRCETHAt(hdr(XRCETHLen)).SetSRQN(p.XRCETH().SRQN())
	}
	if has(HasDETH) {
		f := p.DETH().Fields()
		DETHAt(hdr(DETHLen)).Encode(&f)
	}
	if has(HasFETH) {
		f := p.FETH().Fields()
		FETHAt(hdr(FETHLen)).Encode(&f)
	}
	if has(HasRETH) {
		f := p.RETH().Fields()
		RETHAt(hdr(RETHLen)).Encode(&f)
	}
	if has(HasAtomicETH) {
		f := p.AtomicETH().Fields()
		AtomicETHAt(hdr(AtomicETHLen)).Encode(&f)
	}
	if has(HasAETH) {
		f := p.AETH().Fields()
		AETHAt(hdr(AETHLen)).Encode(&f)
	}
	if has(HasAtomicAckETH) {
		AtomicAckETHAt(hdr(AtomicAckETHLen)).SetOrig(p.AtomicAckETH().Orig())
	}
	if has(HasImmDt) {
		*ImmDtAt(hdr(ImmDtLen)) = *p.ImmDt()
	}
	if has(HasIETH) {
		IETHAt(hdr(IETHLen)).SetRKey(p.IETH().RKey())
	}
	if has(HasCNP) {
		hdr(CNPLen)
	}
}
