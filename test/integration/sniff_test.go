package integration_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// frame is one captured Ethernet frame.
type frame = netns.Frame

// sniffer captures all frames that an interface receives and sends.
type sniffer struct{ *netns.Capture }

// sniff starts a capture on an interface of a namespace.
func sniff(t *testing.T, ns *netns.NS, ifname string) *sniffer {
	t.Helper()
	return &sniffer{netns.CaptureForTest(t, ns, ifname)}
}

// stop ends the capture and returns all frames in the order of their arrival.
func (s *sniffer) stop(t *testing.T) []frame {
	t.Helper()
	frames, err := s.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// savePcap writes frames as a classic capture file that ends with the test.
func savePcap(t *testing.T, frames []frame) string {
	t.Helper()
	const microMagic, snaplen, ethernet = 0xA1B2C3D4, 1 << 18, 1
	le := binary.LittleEndian
	out := le.AppendUint32(nil, microMagic)
	out = le.AppendUint16(le.AppendUint16(out, 2), 4) // version 2.4
	out = append(out, make([]byte, 8)...)             // time zone and accuracy
	out = le.AppendUint32(le.AppendUint32(out, snaplen), ethernet)
	for _, f := range frames {
		out = le.AppendUint32(out, uint32(f.Time.Unix()))
		out = le.AppendUint32(out, uint32(f.Time.Nanosecond()/1000))
		out = le.AppendUint32(out, uint32(len(f.Data)))
		out = append(le.AppendUint32(out, uint32(len(f.Data))), f.Data...)
	}
	path := filepath.Join(t.TempDir(), "capture.pcap")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
