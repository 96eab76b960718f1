package datapath

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// privilegedQKey is the bit of Q_Keys that only privileged programs may have
// (IBTA vol. 1, 10.2.5), so that others cannot pose as the services that do.
const privilegedQKey = 1 << 31

// checkQKey refuses a privileged Q_Key to those who must not have it.
func (c *Client) checkQKey(attr *ibv.QPAttr, mask ibv.AttrMask) error {
	if mask&ibv.QPAttrQKey == 0 || attr.QKey&privilegedQKey == 0 || c.privileged() {
		return nil
	}
	return fmt.Errorf("%w: Q_Key %#x has bit 31 set, which needs CAP_NET_RAW: use one below 0x80000000", ErrPermission, attr.QKey)
}

// netRaw reports whether the calling thread has CAP_NET_RAW in effect, as Linux
// demands of users of its RDMA devices.
func netRaw() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_NET_RAW) != 0
}
