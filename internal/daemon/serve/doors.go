package serve

import (
	"errors"
	"fmt"
	"os"

	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// doors are the doorbells of a client's queue pairs and what wakes the workers
// that have them.
type doors struct {
	mem    *shm.Memory
	stride int
	slots  int
	bells  []*queue.Bells
	wake   []*shm.Eventfd
}

// newDoors makes doorbells for as many queue pairs as a client may have, with each
// worker.
func newDoors(workers, slots int) (d *doors, err error) {
	d = &doors{slots: min(slots, queue.MaxSlots)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
			d = nil
		}
	}()
	n, err := queue.BellsSize(d.slots)
	if err != nil {
		return d, err
	}
	page := os.Getpagesize()
	d.stride = (n + page - 1) / page * page
	if d.mem, err = shm.Create("roce-xdp doorbells", workers*d.stride, shm.Options{}); err != nil {
		return d, fmt.Errorf("doorbells: %w", err)
	}
	for i := range workers {
		b, err := queue.OpenBells(d.mem.Bytes()[i*d.stride:(i+1)*d.stride], d.slots)
		if err != nil {
			return d, err
		}
		e, err := shm.NewEventfd()
		if err != nil {
			return d, err
		}
		d.bells, d.wake = append(d.bells, b), append(d.wake, e)
	}
	return d, nil
}

// fds are the descriptors for the client: the doorbells, and one to wake each worker.
func (d *doors) fds() []int {
	fds := []int{d.mem.FD()}
	for _, e := range d.wake {
		fds = append(fds, e.FD())
	}
	return fds
}

// wakers are those that wake each worker.
func (d *doors) wakers() []int { return d.fds()[1:] }

func (d *doors) close() error {
	var errs []error
	for _, e := range d.wake {
		errs = append(errs, e.Close())
	}
	if d.mem != nil {
		errs = append(errs, d.mem.Close())
	}
	return errors.Join(errs...)
}
