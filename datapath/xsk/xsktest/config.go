package xsktest

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// Config describes a pair of ports. The zero value is a good one.
type Config struct {
	// UMEM is the memory of each port, for ports that share one; nil makes
	// memory from UMEMConfig that is freed with the port. Frames defaults to
	// 1024 then.
	UMEM       [2]*xsk.UMEM
	UMEMConfig xsk.UMEMConfig
	// FillSize, CompSize, RxSize and TxSize are the entries of the rings,
	// powers of two, default xsk.DefaultRingSize.
	FillSize, CompSize, RxSize, TxSize int
	// MultiBuffer lets frames span several buffers.
	MultiBuffer bool
	// TxBudget is how many descriptors one Kick transmits at most, so that
	// TxPending is not zero after it; 0 is no limit. A frame is never cut.
	TxBudget int
	// FillWakeup makes a port that runs out of filled frames ask for
	// WakeFill, and drop what arrives until that is called, as drivers in
	// zero-copy mode do.
	FillWakeup bool
	// Hook is called for each frame in either direction; see Port.SetHook.
	Hook Hook
}

// Action says what becomes of a frame.
type Action uint8

const (
	// Deliver passes the frame on.
	Deliver Action = iota
	// Drop loses it.
	Drop
	// Duplicate delivers it twice.
	Duplicate
)

// Hook decides on a frame in flight. It may change bytes of frame, which is a
// copy, but not keep it. It runs inside Kick of the sending port; hooks of a
// Config run concurrently when both ports are kicked at the same time.
type Hook func(frame []byte) Action

const (
	defaultFrames = 1024
	// maxBuffers is what the kernel takes for one frame: the linear part of an
	// skb and MAX_SKB_FRAGS fragments.
	maxBuffers = 18
)

// Pair returns two joined ports. It panics if cfg is not valid, as only a
// mistake in a test can make it so.
func Pair(cfg Config) (a, b *Port) {
	a, err := newPort(cfg, 0)
	if err != nil {
		panic(err)
	}
	b, err = newPort(cfg, 1)
	if err != nil {
		panic(err)
	}
	a.peer, b.peer = b, a
	return a, b
}

func newPort(cfg Config, side int) (*Port, error) {
	p := &Port{
		umem:        cfg.UMEM[side],
		multiBuffer: cfg.MultiBuffer,
		budget:      cfg.TxBudget,
		fillWakeup:  cfg.FillWakeup,
	}
	p.SetHook(cfg.Hook)
	if p.umem == nil {
		if err := p.makeUMEM(cfg.UMEMConfig); err != nil {
			return nil, err
		}
	}
	var errs [4]error
	p.rx.kernel, p.rx.user, errs[0] = ring.Pair[xsk.Desc](sizeOr(cfg.RxSize), 0)
	p.tx.user, p.tx.kernel, errs[1] = ring.Pair[xsk.Desc](sizeOr(cfg.TxSize), 0)
	p.fill.user, p.fill.kernel, errs[2] = ring.Pair[uint64](sizeOr(cfg.FillSize), 0)
	p.comp.kernel, p.comp.user, errs[3] = ring.Pair[uint64](sizeOr(cfg.CompSize), 0)
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("xsktest: %w", err)
		}
	}
	return p, nil
}

// makeUMEM takes memory of the Go heap, which the race detector watches.
func (p *Port) makeUMEM(cfg xsk.UMEMConfig) error {
	page := unix.Getpagesize()
	if cfg.Frames == 0 {
		cfg.Frames = defaultFrames
	}
	if cfg.FrameSize == 0 {
		cfg.FrameSize = page
	}
	if cfg.Memory == nil && cfg.Frames > 0 && cfg.FrameSize > 0 {
		cfg.Memory = aligned(cfg.Frames*cfg.FrameSize, page)
	}
	var err error
	p.umem, err = xsk.NewUMEM(cfg)
	p.private = true
	return err
}

func sizeOr(size int) int {
	if size == 0 {
		return xsk.DefaultRingSize
	}
	return size
}
