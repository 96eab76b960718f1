package serve

import (
	"errors"
	"fmt"
	"slices"
)

// ErrLimit says that the client has as many objects, or as much memory, as it may have.
var ErrLimit = errors.New("limit of this client")

// Limits bound what a client may have at a time. 0 stands for the value of
// [DefaultLimits], except where a field says otherwise.
type Limits struct {
	Devices []string // that it may open; nil: all

	Clients int // connections of all processes of the user together
	QPs     int
	CQs     int
	SRQs    int
	MRs     int // memory regions, windows and fast regions together
	PDs     int
	AHs     int
	XRCDs   int
	Groups  int // attachments to multicast groups
	CMIDs   int // ids of the connection manager

	Memory     uint64 // bytes of queues and buffers, which the daemon shares with the client
	Registered uint64 // bytes that regions cover, each counted; implicit ones not

	// What leaves in a second, all queue pairs together; 0: as much as can.
	Messages, BytesPerSecond uint64

	// NoIndirect forbids regions on memory that is not of AllocBuffer. A worker that
	// copies from such memory waits for the client's pages, which the client may have
	// backed with a file system that is slow on purpose.
	NoIndirect bool
	// Privileged lets a client use privileged Q_Keys.
	Privileged bool
}

// DefaultLimits are those of a client of which the policy says nothing else.
var DefaultLimits = Limits{
	Clients: 256, QPs: 16384, CQs: 16384, SRQs: 1024, MRs: 65536, PDs: 4096, AHs: 16384, XRCDs: 256, Groups: 1024, CMIDs: 16384,
	Memory: 1 << 30, Registered: 1 << 40,
}

// withDefaults fills in what is 0.
func (l Limits) withDefaults() Limits {
	d := &DefaultLimits
	for _, f := range []struct{ v, def *int }{
		{&l.Clients, &d.Clients}, {&l.QPs, &d.QPs}, {&l.CQs, &d.CQs}, {&l.SRQs, &d.SRQs}, {&l.MRs, &d.MRs},
		{&l.PDs, &d.PDs}, {&l.AHs, &d.AHs}, {&l.XRCDs, &d.XRCDs}, {&l.Groups, &d.Groups}, {&l.CMIDs, &d.CMIDs},
	} {
		if *f.v <= 0 {
			*f.v = *f.def
		}
	}
	if l.Memory == 0 {
		l.Memory = d.Memory
	}
	if l.Registered == 0 {
		l.Registered = d.Registered
	}
	return l
}

// allows reports whether the device may be opened.
func (l *Limits) allows(device string) bool {
	return l.Devices == nil || slices.Contains(l.Devices, device)
}

func limit(what string, n int) error {
	return fmt.Errorf("%w: %d %s: destroy some, or have the daemon's operator raise the limit", ErrLimit, n, what)
}
