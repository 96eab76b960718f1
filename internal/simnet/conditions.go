package simnet

import "time"

// Conditions are what happens to the frames of one direction. Probabilities run
// from 0 to 1 and are independent of each other. The zero value is a link without
// delay or limits that loses nothing.
type Conditions struct {
	// Rate is how many bits leave in a second, Ethernet's overhead included (see
	// WireLen): frames that meet others wait for them, in the order of Send. 0 is
	// as many as one likes.
	Rate int64
	// Queue is how many bytes may wait for their turn to leave, of the frame that
	// is leaving what is left of it: a frame that would make it more is lost. It
	// has a meaning with a Rate only; 0 is no limit.
	Queue int
	// Mark sets the CE mark on frames that meet a long queue.
	Mark Marking

	Delay     time.Duration // from leaving to arrival
	Jitter    time.Duration // more delay, drawn for each frame, up to this
	Drop      float64       // probability that a frame is lost
	Burst     Burst         // losses that come in runs
	Duplicate float64       // probability that a frame comes twice
	Reorder   float64       // probability that a frame is late by up to ReorderBy
	ReorderBy time.Duration
	Corrupt   float64 // probability that one bit is flipped
}

// Marking is how a queue tells senders that it grows (RFC 3168): below Kmin bytes
// it marks no frame, from there up to Kmax it marks with a probability that rises
// to Pmax, and from Kmax on it marks every frame. With Kmin and Kmax equal it is a
// threshold. Frames of senders that do not take marks are left alone. The zero
// value marks nothing.
type Marking struct {
	Kmin, Kmax int // bytes; Kmax 0: no marks
	Pmax       float64
}

// probability is that of a mark on a frame that finds backlog bytes waiting.
func (m *Marking) probability(backlog int) float64 {
	switch {
	case m.Kmax == 0 || backlog < m.Kmin:
		return 0
	case backlog >= m.Kmax:
		return 1
	}
	return m.Pmax * float64(backlog-m.Kmin) / float64(m.Kmax-m.Kmin)
}

// Burst is a link that is good or bad (Gilbert's model): before each frame a good
// one turns bad with probability Begin, a bad one good with probability End; a
// bad one loses a frame with probability Drop. Runs are 1/End frames long on
// average. The zero value is always good.
type Burst struct {
	Begin, End, Drop float64
}

// Fate is what a script decides for one frame.
type Fate uint8

// Fates.
const (
	Chance Fate = iota // as the conditions have it
	Lose               // lost
	Repeat             // comes twice
	Delay              // comes late by the whole of ReorderBy
)

// Stats count the frames of one direction. Every frame sent is dropped,
// overflowed, or delivered, once or, when duplicated, twice.
type Stats struct {
	Sent, Dropped, Duplicated, Reordered, Corrupted, Delivered uint64

	Overflowed uint64 // frames lost because the queue was full
	Marked     uint64 // frames that got the CE mark
	MaxQueue   int    // most bytes that ever waited, with a Rate
}
