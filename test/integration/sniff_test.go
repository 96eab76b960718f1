package integration_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// frame is one captured Ethernet frame.
type frame struct {
	at   time.Time
	data []byte
}

// sniffer captures all frames that an interface receives and sends, as tcpdump
// would.
type sniffer struct {
	fd     int
	ended  atomic.Bool
	done   chan struct{}
	frames []frame
	err    error
}

// sniff starts a capture on an interface of a namespace.
func sniff(t *testing.T, ns *netns.NS, ifname string) *sniffer {
	t.Helper()
	s := &sniffer{done: make(chan struct{})}
	if err := ns.Do(func() (err error) { s.fd, err = openPacketSocket(ifname); return err }); err != nil {
		t.Fatalf("capture on %s: %v", ifname, err)
	}
	go s.run()
	t.Cleanup(func() { s.end() })
	return s
}

// openPacketSocket binds a packet socket whose buffer takes a burst of many
// megabytes and whose reads end after 50 ms.
func openPacketSocket(ifname string) (fd int, err error) {
	const buffer = 128 << 20
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var ifreq *unix.Ifreq
	if ifreq, err = unix.NewIfreq(ifname); err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifreq)
	}
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: int(ifreq.Uint32())}),
		)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// allProtocols is ETH_P_ALL in network order.
const allProtocols = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8

func (s *sniffer) run() {
	defer close(s.done)
	buf, oob := make([]byte, 1<<16), make([]byte, 64)
	for {
		n, ctl, _, _, err := unix.Recvmsg(s.fd, buf, oob, 0)
		switch {
		case err == nil:
			s.frames = append(s.frames, frame{stampOf(oob[:ctl]), slices.Clone(buf[:n])})
		case err == unix.EINTR:
		case err != unix.EAGAIN:
			s.err = err
			return
		case s.ended.Load(): // nothing more has come for a while
			return
		}
	}
}

// stampOf is the time at which the kernel saw the frame, of a control message
// SCM_TIMESTAMPNS.
func stampOf(oob []byte) time.Time {
	ctls, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(ctls) != 1 || len(ctls[0].Data) != 16 {
		return time.Time{}
	}
	sec, nsec := binary.NativeEndian.Uint64(ctls[0].Data), binary.NativeEndian.Uint64(ctls[0].Data[8:])
	return time.Unix(int64(sec), int64(nsec))
}

func (s *sniffer) end() {
	if s.ended.Swap(true) {
		return
	}
	<-s.done
	if s.err == nil {
		var st *unix.TpacketStats
		if st, s.err = unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); s.err == nil && st.Drops != 0 {
			s.err = errors.New("the capture has lost frames")
		}
	}
	unix.Close(s.fd)
}

// stop ends the capture and returns all frames in the order of their arrival.
func (s *sniffer) stop(t *testing.T) []frame {
	t.Helper()
	s.end()
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.frames
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
		out = le.AppendUint32(out, uint32(f.at.Unix()))
		out = le.AppendUint32(out, uint32(f.at.Nanosecond()/1000))
		out = le.AppendUint32(out, uint32(len(f.data)))
		out = append(le.AppendUint32(out, uint32(len(f.data))), f.data...)
	}
	path := filepath.Join(t.TempDir(), "capture.pcap")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
