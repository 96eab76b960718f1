package explain

import (
	"fmt"
	"io"
	"strings"
)

// write prints the answer, a step a line.
func (a *answer) write(out io.Writer) error {
	var b strings.Builder
	step := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	step("destination", "%s", a.Destination)
	if a.Interface != "" {
		a.steps(step)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (a *answer) steps(step func(name, format string, args ...any)) {
	switch {
	case a.VLAN != 0:
		step("device", "%s, by %s in VLAN %d", a.Device, a.Interface, a.VLAN)
	case a.Device != a.Interface:
		step("device", "%s, by %s", a.Device, a.Interface)
	default:
		step("device", "%s", a.Device)
	}
	if a.GIDIndex != nil {
		step("source", "%s, GID %s, index %d", a.Source, a.GID, *a.GIDIndex)
	} else {
		step("source", "%s, which is no GID of a device", a.Source)
	}
	switch {
	case a.Local:
		step("route", "none: it is this host's own address")
	case a.Gateway != "":
		step("route", "via %s, table %s", a.Gateway, table(a.Table))
	default:
		step("route", "direct, table %s", table(a.Table))
	}
	switch {
	case a.Local:
	case a.MAC == "":
		step("next hop", "%s, which does not answer", a.NextHop)
	case a.Neighbour == "":
		step("next hop", "%s at %s", a.NextHop, a.MAC)
	default:
		step("next hop", "%s at %s, %s", a.NextHop, a.MAC, a.Neighbour)
	}
	if a.RDMAMTU == 0 {
		step("path MTU", "%d bytes, too little for RDMA: 352 are needed", a.PathMTU)
	} else {
		step("path MTU", "%d bytes, RDMA MTU %d", a.PathMTU, a.RDMAMTU)
	}
	step("hop limit", "%d", a.HopLimit)
	step("source port", "%d for the connection manager, 49152 to 65535 by flow label for others", a.GSIPort)
}

// table names a routing table as iproute2 does.
func table(n int) string {
	switch n {
	case 0:
		return "unknown"
	case 253:
		return "default"
	case 254:
		return "main"
	case 255:
		return "local"
	}
	return fmt.Sprint(n)
}
