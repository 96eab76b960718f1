package resolve

import (
	"syscall"

	"github.com/vishvananda/netlink/nl"
)

// Attributes splits the attributes of a message of rtnetlink. The last one may
// lack the bytes that align it, which nl.ParseRouteAttr steps over unseen.
func Attributes(b []byte) ([]syscall.NetlinkRouteAttr, error) {
	if short := -len(b) & (syscall.RTA_ALIGNTO - 1); short != 0 {
		b = append(b[:len(b):len(b)], make([]byte, short)...)
	}
	return nl.ParseRouteAttr(b)
}
