// Package giveway lets other goroutines run from loops that poll, as often as that
// costs little.
//
// runtime.Gosched takes a fraction of a microsecond when other goroutines wait for a
// processor, and when none does and none is idle. It takes 7 us when there is an idle
// one, as it wakes a thread to look for work that is not there, and 6 to 30 us in a
// goroutine that is locked to its thread, for which threads change places. In a loop
// that waits for an answer of 10 us, which looks at memory fifteen times in a
// microsecond, that is most of the time, and gains nobody anything.
package giveway

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// Most is the largest number of empty polls between two calls of Gosched.
	Most = 1024
	// dear and cheap are what a call takes after which there are half or twice as many.
	dear  = 5 * time.Microsecond
	cheap = 2 * time.Microsecond
)

// Pace is how often a loop gives way. It may be used by several goroutines at a time.
type Pace struct {
	least uint32
	every atomic.Uint32
	fixed bool
}

// Init has the loop give way after so many empty polls, a power of two up to Most, and
// more rarely while that is dear. With one processor it never is: who waits for it has
// no other.
func (p *Pace) Init(least uint32) {
	p.least, p.fixed = least, runtime.GOMAXPROCS(0) == 1
	p.every.Store(least)
}

// Due reports whether it is time after a number of empty polls in a row.
func (p *Pace) Due(empty uint32) bool { return empty&(p.every.Load()-1) == 0 }

// GiveWay lets other goroutines run.
func (p *Pace) GiveWay() {
	if p.fixed {
		runtime.Gosched()
		return
	}
	begin := time.Now()
	runtime.Gosched()
	p.took(time.Since(begin))
}

// took learns from what a call has taken.
func (p *Pace) took(d time.Duration) {
	switch n := p.every.Load(); {
	case d >= dear && n < Most:
		p.every.Store(2 * n)
	case d < cheap && n > p.least:
		p.every.Store(n / 2)
	}
}
