package serve

import (
	"fmt"
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptors shares out those that the process may have. Each completion queue takes
// one, for as long as it lives, and nothing else of a client takes so many: a user gets
// them as long as no more are his than are left for others, however many connections he
// has. What is not for completion queues is for connections and the daemon itself.
type descriptors struct {
	mu   sync.Mutex
	room int // for completion queues
	used int
	of   map[uint32]int // by user
}

// newDescriptors shares out what the process may have now: three of four are for
// completion queues.
func newDescriptors() *descriptors {
	d := &descriptors{room: math.MaxInt32, of: map[uint32]int{}}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil {
		d.room = int(min(l.Cur, math.MaxInt32)) / 4 * 3
	}
	return d
}

// take gives a user one more, or says that he has his part.
func (d *descriptors) take(uid uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.of[uid]; n >= d.room-d.used {
		return fmt.Errorf("%w: the %d completion queues of this user take as many of the daemon's descriptors as are left for others: destroy some, or have its operator raise RLIMIT_NOFILE (LimitNOFILE)", ErrLimit, n)
	}
	d.of[uid]++
	d.used++
	return nil
}

// give takes n of a user back.
func (d *descriptors) give(uid uint32, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= n
	if d.of[uid] -= n; d.of[uid] <= 0 {
		delete(d.of, uid)
	}
}
