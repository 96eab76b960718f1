package xsk

import (
	"fmt"
	"math"
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"
)

// Limits and defaults of a UMEM.
const (
	// DefaultFrames is UMEMConfig.Frames when that is zero.
	DefaultFrames = 4096
	// KernelHeadroom (XDP_PACKET_HEADROOM) is what the kernel leaves free
	// before a received frame, in addition to UMEMConfig.Headroom.
	KernelHeadroom = 256
	// MinFrameSize is the least UMEMConfig.FrameSize.
	MinFrameSize = 2048

	maxTxMetadata = 255
	hugePageSize  = 2 << 20
)

// UMEMConfig describes packet memory. The zero value means DefaultFrames
// frames of one page.
type UMEMConfig struct {
	// Frames is the number of frames, default DefaultFrames, or as many as
	// Memory holds.
	Frames int
	// FrameSize is the size of a frame (a chunk in the kernel's words) in
	// bytes, default the page size. It must be between MinFrameSize and the
	// page size and, except in an unaligned UMEM, a power of two.
	FrameSize int
	// Headroom is free space before a received frame in bytes, in addition
	// to KernelHeadroom.
	Headroom int
	// HugePages asks for memory in huge pages. When there are none, ordinary
	// pages are used and UMEM.HugePages tells so.
	HugePages bool
	// Unaligned lets FrameSize be other than a power of two and lets
	// descriptors cross frame boundaries (XDP_UMEM_UNALIGNED_CHUNK_FLAG).
	Unaligned bool
	// TxMetadataLen is the size of the metadata area before the bytes of a
	// descriptor with TxMetadata: zero or a multiple of 8 below 256. Every
	// submitted descriptor must leave that much of its frame before Addr.
	TxMetadataLen int
	// Memory is used instead of memory mapped here. It must begin on a page
	// boundary, hold all frames, stay mapped until UMEM.Close, and should lie
	// outside the Go heap.
	Memory []byte
}

// UMEM is packet memory that sockets and the kernel share. It may serve
// several sockets. Except for Close all methods are safe from any goroutine.
type UMEM struct {
	mem       []byte
	frames    int
	frameSize uint64
	chunkMask uint64 // frameSize-1 when frameSize is a power of two, else 0
	unaligned bool
	huge      bool
	mapping   []byte // what was mapped here, huge pages round it up
	reg       unix.XDPUmemReg

	mu      sync.Mutex // guards what follows; taken by control calls only
	sockets []*Socket
	queues  map[queueKey]*queueRings
	closed  bool
}

// NewUMEM makes packet memory. The kernel learns of it when the first socket
// is made on it, and only then pins it and counts it against RLIMIT_MEMLOCK.
// A configuration that cannot be gives an error that wraps ErrConfig.
func NewUMEM(cfg UMEMConfig) (*UMEM, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	u := &UMEM{
		mem:       cfg.Memory,
		frames:    cfg.Frames,
		frameSize: uint64(cfg.FrameSize),
		unaligned: cfg.Unaligned,
		queues:    make(map[queueKey]*queueRings),
	}
	if bits.OnesCount64(u.frameSize) == 1 {
		u.chunkMask = u.frameSize - 1
	}
	size := cfg.Frames * cfg.FrameSize
	if u.mem == nil {
		var err error
		if u.mapping, u.huge, err = mapMemory(size, cfg.HugePages); err != nil {
			return nil, err
		}
		u.mem = u.mapping
	}
	u.mem = u.mem[:size:size]
	u.reg = unix.XDPUmemReg{
		Addr:            addressOf(u.mem),
		Len:             uint64(size),
		Size:            uint32(cfg.FrameSize),
		Headroom:        uint32(cfg.Headroom),
		Tx_metadata_len: uint32(cfg.TxMetadataLen),
	}
	if cfg.Unaligned {
		u.reg.Flags |= unix.XDP_UMEM_UNALIGNED_CHUNK_FLAG
	}
	if cfg.TxMetadataLen != 0 {
		u.reg.Flags |= unix.XDP_UMEM_TX_METADATA_LEN
	}
	return u, nil
}

