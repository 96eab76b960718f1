package simnet

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// datagram is a RoCE frame with an ICRC, whose IP header has the given TOS.
func datagram(t *testing.T, v6, tagged bool, tos uint8) []byte {
	t.Helper()
	f := wire.PathFields{Tagged: tagged, VLAN: 5, TOS: tos, UDPSrcPort: 0xc000}
	for i := range 2 {
		gid := [...]*[16]byte{&f.SrcGID, &f.DstGID}[i]
		gid[0] = 0xfd
		if !v6 {
			*gid = [16]byte{10: 0xff, 11: 0xff, 12: 10}
		}
		gid[15] = byte(i + 1)
	}
	var path wire.Path
	if err := path.Set(&f); err != nil {
		t.Fatal(err)
	}
	const ibLen = wire.BTHLen + 64 + wire.ICRCLen
	frame := make([]byte, path.Len()+ibLen)
	n := path.Put(frame, ibLen, 0x1234)
	wire.BTHAt(frame[n:]).Encode(&wire.BTHFields{Opcode: wire.RC | wire.SendOnly, DestQP: 17, PSN: 99})
	wire.PutICRC(frame, path.L3())
	return frame
}

// A mark is what the receiver reads; all else stays right.
func TestSetCE(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, tagged := range []bool{false, true} {
			for ecn := range uint8(4) {
				name := fmt.Sprintf("v6 %v tagged %v ECN %d", v6, tagged, ecn)
				tos := 26<<2 | ecn
				frame := datagram(t, v6, tagged, tos)
				before := bytes.Clone(frame)
				takes := ecn != 0
				if setCE(frame) != takes {
					t.Errorf("%s: marked %v, want %v", name, !takes, takes)
				}
				if !takes && !bytes.Equal(frame, before) {
					t.Errorf("%s: changed without a mark", name)
				}
				var p wire.Packet
				if r := p.Parse(frame); r != wire.Accept {
					t.Errorf("%s: %v", name, r)
				}
				if want := 26<<2 | wire.CE; takes && p.TOS != uint8(want) {
					t.Errorf("%s: TOS %#x, want %#x", name, p.TOS, want)
				}
				if ip := wire.IPv4At(p.IP); !v6 && ip.Checksum() != ip.ComputeChecksum() {
					t.Errorf("%s: the header checksum is wrong", name)
				}
			}
		}
	}
}

// What is no whole IP packet is left alone.
func TestSetCEOfOtherFrames(t *testing.T) {
	arp := make([]byte, 60)
	wire.EthernetAt(arp).Encode(&wire.EthernetFields{EtherType: 0x0806})
	frames := [][]byte{nil, arp}
	for _, v6 := range []bool{false, true} {
		whole := datagram(t, v6, true, 2)
		for n := range wire.EthernetLen + wire.VLANLen + wire.IPv4Len {
			frames = append(frames, whole[:n:n])
		}
	}
	for _, frame := range frames {
		if before := bytes.Clone(frame); setCE(frame) || !bytes.Equal(frame, before) {
			t.Errorf("% x was marked", before)
		}
	}
}

func TestMarkingProbability(t *testing.T) {
	red, step := Marking{Kmin: 1000, Kmax: 3000, Pmax: 0.5}, Marking{Kmin: 1000, Kmax: 1000, Pmax: 1}
	for _, c := range []struct {
		name    string
		m       Marking
		backlog int
		want    float64
	}{
		{"none", Marking{}, 1 << 30, 0}, {"below Kmin", red, 999, 0}, {"at Kmin", red, 1000, 0}, {"half way", red, 2000, 0.25},
		{"below Kmax", red, 2999, 0.5 * 1999 / 2000}, {"at Kmax", red, 3000, 1}, {"below the threshold", step, 999, 0}, {"at the threshold", step, 1000, 1},
	} {
		if got := c.m.probability(c.backlog); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A queue marks as often as its length says, frames that take marks only.
func TestQueueMarks(t *testing.T) {
	const n, size = 2000, 1250
	frame := append(datagram(t, false, false, 2), make([]byte, size)...)[:size-overhead]
	l := NewLink(8, Conditions{Rate: gbit, Mark: Marking{Kmin: 2 * size, Kmax: 6 * size, Pmax: 0.2}}, Conditions{})
	now := mono.Time(0)
	for range 4 { // that stay ahead of the others
		l.Send(now, A, frame)
	}
	for range n {
		l.Send(now, A, frame) // finds four: half way
		now = now.Add(10 * us)
	}
	if m := l.Stats(A).Marked; m < n/10-70 || m > n/10+70 {
		t.Errorf("%d of %d frames marked, want about %d", m, n, n/10)
	}
	marked := uint64(0)
	for l.Next() != mono.Never {
		_, got, _ := l.Receive(l.Next())
		if wire.IPv4At(got[wire.EthernetLen:]).TOS()&wire.CE == wire.CE {
			marked++
		}
	}
	if m := l.Stats(A).Marked; marked != m {
		t.Errorf("%d arrived with a mark, %d counted", marked, m)
	}

	l = NewLink(8, Conditions{Rate: gbit, Mark: Marking{Kmin: 1, Kmax: 1}}, Conditions{})
	wire.IPv4At(frame[wire.EthernetLen:]).SetTOS(0)
	for range 10 {
		l.Send(mono.Time(0).Add(time.Second), A, frame)
	}
	if m := l.Stats(A).Marked; m != 0 {
		t.Errorf("%d frames marked whose sender takes no marks", m)
	}
}
