package cmengine

import "github.com/roce-xdp/roce-xdp/verbs"

// Attendance has a device's connection manager run without a client, as a host's does: who
// asks for a service that nobody offers hears that at once (REJ 8, invalid service ID), and
// does not wait for an answer until its retries are over.
type Attendance struct{ e *Engine }

// Attend begins an attendance on a device of this process. The error is that of
// [Service.Open]: verbs.ErrBusy where somebody else has queue pair 1, for example.
func Attend(dev *verbs.Context) (*Attendance, error) {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	e, err := engineOf(dev)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attended++
	return &Attendance{e}, nil
}

// Leave ends the attendance, once. If nobody uses the connection manager then, queue pair 1
// is free when it returns. That can take as long as a next hop which is being looked for
// needs to answer.
func (a *Attendance) Leave() {
	e := a.e
	engines.mu.Lock()
	e.mu.Lock()
	e.attended--
	// Without clients there are no listeners, so that nothing comes to be used any more.
	e.leaving = !e.ended && e.attended == 0 && len(e.clients) == 0 && e.m.Len() == 0
	leaving := e.leaving
	e.wake()
	e.mu.Unlock()
	engines.mu.Unlock()
	if leaving {
		<-e.done
	}
}

// engineOf is the engine of a device, which is started if there is none. The lock of
// engines is held, but not while an engine that ends is waited for.
func engineOf(dev *verbs.Context) (*Engine, error) {
	for {
		e := engines.of[dev]
		if e == nil {
			break
		}
		e.mu.Lock()
		leaving := e.leaving
		e.mu.Unlock()
		if !leaving {
			return e, nil
		}
		engines.mu.Unlock()
		<-e.done
		engines.mu.Lock()
	}
	e, err := newEngine(dev)
	if err != nil {
		return nil, err
	}
	engines.of[dev] = e
	e.watcher.Go(e.watch)
	go e.run()
	return e, nil
}