// complete fills in defaults and checks the rules of xdp_umem_reg.
func (cfg *UMEMConfig) complete() error {
	page := unix.Getpagesize()
	if cfg.FrameSize == 0 {
		cfg.FrameSize = page
	}
	if cfg.FrameSize < MinFrameSize || cfg.FrameSize > page {
		return configError("frame size of %d bytes is not between %d and the page size, %d", cfg.FrameSize, MinFrameSize, page)
	}
	if !cfg.Unaligned && bits.OnesCount(uint(cfg.FrameSize)) != 1 {
		return configError("frame size of %d bytes is not a power of two; only an unaligned UMEM can have it", cfg.FrameSize)
	}
	if cfg.Headroom < 0 || cfg.Headroom >= cfg.FrameSize-KernelHeadroom {
		return configError("headroom of %d bytes leaves no room in frames of %d bytes, of which the kernel takes %d",
			cfg.Headroom, cfg.FrameSize, KernelHeadroom)
	}
	if cfg.TxMetadataLen < 0 || cfg.TxMetadataLen > maxTxMetadata || cfg.TxMetadataLen%8 != 0 {
		return configError("transmit metadata of %d bytes is not a multiple of 8 below %d", cfg.TxMetadataLen, maxTxMetadata+1)
	}
	if cfg.Frames == 0 {
		cfg.Frames = DefaultFrames
		if cfg.Memory != nil {
			cfg.Frames = len(cfg.Memory) / cfg.FrameSize
		}
	}
	if cfg.Frames < 1 || cfg.Frames > math.MaxInt32 || uint64(cfg.Frames)*uint64(cfg.FrameSize) > addrMask {
		return configError("%d frames", cfg.Frames)
	}
	if cfg.Memory != nil {
		if len(cfg.Memory) < cfg.Frames*cfg.FrameSize {
			return configError("memory of %d bytes does not hold %d frames of %d bytes", len(cfg.Memory), cfg.Frames, cfg.FrameSize)
		}
		if addressOf(cfg.Memory)%uint64(page) != 0 {
			return configError("memory does not begin on a page boundary")
		}
	}
	return nil
}

func mapMemory(size int, huge bool) (mem []byte, isHuge bool, err error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	if huge {
		rounded := (size + hugePageSize - 1) &^ (hugePageSize - 1)
		if mem, err = unix.Mmap(-1, 0, rounded, prot, flags|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB); err == nil {
			// The mapping is there even if a control group forbids the pages: whoever
			// touched it would be killed.
			if err = unix.Madvise(mem, unix.MADV_POPULATE_WRITE); err == nil {
				return mem, true, nil
			}
			if err = unix.Munmap(mem); err != nil {
				return nil, false, fmt.Errorf("xsk: unmap huge pages that cannot be used: %w", err)
			}
		}
	}
	if mem, err = unix.Mmap(-1, 0, size, prot, flags); err != nil {
		return nil, false, fmt.Errorf("xsk: map %d bytes of packet memory: %w", size, err)
	}
	return mem, false, nil
}

// Bytes returns all of the memory.
func (u *UMEM) Bytes() []byte { return u.mem }

// Frame returns the bytes that d describes. Their capacity ends with the frame
// that d is in, or with d where an unaligned descriptor crosses frames. The
// result is nil if d is not inside the memory, or not inside one frame of an
// aligned UMEM.
func (u *UMEM) Frame(d Desc) []byte {
	start, length := d.Addr, uint64(d.Len)
	base := start
	if u.unaligned {
		base = start & addrMask
		start = base + start>>offsetShift
	}
	size := uint64(len(u.mem))
	if start > size || length > size-start {
		return nil
	}
	var end uint64
	if u.chunkMask != 0 {
		end = (base | u.chunkMask) + 1
	} else if u.frameSize != 0 {
		end = base - base%u.frameSize + u.frameSize
	}
	if start+length > end {
		if !u.unaligned {
			return nil
		}
		end = start + length
	}
	return u.mem[start : start+length : min(end, size)]
}

// Base returns the address of the frame that addr, of a descriptor or from
// Complete, is in.
func (u *UMEM) Base(addr uint64) uint64 {
	if u.chunkMask != 0 && !u.unaligned {
		return addr &^ u.chunkMask
	}
	addr &= addrMask
	if u.chunkMask != 0 {
		return addr &^ u.chunkMask
	}
	return addr - addr%u.frameSize
}

// FrameSize returns the size of a frame in bytes.
func (u *UMEM) FrameSize() int { return int(u.frameSize) }

// Frames returns the number of frames.
func (u *UMEM) Frames() int { return u.frames }

// Headroom returns the bytes left free before a received frame, in addition to
// KernelHeadroom.
func (u *UMEM) Headroom() int { return int(u.reg.Headroom) }

// TxMetadataLen returns the bytes that must be left free before Desc.Addr of
// every submitted descriptor.
func (u *UMEM) TxMetadataLen() int { return int(u.reg.Tx_metadata_len) }

// Unaligned reports whether the memory is in unaligned mode.
func (u *UMEM) Unaligned() bool { return u.unaligned }

// RxCapacity returns how many bytes of a frame the kernel receives into one
// buffer; longer frames need several.
func (u *UMEM) RxCapacity() int {
	return int(u.frameSize) - KernelHeadroom - int(u.reg.Headroom)
}

// HugePages reports whether the memory is in huge pages.
func (u *UMEM) HugePages() bool { return u.huge }

// Close frees the memory. It returns an error that wraps ErrInUse and does
// nothing while a socket uses it.
func (u *UMEM) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if n := len(u.sockets); n != 0 {
		return fmt.Errorf("%w: close its %d sockets first", ErrInUse, n)
	}
	u.closed = true
	u.mem = nil
	if u.mapping != nil {
		if err := unix.Munmap(u.mapping); err != nil {
			return fmt.Errorf("xsk: unmap packet memory: %w", err)
		}
	}
	return nil
}
