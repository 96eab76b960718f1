package bpf

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// stacks are the header stacks that the parser is inlined for, with the offset of
// the UDP header in each.
var stacks = []struct {
	name string
	udp  int
	with func(...change) []byte
	tags []change
}{
	{"IPv4", ethernetSize + ipv4Size, roce, nil},
	{"IPv6", ethernetSize + ipv6Size, roce6, nil},
	{"tag, IPv4", ethernetSize + tagSize + ipv4Size, roce, []change{tagged(0x8100)}},
	{"tag, IPv6", ethernetSize + tagSize + ipv6Size, roce6, []change{tagged(0x88a8)}},
	{"two tags, IPv4", ethernetSize + 2*tagSize + ipv4Size, roce, []change{tagged(0x88a8), tagged(0x8100)}},
	{"two tags, IPv6", ethernetSize + 2*tagSize + ipv6Size, roce6, []change{tagged(0x88a8), tagged(0x8100)}},
}

// TestTruncated cuts a good frame at every length. Up to the end of the UDP
// header nobody can tell whose it is; behind that it is ours and broken. Frames
// shorter than an Ethernet header cannot be given to BPF_PROG_TEST_RUN.
func TestTruncated(t *testing.T) {
	s := loadForUs(t)
	for _, st := range stacks {
		t.Run(st.name, func(t *testing.T) {
			frame := st.with(st.tags...)
			for n := ethernetSize; n <= len(frame); n++ {
				want := VerdictDropLength
				switch {
				case n == len(frame):
					want = VerdictRedirect
				case n < st.udp+udpSize:
					want = VerdictPassTruncated
				}
				if got := verdictOf(t, s, frame[:n], nil); got != want {
					t.Errorf("%d of %d bytes: verdict %v, want %v", n, len(frame), got, want)
				}
			}
		})
	}
}

// TestHeadersInSeveralBuffers ends the linear part at every byte of the headers:
// the verdict must be that of the whole frame.
func TestHeadersInSeveralBuffers(t *testing.T) {
	s := loadForUs(t)
	if err := splitFrame(s, roce(), ethernetSize); errors.Is(err, unix.EINVAL) {
		t.Skipf("needs Linux 6.18 to choose the linear part of a test frame, this is %s", kernelRelease())
	}
	for _, st := range stacks {
		t.Run(st.name, func(t *testing.T) {
			good := st.with(st.tags...)
			unknown := st.with(append([]change{qpn(0x12)}, st.tags...)...)
			old := st.with(append([]change{bthFlags(1)}, st.tags...)...)
			for n := ethernetSize; n < len(good); n++ {
				context := &xdpContext{DataEnd: uint32(n)}
				for _, c := range []struct {
					frame []byte
					want  Verdict
				}{
					{good, VerdictRedirect}, {unknown, VerdictDropQPN}, {old, VerdictDropVersion},
				} {
					if got := verdictOf(t, s, c.frame, context); got != c.want {
						t.Errorf("linear part of %d bytes: verdict %v, want %v", n, got, c.want)
					}
				}
			}
		})
	}
}

// TestTruncatedInSeveralBuffers cuts frames whose linear part is the Ethernet
// header alone.
func TestTruncatedInSeveralBuffers(t *testing.T) {
	s := loadForUs(t)
	if err := splitFrame(s, roce(), ethernetSize); errors.Is(err, unix.EINVAL) {
		t.Skipf("needs Linux 6.18 to choose the linear part of a test frame, this is %s", kernelRelease())
	}
	frame := roce6(tagged(0x8100))
	for n := ethernetSize + 1; n < len(frame); n++ {
		want := VerdictDropLength
		if n < ethernetSize+tagSize+ipv6Size+udpSize {
			want = VerdictPassTruncated
		}
		if got := verdictOf(t, s, frame[:n], &xdpContext{DataEnd: ethernetSize}); got != want {
			t.Errorf("%d of %d bytes: verdict %v, want %v", n, len(frame), got, want)
		}
	}
}

// TestLargeFrames are of several pages, which makes several buffers on any kernel.
func TestLargeFrames(t *testing.T) {
	s := loadForUs(t)
	for _, n := range []int{3000, 4096, 8192, 8936, 16384, 60000} {
		if got := verdictOf(t, s, roce6(payload(n)), nil); got != VerdictRedirect {
			t.Errorf("payload of %d bytes: verdict %v, want %v", n, got, VerdictRedirect)
		}
		cut := roce6(payload(n))
		if got := verdictOf(t, s, cut[:len(cut)-1], nil); got != VerdictDropLength {
			t.Errorf("payload of %d bytes, one missing: verdict %v, want %v", n, got, VerdictDropLength)
		}
	}
}
