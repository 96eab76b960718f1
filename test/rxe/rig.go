package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/vishvananda/netlink"
)

// What the rig is made of. The guest's addresses are what guest/up gives it.
const (
	linkMTU    = 4200 // room for a path MTU of 4096
	bridgeName = "rxebr"
	ourEnd     = "eth0"  // our device's end of the veth pair
	bridgeEnd  = "ours"  // the other, a port of the bridge: captures see the wire here
	guestTCP   = "18600" // ops.py
	guestCM    = "18601" // cm.py
)

// family is an address family with the rig's addresses and the guest's GID index.
type family struct {
	name        string
	ours, guest netip.Addr
	bits        int
	gidIndex    int // of the guest's address
	ownIndex    int // of ours
}

var families = []family{
	{"IPv4", netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.11"), 24, 1, 1},
	{"IPv6", netip.MustParseAddr("fd77::1"), netip.MustParseAddr("fd77::b"), 64, 2, 2},
}

// rig is one guest, one interface of ours, and the bridge between them in a
// namespace of its own.
type rig struct {
	o   *options
	vms []string  // the guests' names, and their taps'; rows use the first
	log io.Writer // what ops.py prints
	ns  *netns.NS
	// through is the runtime directory of the daemon that our program uses; empty: none.
	through string
}

// start makes the namespace and boots guests, with further options of guest/up.
// The caller closes the rig even when it fails.
func (r *rig) start(ctx context.Context, guests int, options ...string) (err error) {
	if _, err := netns.Sweep(); err != nil {
		return err
	}
	if r.ns, err = netns.New(); err != nil {
		return err
	}
	if err := r.ns.Do(r.link); err != nil {
		return err
	}
	pid := os.Getpid()
	prefix := fmt.Sprintf("i%d-", pid) // guest/up numbers from 1 on
	for i := range guests {
		r.vms = append(r.vms, fmt.Sprint(prefix, i+1))
	}
	args := []string{"-n", fmt.Sprint(guests), "--name", prefix, "--owner", fmt.Sprint(pid), "--netns", r.ns.Name(), "--bridge", bridgeName,
		"--mtu", fmt.Sprint(linkMTU), "--offload", "off"}
	if out, err := r.script(ctx, "up", append(args, options...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("boot the guest: %w: %s", err, out)
	}
	return nil
}

// link makes the bridge and the veth pair between it and our end.
func (r *rig) link() error {
	for _, scope := range []string{"all", "default"} {
		// Addresses usable at once, and none on the bridge's ports.
		for name, value := range map[string]string{"accept_dad": "0", "accept_ra": "0"} {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+scope+"/"+name, []byte(value), 0); err != nil {
				return err
			}
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = bridgeName, linkMTU
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	attrs = netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumTxQueues, attrs.NumRxQueues = ourEnd, linkMTU, 1, 1
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: bridgeEnd}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make the bridge: %w", err)
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make the veth pair: %w", err)
	}
	port, err := netlink.LinkByName(bridgeEnd)
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetMTU(port, linkMTU), netlink.LinkSetMaster(port, bridge)); err != nil {
		return err
	}
	for _, l := range []netlink.Link{bridge, port, veth} {
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	for _, f := range families {
		a, err := netlink.ParseAddr(netip.PrefixFrom(f.ours, f.bits).String())
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(veth, a); err != nil {
			return fmt.Errorf("add %s: %w", f.ours, err)
		}
	}
	return nil
}

// close ends the guest and removes the namespace, within a time of its own: the
// run's may be over.
func (r *rig) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if len(r.vms) > 0 {
		if out, e := r.script(ctx, "down", r.vms...).CombinedOutput(); e != nil {
			err = fmt.Errorf("end the guest: %w: %s", e, out)
		}
	}
	if r.ns != nil {
		err = errors.Join(err, r.ns.Close())
	}
	return err
}

// script is one of the guest's scripts.
func (r *rig) script(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(r.o.scripts, name), args...)
	return gentle(cmd)
}

// guest is a command line in the guest.
func (r *rig) guest(ctx context.Context, limit time.Duration, line string) *exec.Cmd {
	return r.guestAt(ctx, r.vms[0], limit, line)
}

func (r *rig) guestAt(ctx context.Context, vm string, limit time.Duration, line string) *exec.Cmd {
	if r.o.verbose {
		fmt.Fprintf(os.Stderr, "guest %s: %s\n", vm, line)
	}
	return r.script(ctx, "run", "-g", vm, "-t", fmt.Sprint(int(limit.Seconds())), line)
}

// host is a command in the namespace. nsenter, unlike ip netns exec, leaves the
// mounts alone.
func (r *rig) host(ctx context.Context, args ...string) *exec.Cmd {
	if r.o.verbose {
		fmt.Fprintln(os.Stderr, "host:", strings.Join(args, " "))
	}
	cmd := gentle(exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + r.ns.Path()}, args...)...))
	if r.through != "" {
		cmd.Env = append(os.Environ(), session.DirVariable+"="+r.through)
	}
	return cmd
}

// gentle has a command and its children end by SIGTERM, so that they can clean
// up, and shields them from the terminal's interrupt, which is ours to act on.
func gentle(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = ownGroup
	cmd.Cancel = func() error { return endGroup(cmd.Process) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// share copies a file into the folder that is /share in a guest.
func (r *rig) share(ctx context.Context, vm, file string) error {
	out, err := r.script(ctx, "run", "-g", vm, "--share").Output()
	if err != nil {
		return fmt.Errorf("find the guest's folder: %w", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(strings.TrimSpace(string(out)), filepath.Base(file)), text, 0o755)
}
