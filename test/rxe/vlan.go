package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
)

// The guest has a real VLAN interface on top of its eth0, whose addresses rdma_rxe
// has GIDs of. Our end's kernel knows nothing of VLANs: the device is told which
// addresses it has there.
const (
	vlanID    = 7
	guestVLAN = "eth0.7"
)

// guestMAC is what guest/up gives the first guest.
var guestMAC = net.HardwareAddr{0x52, 0x54, 0, 0x77, 0, 0x0b}

// vlans are the families' addresses in the VLAN.
var vlans = []struct{ ours, guest netip.Addr }{
	{netip.MustParseAddr("10.78.0.1"), netip.MustParseAddr("10.78.0.11")},
	{netip.MustParseAddr("fd78::1"), netip.MustParseAddr("fd78::b")},
}

// vlanAddrs are the device's addresses in the VLAN.
func vlanAddrs() []datapath.VLANAddr {
	var list []datapath.VLANAddr
	for _, v := range vlans {
		list = append(list, datapath.VLANAddr{
			Addr: v.ours, VLAN: vlanID, Neighbors: map[netip.Addr]net.HardwareAddr{v.guest: guestMAC},
		})
	}
	return list
}

// joinVLAN makes the guest's interface if it is not there. Nobody answers there for
// our link-layer address, so the guest is told it.
func (r *rig) joinVLAN(ctx context.Context) error {
	var own net.HardwareAddr
	err := r.ns.Do(func() error {
		ifc, err := net.InterfaceByName(ourEnd)
		if err == nil {
			own = ifc.HardwareAddr
		}
		return err
	})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "set -e; [ -e /sys/class/net/%s ] && exit; modprobe 8021q; ", guestVLAN)
	fmt.Fprintf(&b, "ip link add link eth0 name %s type vlan id %d; ip link set %[1]s up; ", guestVLAN, vlanID)
	for i, f := range families {
		option := ""
		if f.guest.Is6() {
			option = "nodad"
		}
		fmt.Fprintf(&b, "ip addr add %s/%d dev %s %s; ", vlans[i].guest, f.bits, guestVLAN, option)
		fmt.Fprintf(&b, "ip neigh replace %s lladdr %s dev %s; ", vlans[i].ours, own, guestVLAN)
	}
	if out, err := r.guest(ctx, 20*time.Second, b.String()).CombinedOutput(); err != nil {
		return fmt.Errorf("make %s in the guest: %w: %s", guestVLAN, err, out)
	}
	return nil
}

// guestGID is the index of rdma_rxe's GID of an address.
func (r *rig) guestGID(ctx context.Context, a netip.Addr) (index int, err error) {
	want := netip.AddrFrom16(a.As16()).StringExpanded()
	if a.Is4() {
		b := a.As4()
		want = fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	}
	// The kernel adds it a moment after the address.
	line := fmt.Sprintf("cd /sys/class/infiniband/rxe0/ports/1/gids; for k in $(seq 50); do grep -l %s * && exit; sleep 0.1; done; exit 1", want)
	out, err := r.guest(ctx, 20*time.Second, line).Output()
	if err != nil {
		return 0, fmt.Errorf("no GID of %s in the guest: %w", a, err)
	}
	if _, err := fmt.Sscan(string(out), &index); err != nil {
		return 0, fmt.Errorf("index of the GID of %s: %w", a, err)
	}
	return index, nil
}

// vlanRows are all operations over the VLAN.
func vlanRows() []row {
	var all []row
	for i, f := range families {
		p := usual(f, mtus[i])
		p.family.ours = vlans[i].ours // the guest's program still listens on eth0
		for _, op := range operations {
			for _, ours := range []bool{true, false} {
				all = append(all, vlanRow(op.name, ours, p, i, op.run))
			}
		}
	}
	return all
}

// tagCount counts RoCE frames with the VLAN's tag that the bridge forwards, ours
// and the guest's, and drops those without.
var tagCount = fmt.Sprintf("table bridge interop {\n chain c {\n  type filter hook forward priority 0; policy accept;\n"+
	"  iifname \"%[1]s\" vlan id %[2]d counter accept\n  iifname != \"%[1]s\" vlan id %[2]d counter accept\n"+
	"  udp dport 4791 drop\n }\n}\n", bridgeEnd, vlanID)

func vlanRow(name string, ours bool, p params, family int, run func(*trial)) row {
	f := func(t *trial) {
		if t.err == nil {
			t.err = t.loss.add(tagCount)
		}
		run(t)
		if t.err != nil {
			return
		}
		n, err := t.loss.counts()
		t.err = err
		if err == nil && (len(n) != 2 || n[0] == 0 || n[1] == 0) {
			t.failf("frames with a tag, ours and the guest's: %d", n)
		}
	}
	r := trialRow("vlan", name, ours, p, f)
	r.run = func(ctx context.Context, b *bench) (err error) {
		if err := b.joinVLAN(ctx); err != nil {
			return err
		}
		q := p
		if q.family.gidIndex, err = b.guestGID(ctx, vlans[family].guest); err != nil {
			return err
		}
		return trialRow("vlan", name, ours, q, f).run(ctx, b)
	}
	return r
}
