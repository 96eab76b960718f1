package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Frame is one captured Ethernet frame.
type Frame struct {
	Time time.Time // when the kernel saw it
	Data []byte
	Sent bool // by the interface, not received
}

// Capture collects all frames that an interface receives and sends, as tcpdump
// would: none that its XDP program redirects.
type Capture struct {
	fd   int
	done chan struct{}
	end  sync.Once

	mu     sync.Mutex
	ended  bool
	frames []Frame
	err    error
}

// NewCapture begins a capture on an interface of a namespace. Stop ends it.
func NewCapture(ns *NS, ifname string) (*Capture, error) {
	c := &Capture{done: make(chan struct{})}
	if err := ns.Do(func() (err error) { c.fd, err = openPacketSocket(ifname); return err }); err != nil {
		return nil, fmt.Errorf("capture on %s: %w", ifname, err)
	}
	go c.run()
	return c, nil
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
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
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

func (c *Capture) run() {
	defer close(c.done)
	buf, oob := make([]byte, 1<<16), make([]byte, 128)
	for {
		n, ctl, _, from, err := unix.Recvmsg(c.fd, buf, oob, 0)
		c.mu.Lock()
		switch {
		case err == nil:
			f := Frame{Data: slices.Clone(buf[:n])}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok {
				f.Sent = ll.Pkttype == unix.PACKET_OUTGOING
			}
			f.annotate(oob[:ctl])
			c.frames = append(c.frames, f)
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN):
			c.err, c.ended = err, true
		}
		over := c.ended && err != nil // nothing more has come for a while
		c.mu.Unlock()
		if over {
			return
		}
	}
}

// annotate takes the time of a frame, and the VLAN tag that the kernel keeps
// outside of it, from control messages.
func (f *Frame) annotate(oob []byte) {
	ctls, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	ne := binary.NativeEndian
	for i := range ctls {
		h, d := &ctls[i].Header, ctls[i].Data
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && len(d) >= 16:
			f.Time = time.Unix(int64(ne.Uint64(d)), int64(ne.Uint64(d[8:])))
		case h.Level == unix.SOL_PACKET && h.Type == unix.PACKET_AUXDATA && len(d) >= 20:
			if ne.Uint32(d)&unix.TP_STATUS_VLAN_VALID != 0 && len(f.Data) >= 12 {
				// struct tpacket_auxdata: the tag is at 16, its protocol at 18.
				tag := binary.BigEndian.AppendUint16(nil, ne.Uint16(d[18:]))
				tag = binary.BigEndian.AppendUint16(tag, ne.Uint16(d[16:]))
				f.Data = slices.Insert(f.Data, 12, tag...)
			}
		}
	}
}

// Frames are the frames so far, in the order of their arrival.
func (c *Capture) Frames() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

// Stop ends the capture and returns all frames. It is an error that the kernel
// has lost any. A second call returns the same.
func (c *Capture) Stop() ([]Frame, error) {
	c.end.Do(func() {
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
		<-c.done
		st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.err != nil:
		case err != nil:
			c.err = err
		case st.Drops != 0:
			c.err = fmt.Errorf("the capture has lost %d frames", st.Drops)
		}
		unix.Close(c.fd)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames, c.err
}
