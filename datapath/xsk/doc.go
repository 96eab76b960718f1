// Package xsk gives access to AF_XDP sockets: packet memory (UMEM), pools of
// its frames, sockets with their four rings, and sleeping until something
// arrives. It needs Linux 5.4 or newer and knows nothing of BPF: a program
// that redirects into an XSKMAP, where Socket.FD is entered, brings frames in.
//
// The life of a frame. A Pool owns free frames. Socket.Fill lends their
// addresses to the kernel; Socket.Receive returns descriptors of what was
// received into them; after reading, Pool.Put takes the frame back. The other
// way, Pool.Get reserves frames, the program writes into Socket.Frame,
// Socket.Submit queues descriptors, Socket.Kick has them transmitted, and
// Socket.Complete returns the addresses that are free again, for Pool.Put.
//
//	s, err := xsk.NewSocket(ifindex, queue, nil)
//	pool := xsk.NewPool(s.UMEM(), 0, s.UMEM().Frames())
//	n := pool.Get(addrs[:])
//	s.Fill(addrs[:n])
//	for _, d := range descs[:s.Receive(descs[:])] {
//		use(s.Frame(d))
//		pool.Put(d.Addr)
//	}
//
// A socket has a receive half (Fill, Receive and what belongs to them) and a
// transmit half (Submit, Kick, Complete). Each is used by one goroutine at a
// time; two goroutines may use one half each. Nothing on these paths
// allocates.
package xsk
