package datapath

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// PlanGIDs is the GID table that a device of an interface of the calling thread's
// network namespace would have if it were opened now. It needs no privileges.
func PlanGIDs(ifname string) ([]verbs.GIDEntry, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	link, err := h.LinkByName(ifname)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoInterface, ifname, err)
	}
	list, _, err := ownOf(h, link)
	if err != nil {
		return nil, fmt.Errorf("read the addresses of %s: %w", ifname, err)
	}
	var t gidTable
	t.update(list)
	return t.list(link.Attrs().Index), nil
}
