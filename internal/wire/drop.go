package wire

// DropReason says why a frame was not accepted, Accept if it was. Every reason
// is a silent drop: nothing that fails these checks is answered.
type DropReason uint8

// Reasons in the order of the checks.
const (
	Accept        DropReason = iota
	DropSegments             // no segment, or more than MaxSegments
	DropTruncated            // the frame has fewer bytes than its headers need or its lengths say
	DropSplit                // the headers are not all in the first segment
	DropNotIP                // neither IPv4 nor IPv6 within two VLAN tags
	DropIPHeader             // IP version does not match the EtherType, or IPv4 options
	DropFragment             // part of a fragmented packet
	DropNotRoCE              // not UDP, IPv6 extension headers, or another port
	DropLength               // IP and UDP length disagree, or no length that the opcode's headers fit in
	DropTVer                 // transport version other than 0
	DropOpcode               // opcode that the table does not have
	DropDestQP               // destination queue pair 0
	DropPad                  // more pad than payload
	DropICRC                 // ICRC mismatch

	NumDropReasons = iota
)

var dropNames = [NumDropReasons]string{
	"accepted", "bad_segments", "truncated_frames", "split_headers", "not_ip", "bad_ip_header", "ip_fragments",
	"not_roce", "bad_length", "bad_tver", "unknown_opcode", "bad_dest_qp", "bad_pad", "icrc_errors",
}

// String is the name of the counter for r.
func (r DropReason) String() string {
	if int(r) < len(dropNames) {
		return dropNames[r]
	}
	return "unknown_drop"
}
