// Package netns makes network namespaces and the links between them, for tests
// and for the demonstration: several hosts on one machine, without touching the
// network of the machine itself.
//
// A namespace is bind-mounted at /run/netns/rxdp-<pid>-<n>, so that programs
// outside the process reach it (nsenter --net=/run/netns/...; `ip netns exec`
// works too but hides bpffs). It ends with Close, at the latest when the process
// calls CloseAll; what a killed process left behind is removed by Sweep.
//
// Everything here needs root: CAP_SYS_ADMIN for namespaces and CAP_NET_ADMIN for
// links. Tests call Require first, which skips without these, or fails when the
// environment demands them.
package netns
