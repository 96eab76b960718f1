package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// question is what routes are looked up by.
type question struct {
	oif      int // 0: any
	src, dst netip.Addr
	tos      uint8
}

// answer is a route.
type answer struct {
	typ      uint8 // RTN_...
	table    uint32
	oif      int
	src, gw  netip.Addr
	mtu      int // 0: that of the interface
	hopLimit int // 0: the host's
}

// hop is the next hop to dst.
func (a *answer) hop(dst netip.Addr) netip.Addr {
	if a.gw.IsValid() && !a.gw.IsUnspecified() {
		return a.gw
	}
	return dst
}

// ecn are the bits of a traffic class that routes do not depend on.
const ecn = 3

// lookup asks the kernel for the route that it would take.
func (r *Resolver) lookup(q question) (answer, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	req.Sockets = r.asker
	bits := uint8(q.dst.BitLen())
	msg := &nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(familyOf(q.dst)), Dst_len: bits, Tos: q.tos &^ ecn, Flags: unix.RTM_F_LOOKUP_TABLE}}
	if q.src.IsValid() {
		msg.Src_len = bits
	}
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.RTA_DST, q.dst.AsSlice()))
	if q.src.IsValid() {
		req.AddData(nl.NewRtAttr(unix.RTA_SRC, q.src.AsSlice()))
	}
	if q.oif != 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(q.oif))))
	}
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil {
		return answer{}, err
	}
	if len(msgs) == 0 {
		return answer{}, errors.New("the kernel names none")
	}
	return parseRoute(msgs[0])
}

// parseRoute reads a RTM_NEWROUTE message.
func parseRoute(b []byte) (answer, error) {
	if len(b) < unix.SizeofRtMsg {
		return answer{}, fmt.Errorf("a route message of %d bytes", len(b))
	}
	a := answer{table: uint32(b[4]), typ: b[7]}
	attrs, err := Attributes(b[unix.SizeofRtMsg:])
	if err != nil {
		return answer{}, fmt.Errorf("a route message that cannot be read: %w", err)
	}
	for i := range attrs {
		v := attrs[i].Value
		switch attrs[i].Attr.Type {
		case unix.RTA_TABLE:
			a.table = number(v)
		case unix.RTA_OIF:
			a.oif = int(int32(number(v)))
		case unix.RTA_PREFSRC:
			a.src = addrOf(v)
		case unix.RTA_GATEWAY:
			a.gw = addrOf(v)
		case unix.RTA_VIA: // a gateway of the other family, after its number
			if len(v) > 2 {
				a.gw = addrOf(v[2:])
			}
		case unix.RTA_METRICS:
			metrics, err := Attributes(v)
			if err != nil {
				return answer{}, fmt.Errorf("a route message with metrics that cannot be read: %w", err)
			}
			a.measure(metrics)
		}
	}
	return a, nil
}

func (a *answer) measure(metrics []syscall.NetlinkRouteAttr) {
	for i := range metrics {
		switch metrics[i].Attr.Type {
		case unix.RTAX_MTU:
			a.mtu = int(number(metrics[i].Value))
		case unix.RTAX_HOPLIMIT:
			a.hopLimit = int(number(metrics[i].Value))
		}
	}
}

func number(v []byte) uint32 {
	if len(v) < 4 {
		return 0
	}
	return nl.NativeEndian().Uint32(v)
}

func addrOf(v []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(v)
	return a.Unmap()
}

// reach looks up a route to another host through an interface. Errors: ErrNoRoute.
func (r *Resolver) reach(q question) (answer, error) {
	a, err := r.lookup(q)
	why := ""
	switch {
	case err != nil:
		why = reason(err)
	case a.typ == unix.RTN_LOCAL:
		why = "the address is this host's own, but not of this interface"
	case a.typ == unix.RTN_MULTICAST && q.dst.IsMulticast():
	case a.typ != unix.RTN_UNICAST:
		why = "it is not the address of one host"
	case q.dst.Is4() && q.oif != 0 && a.table == unix.RT_TABLE_UNSPEC:
		// Asked for a way through an interface, IPv4 takes every address to be on its
		// link that no table has.
		why = "add one with ip route add"
	case q.oif != 0 && a.oif != q.oif:
		why = "the route leads through another interface, " + r.nameOf(a.oif)
	}
	if why == "" {
		return a, nil
	}
	from, through := "", ""
	if q.src.IsValid() {
		from = fmt.Sprintf("from %s ", q.src)
	}
	if q.oif != 0 {
		through = " through " + r.nameOf(q.oif)
	}
	return a, fmt.Errorf("%w: %sto %s%s: %s", ErrNoRoute, from, q.dst, through, why)
}

// reason says why the kernel gives no route.
func reason(err error) string {
	switch {
	case errors.Is(err, unix.ENETDOWN):
		return "the interface is down: ip link set it up"
	case errors.Is(err, unix.ENETUNREACH):
		return "add one with ip route add"
	case errors.Is(err, unix.EINVAL):
		return "a blackhole route swallows it (ip route shows it), or the source is no address of this host"
	case errors.Is(err, unix.EHOSTUNREACH):
		return "an unreachable route refuses it, or the link is down: ip route shows it"
	case errors.Is(err, unix.EACCES):
		return "a prohibit route or rule forbids it: ip route and ip rule show it"
	}
	return fmt.Sprintf("%v (ip route get shows what the kernel knows)", err)
}
