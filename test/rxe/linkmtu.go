package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// pathMTU sets both interfaces so that the path MTU is n bytes, 1024 or 4096: a
// connection manager takes what its interface can. Our interface must not be open.
func (b *bench) pathMTU(ctx context.Context, n int) error {
	mtu := linkMTU
	if n == 1024 {
		mtu = 1500 // as on most networks
	}
	err := b.ns.Do(func() error {
		l, err := netlink.LinkByName(ourEnd)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, mtu)
	})
	if err != nil {
		return fmt.Errorf("set the MTU of %s: %w", ourEnd, err)
	}
	if out, err := b.guest(ctx, 10*time.Second, fmt.Sprintf("ip link set eth0 mtu %d", mtu)).CombinedOutput(); err != nil {
		return fmt.Errorf("set the MTU in the guest: %w: %s", err, out)
	}
	return nil
}
