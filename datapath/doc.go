// Package datapath makes a RoCEv2 adapter of a network interface: it steers the
// interface's RoCE frames into AF_XDP sockets, runs the queue pairs of package
// transport on them, and places payload straight into registered memory. All
// other traffic stays with the kernel.
//
//	dev, err := datapath.Open("eth0", nil)
//	defer dev.Close()
//	pd, err := dev.AllocPD()
//
// Open gives a verbs.Context; everything else is done with package verbs. It
// needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW, and works in the network
// namespace of the calling thread; the device stays there.
//
// # Workers
//
// Each receive queue has a worker: a socket, its share of the packet memory, and
// the queue pairs that were assigned to it. Whoever holds a worker's lock drives
// it: an application that polls or posts does so in its own goroutine, with no
// hand-over between threads; a background goroutine does when no application
// will, and sleeps while there is nothing to do. See drive.go for the protocol
// between the two, under which no wake-up is lost.
package datapath
