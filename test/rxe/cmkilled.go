package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// inFlight is how many megabytes go each way when one end dies: more than the emulated
// guest takes in the meantime.
const inFlight = 60

// transfer posts WRITEs from both ends and waits until they are under way.
func (m *meeting) transfer(j *joined) error {
	for _, ours := range []bool{false, true} {
		t := m.trial(j, ours)
		for range inFlight {
			t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: maxSize, Addr: target})
		}
		if t.err != nil {
			return t.err
		}
	}
	time.Sleep(20 * time.Millisecond)
	return nil
}

// killed has the guest's process die in the middle of a transfer. Its kernel frees the
// queue pair and ends the connection: we are told, and nothing of ours is left hanging.
func killed(m *meeting) (err error) {
	j, err := m.join(&contract{guest: offer{resources: 1, depth: 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	if err := m.transfer(j); err != nil {
		return err
	}
	m.guest.die()
	if err := m.over(j); err != nil {
		return err
	}
	got, err := j.own.wait(inFlight, lifetime)
	if err != nil {
		return err
	}
	if len(got) != inFlight {
		return fmt.Errorf("%d of %d requests have completed", len(got), inFlight)
	}
	return interrupted(got, verbs.WCFlushed, verbs.WCRetryExceeded, verbs.WCRemoteOperation, verbs.WCRemoteAccess, verbs.WCRemoteInvalidRequest)
}

// interrupted demands that requests succeeded up to one, which failed as the peer's death
// can look, and that all after that were flushed.
func interrupted(got []completion, first ...verbs.WCStatus) error {
	failed := false
	for i, c := range got {
		switch {
		case failed && c.Status != verbs.WCFlushed:
			return fmt.Errorf("request %d ends with %v after one that failed", i, c.Status)
		case c.Status == verbs.WCSuccess:
		case !failed:
			failed = true
			if !slices.Contains(first, c.Status) {
				return fmt.Errorf("request %d ends with %v, want one of %v", i, c.Status, first)
			}
		}
	}
	if !failed {
		return errors.New("all requests have succeeded: the peer did not die in their midst")
	}
	return nil
}

// deviceClosed has our device vanish without a word in the middle of a transfer. The guest
// gives up; its connection manager still has the connection when we come back, and must
// take the next one.
func deviceClosed(m *meeting) (err error) {
	const retries = 2
	j, err := m.join(&contract{cfg: &cm.Config{RetryCount: retries}, guest: offer{resources: 1, depth: 1, retry: retries}})
	if err != nil {
		return err
	}
	if err := m.transfer(j); err != nil {
		return err
	}
	if err := m.dev.Close(); err != nil {
		return err
	}
	got, err := m.guest.wait(inFlight, lifetime)
	if err != nil {
		return err
	}
	if err := interrupted(got, verbs.WCRetryExceeded); err != nil {
		return fmt.Errorf("the guest: %w", err)
	}
	return m.again()
}

// again connects a new device of ours with a new process of the guest, and ends that.
func (m *meeting) again() (err error) {
	old := m.guest
	if m.guest, err = m.b.dialCM(m.ctx, m.family); err != nil {
		return err
	}
	if m.dev, err = m.b.openDevice(); err != nil {
		return err
	}
	m.port++
	j, err := m.join(&contract{guest: offer{resources: 1, depth: 1}})
	if err != nil {
		return fmt.Errorf("the next connection: %w", err)
	}
	defer func() { err = errors.Join(err, j.close()) }()
	t := m.trial(j, true)
	write(verbs.OpRDMAWrite)(t, 5000, "again")
	if t.err != nil {
		return t.err
	}
	// The guest's program gives its old connection up: a new device has not heard of that.
	if err := old.disconnect(); err != nil {
		return err
	}
	if _, err := old.event("DISCONNECTED"); err != nil {
		return err
	}
	return errors.Join(m.endHere(j), old.close())
}
