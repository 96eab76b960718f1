package privilege

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Set are capabilities, bit by number.
type Set uint64

// Capabilities that a daemon is concerned with.
const (
	NetAdmin Set = 1 << unix.CAP_NET_ADMIN
	NetRaw   Set = 1 << unix.CAP_NET_RAW
	BPF      Set = 1 << unix.CAP_BPF
	IPCLock  Set = 1 << unix.CAP_IPC_LOCK

	setPCap Set = 1 << unix.CAP_SETPCAP
	setUID  Set = 1 << unix.CAP_SETUID
)

const (
	// Needed are those without which no interface can be opened, at the start or
	// later.
	Needed = NetAdmin | NetRaw | BPF
	// Kept are Needed, and IPCLock for packet memory that no limit holds back.
	Kept = Needed | IPCLock
)

// reasons say what the daemon does with each.
var reasons = []struct {
	cap  Set
	name string
	why  string
}{
	{BPF, "CAP_BPF", "to load the XDP program"},
	{NetAdmin, "CAP_NET_ADMIN", "to attach it"},
	{NetRaw, "CAP_NET_RAW", "for AF_XDP sockets"},
	{IPCLock, "CAP_IPC_LOCK", "to lock memory"},
}

// String names the capabilities, those that the daemon has no use for by number.
func (s Set) String() string {
	var names []string
	for _, r := range reasons {
		if s&r.cap != 0 {
			names = append(names, r.name)
			s &^= r.cap
		}
	}
	for n := 0; s != 0; n, s = n+1, s>>1 {
		if s&1 != 0 {
			names = append(names, fmt.Sprintf("capability %d", n))
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// explain is String with what each is for, for those of reasons.
func (s Set) explain() string {
	var list []string
	for _, r := range reasons {
		if s&r.cap != 0 {
			list = append(list, r.name+" ("+r.why+")")
		}
	}
	return strings.Join(list, ", ")
}
