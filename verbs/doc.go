// Package verbs is the programming interface of roce-xdp: the objects and calls
// of libibverbs, spelled as in libibverbs without the prefix.
//
// A Context is an open device. It comes from package datapath, when the program
// owns the network interface itself, or from Open, when a daemon does (`roce-xdp run
// eth0`), and everything below is the same whoever provides it:
//
//	dev, err := datapath.Open("eth0", nil) // needs privileges
//	dev, err := verbs.Open("eth0")         // needs a daemon
//	pd, err := dev.AllocPD()
//	buf, err := dev.AllocBuffer(1 << 20)
//	mr, err := pd.RegisterMemory(buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
//	cq, err := dev.CreateCQ(256)
//	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
//	err = qp.Modify(&attr, mask) // to INIT, RTR, RTS: examples/write has it whole
//	err = qp.PostSend(&verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: sges, ...})
//	n := cq.Poll(wcs[:])
//	n, err = cq.Wait(ctx, wcs[:])
//
// Datagrams go from one UD queue pair to any other, by an address handle for each
// peer and with its Q_Key; a received one begins with GRHLen bytes that say where
// it came from:
//
//	ah, err := pd.CreateAH(&verbs.AddressVector{DGID: peer})
//	err = qp.PostSend(&verbs.SendWR{Opcode: verbs.OpSend, AH: ah, RemoteQPN: n, RemoteQKey: key, ...})
//	back, err := pd.CreateAHFromWC(&wc, buf)
//
// Queue pairs may share a receive queue, whose memory then serves whoever sends:
//
//	srq, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1024, Limit: 128})
//	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
//	err = srq.PostRecv(&verbs.RecvWR{SGList: sges})
//
// With XRC one connection from a host reaches all programs of another: each of them
// has a shared receive queue in one XRC domain, see XRCD, and each request names one:
//
//	ini, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCSend, SendCQ: cq})
//	err = ini.PostSend(&verbs.SendWR{Opcode: verbs.OpSend, RemoteSRQN: srqn, SGList: sges})
//
// All methods are safe for concurrent use. Posting and polling allocate
// nothing. A program that polls drives the device in its own goroutine; a
// program that waits, or that does neither for a while, is served by the
// device's own.
package verbs
