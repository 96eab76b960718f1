package xsk

import "golang.org/x/sys/unix"

// initHalves connects the halves with the rings, before bind.
func (s *Socket) initHalves() {
	on := func(e Error) error {
		e.Ifindex, e.Queue = s.ifindex, s.queue
		return &e
	}
	busy := s.opts.BusyPoll.Usecs != 0
	s.rx.sock, s.rx.fd, s.rx.fill, s.rx.busyPoll = s, s.fd, s.rings.fill, busy
	s.tx.sock, s.tx.fd, s.tx.comp, s.tx.alwaysAsk = s, s.fd, s.rings.comp, busy || s.opts.NoNeedWakeup
	s.tx.send = sendCopy
	s.tx.errBroken = on(Error{Op: opKick, Kind: ErrBroken, Hint: "something wrote into the rings; close the socket and make a new one"})
	s.errDown = on(Error{Op: opKick, Kind: ErrDown, Errno: unix.ENETDOWN, Hint: "what is queued leaves with the next Kick after ip link set up"})
	s.errGone = on(Error{Op: opKick, Kind: ErrGone, Errno: unix.ENXIO, Hint: "close the socket"})
	s.errClosed = on(Error{Op: opKick, Kind: ErrClosed, Errno: unix.EBADF})
}

// RX returns the receive half.
func (s *Socket) RX() *RX { return &s.rx }

// TX returns the transmit half.
func (s *Socket) TX() *TX { return &s.tx }

// Fill lends free frames to the kernel; see Port.
func (s *Socket) Fill(addrs []uint64) int { return s.rx.Fill(addrs) }

// Receive takes received buffers; see Port.
func (s *Socket) Receive(dst []Desc) int { return s.rx.Receive(dst) }

// Submit queues descriptors; see Port.
func (s *Socket) Submit(descs []Desc) int { return s.tx.Submit(descs) }

// Kick has the kernel transmit what is queued; see Port.
func (s *Socket) Kick() error { return s.tx.Kick() }

// Transmit is Submit followed by Kick. It returns how many of descs were
// queued, also when Kick failed.
func (s *Socket) Transmit(descs []Desc) (int, error) { return s.tx.Transmit(descs) }

// Complete takes addresses of transmitted frames; see Port.
func (s *Socket) Complete(dst []uint64) int { return s.tx.Complete(dst) }

// RxAvail returns how many buffers wait; see Port.
func (s *Socket) RxAvail() int { return s.rx.RxAvail() }

// TxFree returns how many descriptors Submit can take; see Port.
func (s *Socket) TxFree() int { return s.tx.TxFree() }

// TxPending returns how many descriptors wait to be transmitted; see Port.
func (s *Socket) TxPending() int { return s.tx.TxPending() }

// FillFree returns how many addresses Fill can take; see Port.
func (s *Socket) FillFree() int { return s.rx.FillFree() }

// CompAvail returns how many addresses Complete has; see Port.
func (s *Socket) CompAvail() int { return s.tx.CompAvail() }

// NeedFillWakeup reports whether the driver waits for WakeFill; see Port.
func (s *Socket) NeedFillWakeup() bool { return s.rx.NeedFillWakeup() }

// WakeFill tells the driver that frames were filled; see Port.
func (s *Socket) WakeFill() error { return s.rx.WakeFill() }
