// Package cm connects queue pairs: what rdma_cm is to libibverbs, on the same wire,
// so that peers may be programs of librdmacm on Linux's rxe or on hardware.
//
// # Connections
//
// Dial and Listen are the easy way to a connected queue pair of type RC:
//
//	l, err := cm.Listen(dev, "10.0.0.1:7471", nil)
//	conn, err := l.Accept(ctx)                        // on one host
//	conn, err := cm.Dial(ctx, dev, "10.0.0.1:7471", nil) // on another
//	conn.QP().PostSend(...)
//	conn.Disconnect(ctx)                              // the other's Done is closed
//	conn.Close()
//
// Both ends may say something with it, PrivateData; l.Request lets a server look at
// that before it accepts or rejects. Receives are posted in Config.Prepare, before the
// peer can send. What Config does not have is made for each connection; a server
// of many gives it a PD, completion queues and an SRQ that all share.
//
// # Ids and events
//
// EventChannel and ID are rdma_cm's objects, with its names and its events, for programs
// that are made for them, that want UD services (PortSpaceUDP) and multicast groups, or that serve many
// connections by one goroutine:
//
//	ch := cm.NewEventChannel(dev)
//	id, err := ch.CreateID(cm.PortSpaceTCP)
//	err = id.ResolveAddr(netip.AddrPort{}, peer, 2*time.Second) // ADDR_RESOLVED
//	err = id.ResolveRoute(2 * time.Second)                     // ROUTE_RESOLVED
//	err = id.CreateQP(pd, &verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq})
//	err = id.Connect(&cm.ConnParam{RetryCount: 7, RNRRetryCount: 7}) // ESTABLISHED
//	ev, err := ch.Next(ctx)
//
// A channel is given the devices that its ids may be on, as there is no list of all.
// A program without CreateQP takes its own queue pair through its states by InitQPAttr.
//
// # Who answers
//
// Requests come to queue pair 1 of the device, of which there is one: it is made with
// the first Listen or Dial of a program, and goes with the last connection. For
// that the program needs CAP_NET_RAW. On a device whose daemon has it, the daemon
// answers for all its programs; nothing here differs.
//
// All functions and methods are safe for concurrent use, except that a connection
// is not to be used while it is closed.
package cm
