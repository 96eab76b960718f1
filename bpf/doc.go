// Package bpf loads the steering program, attaches it to a network interface
// and keeps its maps.
//
// The program runs on every frame that the interface receives. RoCEv2 frames
// that are addressed to a registered address and queue pair go to the AF_XDP
// socket that is registered for their receive queue; all other frames go on to
// the kernel, so that the rest of the host's traffic does not notice.
//
//	s, err := bpf.Load(nil)
//	err = s.Attach(ifindex, bpf.ModeAuto)
//	err = s.Register(queue, socket.FD())
//	err = s.AddAddress(netip.MustParseAddr("10.0.0.1"))
//	err = s.AddQPN(0x11)
//	...
//	err = s.Close()
//
// Loading needs CAP_BPF and CAP_NET_ADMIN; nothing else here needs more. The
// object is built from steer.bpf.c ahead of time and is part of the package, so
// neither clang nor kernel headers are wanted where it runs.
package bpf
