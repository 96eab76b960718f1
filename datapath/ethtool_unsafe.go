package datapath

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Queues and speed of an interface come from ioctl SIOCETHTOOL, which takes a
// struct ifreq with a pointer to the command's structure in it: no function of
// x/sys has it.

const (
	ethtoolGet         = 0x1  // ETHTOOL_GSET, struct ethtool_cmd
	ethtoolGetChannels = 0x3c // ETHTOOL_GCHANNELS, struct ethtool_channels
	speedUnknown       = 0xFFFFFFFF
)

type ethtoolRequest struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte // struct ifreq is longer
}

// ethtoolChannels is struct ethtool_channels.
type ethtoolChannels struct {
	cmd                                         uint32
	maxRx, maxTx, maxOther, maxCombined         uint32
	rxCount, txCount, otherCount, combinedCount uint32
}

// ethtoolSettings is struct ethtool_cmd.
type ethtoolSettings struct {
	cmd, supported, advertising                   uint32
	speed                                         uint16
	duplex, port, phy, transceiver, autoneg, mdio uint8
	maxTx, maxRx                                  uint32
	speedHi                                       uint16
	tpMDIX, tpMDIXCtrl                            uint8
	lpAdvertising                                 uint32
	_                                             [2]uint32
}

// channels is the number of receive queues of an interface in the namespace of
// the calling thread, 1 if it does not tell, and its speed in Mb/s, 0 if unknown.
func channels(name string) (queues, speed int) {
	queues = 1
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return queues, 0
	}
	defer unix.Close(fd)
	ch := ethtoolChannels{cmd: ethtoolGetChannels}
	if ethtool(fd, name, unsafe.Pointer(&ch)) {
		queues = max(1, int(ch.rxCount+ch.combinedCount))
	}
	return queues, linkSpeed(fd, name)
}

// linkSpeed is the speed of an interface in Mb/s, 0 if unknown, in the namespace
// of the socket fd.
func linkSpeed(fd int, name string) int {
	set := ethtoolSettings{cmd: ethtoolGet}
	if !ethtool(fd, name, unsafe.Pointer(&set)) {
		return 0
	}
	if v := uint32(set.speedHi)<<16 | uint32(set.speed); v != speedUnknown && v != 0xFFFF {
		return int(v)
	}
	return 0
}

func ethtool(fd int, name string, data unsafe.Pointer) bool {
	req := ethtoolRequest{data: data}
	if copy(req.name[:unix.IFNAMSIZ-1], name) != len(name) {
		return false
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	return errno == 0
}
