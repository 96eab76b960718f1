package verbstest

import (
	"encoding/binary"
	"fmt"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Address makes wr go to B, if it is a datagram, or to B's shared queue, if it is a
// request of XRC.
func (p *Pair) Address(wr *verbs.SendWR) {
	if p.B.TGT != nil {
		wr.RemoteSRQN = p.B.SRQ.Num()
	}
	if p.A.AH != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.A.AH, p.B.QP.Num(), p.B.QKey
	}
}

// Datagram is the work request of a SEND of n bytes at offset 0 from A to B.
func (p *Pair) Datagram(n int) verbs.SendWR {
	wr := verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, n)}}
	p.Address(&wr)
	return wr
}

// front is the number of bytes in front of the payload in a receive buffer.
func (p *Pair) front() int {
	if p.B.QP.Type().Datagram() {
		return verbs.GRHLen
	}
	return 0
}

// checkFront checks the IP header in front of a datagram of n bytes from A, and
// what its completion says of the sender.
func (p *Pair) checkFront(wc *verbs.WC, b []byte, n int, withImm bool) error {
	if wc.Flags&verbs.WCGRH == 0 || wc.SrcQP != p.A.QP.Num() || wc.QPNum != p.B.QP.Num() {
		return fmt.Errorf("completion %+v: not that of a datagram from %#x to %#x", wc, p.A.QP.Num(), p.B.QP.Num())
	}
	av, err := p.B.Dev.InitAHFromWC(wc, b)
	if err != nil {
		return err
	}
	if av.DGID != p.A.GID.GID || av.SGIDIndex != p.B.GID.Index {
		return fmt.Errorf("datagram from %s to GID %d; want %s and %d", av.DGID.Addr(), av.SGIDIndex, p.A.GID.GID.Addr(), p.B.GID.Index)
	}
	ibLen := udpBTHDETH + (n+3)&^3 + icrc
	if withImm {
		ibLen += immediate
	}
	at, want := 4, ibLen // IPv6: payload length
	if p.A.GID.GID.Is4() {
		at, want = 20+2, 20+ibLen // IPv4: total length
		for i, v := range b[:20] {
			if v != 0 {
				return fmt.Errorf("byte %d before the IPv4 header is %#x, want 0", i, v)
			}
		}
	}
	if got := int(binary.BigEndian.Uint16(b[at:])); got != want {
		return fmt.Errorf("length in the IP header is %d, want %d", got, want)
	}
	return nil
}

// Lengths of what a datagram has besides its payload.
const (
	udpBTHDETH = 8 + 12 + 8
	immediate  = 4
	icrc       = 4
)
