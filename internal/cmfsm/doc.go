// Package cmfsm is the connection manager: the state machine behind rdma_cm's
// ids, for connections (RC, UC) and for the resolution of datagram services
// (UD, SIDR), as a function of calls, received MADs and time. It owns no
// goroutine, reads no clock, does no I/O and takes no lock: who drives a
// [Machine] calls it from one goroutine at a time, passes the time in, and after
// each call takes out what there is to send and to report:
//
//	Handle(now, path, mad)   a MAD that came to QP1
//	Connect, Accept, ...     what an application wants
//	Poll(now)                timers that are due
//	NextMAD, NextEvent       drain both after each of the above
//	NextDeadline()           when Poll must be called at the latest
//
// One machine serves one device and all its addresses. An [Owner] goes with every
// id, so that a daemon can give a machine to many clients and end all that one of
// them has ([Machine.Owned]); a program of its own uses a single owner.
// Resolving addresses and routes, queue pairs and their states are the
// caller's: it passes a [Route] in and gets a [QPAttr] out.
//
// Protocol: IBTA vol. 1, chapter 12, and annex A11 (IP addresses in the private
// data), with the values and habits of Linux's ib_cm and rdma_cm where the
// specification leaves a choice. Events have rdma_cm's names and meaning.
//
// # The active side
//
//	Create, Bind                        IDLE
//	Connect           REQ ->            REQ_SENT        repeated after each timeout
//	                  <- MRA            MRA_REQ_RCVD    the peer needs longer
//	                  <- REP            REP_RCVD        CONNECT_RESPONSE
//	                                                    (caller: queue pair to RTR, RTS)
//	Accept            RTU ->            ESTABLISHED     ESTABLISHED
//	Reject            REJ ->            CLOSED
//	                  <- REJ            CLOSED          REJECTED, status: the reason
//	                  no answer         CLOSED          UNREACHABLE, status StatusTimedOut
//
// A REP that comes again is answered with an MRA in REP_RCVD, with another RTU
// in ESTABLISHED.
//
// # The passive side
//
//	Create, Bind, Listen                LISTEN
//	                  <- REQ            REQ_RCVD        CONNECT_REQUEST, with a new id
//	                                                    (caller: queue pair to RTR, RTS)
//	Accept            REP ->            REP_SENT        repeated after each timeout
//	                  <- MRA            MRA_REP_RCVD    the peer needs longer
//	                  <- RTU            ESTABLISHED     ESTABLISHED
//	Established       (first packet)    ESTABLISHED     ESTABLISHED, the RTU was lost or late
//	Reject            REJ ->            CLOSED
//	                  <- REJ            CLOSED          REJECTED, status: the reason
//	                  no answer         CLOSED          UNREACHABLE, status StatusTimedOut
//
// A REQ that comes again is answered with an MRA in REQ_RCVD, and ignored later:
// the REP is repeated anyway. A REQ that nobody can have gets a REJ and leaves
// nothing behind, so that a flood of them takes no memory:
//
//	no listener: 8                 other transport than the listener's: 9
//	backlog or machine full: 3     addresses that are not the packet's: 12
//	path MTU not ours: 26          queue pair still connected by another id: 10
//	communication id in use for another request: 30
//
// # The end
//
//	Disconnect        DREQ ->           DREQ_SENT       repeated after each timeout
//	                  <- DREP           TIMEWAIT        DISCONNECTED
//	                  no answer         TIMEWAIT        DISCONNECTED
//	                  <- DREQ, DREP ->  TIMEWAIT        DISCONNECTED, both began at once
//	                  <- DREQ           DREQ_RCVD       DISCONNECTED
//	Disconnect        DREP ->           TIMEWAIT
//	                  a while           CLOSED          TIMEWAIT_EXIT
//
// In TIMEWAIT, which lasts as long as the queue pair's timeout, the communication
// id is not used again, and [Machine.QPNHeld] asks the caller not to use the queue
// pair's number. A REJ that comes for a stale connection (10), and any in REP_RCVD,
// ESTABLISHED or DREQ_SENT, leads there too.
//
// Destroy may be called in every state. It tells the peer what there is to tell:
// REJ 4 (REQ_SENT), REJ 28 (undecided, or REP_SENT), DREQ (ESTABLISHED), DREP
// (DREQ_RCVD), SIDR_REP 2 (SIDR_REQ_RCVD). The id is gone at once and has no more
// events; a DREQ goes on to be repeated, and TIMEWAIT is waited for, without it.
//
// # Datagrams
//
//	client: Connect   SIDR_REQ ->       SIDR_REQ_SENT   repeated after each timeout
//	                  <- SIDR_REP 0     SIDR_DONE       ESTABLISHED, with QPN, Q_Key and path
//	                  <- SIDR_REP n     CLOSED          UNREACHABLE, status n
//	                  no answer         CLOSED          UNREACHABLE, status StatusTimedOut
//	server:           <- SIDR_REQ       SIDR_REQ_RCVD   CONNECT_REQUEST, with a new id
//	        Accept    SIDR_REP 0 ->     SIDR_DONE
//	        Reject    SIDR_REP 2 ->     CLOSED
//
// A request that comes again is ignored while the application thinks, and gets
// the same answer again once it is accepted, as long as its id lives.
//
// # What is not believed
//
// A MAD about a connection must come from the address of its peer, to the address
// that the connection uses, and name both communication ids, which are random;
// else it is counted and dropped. A DREQ about nothing that is known is answered
// with a DREP, as the peer would otherwise repeat it. LAP is answered with APR 2:
// RoCE has no alternate paths.
package cmfsm
