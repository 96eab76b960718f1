package opener

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestSameHere(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	here, err := resolve.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		d    verbs.DeviceInfo
		want bool
	}{
		{"no such interface here", verbs.DeviceInfo{Name: "nosuch0", IfIndex: lo.Index, NetNS: here + 1}, true},
		{"this interface", verbs.DeviceInfo{Name: "lo", IfIndex: lo.Index, NetNS: here, NodeGUID: 7}, true},
		{"another index", verbs.DeviceInfo{Name: "lo", IfIndex: lo.Index + 1, NetNS: here}, false},
		{"another namespace", verbs.DeviceInfo{Name: "lo", IfIndex: lo.Index, NetNS: here + 1}, false},
		{"a device without an interface", verbs.DeviceInfo{Name: "lo", IfIndex: lo.Index}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := sameHere(&tt.d); got != tt.want {
				t.Errorf("sameHere(%+v) = %v", tt.d, got)
			}
		})
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(session.DirVariable, dir)
	if served, err := Serves("eth0"); served || !errors.Is(err, verbs.ErrNoDaemon) || !strings.Contains(err.Error(), "sudo roce-xdp run eth0") || !strings.Contains(err.Error(), dir) {
		t.Errorf("Serves = %v, %v", served, err)
	}
	if _, err := Open("nosuch0", Daemon, nil); !errors.Is(err, verbs.ErrNoDaemon) {
		t.Errorf("through the daemon only: %v", err)
	}
	for _, way := range []Way{Either, InProcess} {
		if _, err := Open("nosuch0", way, nil); err == nil || errors.Is(err, verbs.ErrNoDaemon) {
			t.Errorf("way %d of a missing interface: %v", way, err)
		}
	}
}
