package serve

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// maxCMEvents is how many events of connections wait for a client that does not read
// them; one more, and it is thrown out.
const maxCMEvents = 4096

// connections are a session's part of the device's connection manager.
type connections struct {
	s      *session
	res    *resources
	client cmengine.Client
	conn   *shm.Conn // events go out here

	mu      sync.Mutex
	ids     map[cmfsm.ID]struct{} // listeners, connections, and requests
	waiting []cmfsm.Event
	full    bool          // an event found no room: the session ends
	some    chan struct{} // has an element while the pump may find an event
	closed  chan struct{}
	once    sync.Once
	pumping sync.WaitGroup
}

// cm makes a handler of a request to the connection manager.
func cm[T any](f func(*connections, *request, *T) (any, error)) handler {
	return on(func(s *session, q *request, req *T) (any, error) {
		s.mu.Lock()
		c := s.cm
		s.mu.Unlock()
		if c == nil {
			return nil, fmt.Errorf("%w: CM_OPEN comes first", errProtocol)
		}
		return f(c, q, req)
	})
}

func cmOpen(s *session, q *request, _ *proto.Empty) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.res == nil:
		return nil, fmt.Errorf("%w: OPEN comes first", errProtocol)
	case s.cm != nil:
		return nil, fmt.Errorf("%w: a second CM_OPEN", errProtocol)
	}
	c, theirs, err := newConnections(s, s.res)
	if err != nil {
		return nil, err
	}
	q.give(theirs)
	s.cm = c
	return nil, nil
}

func newConnections(s *session, res *resources) (*connections, *os.File, error) {
	conn, theirs, err := shm.Pair()
	if err != nil {
		return nil, nil, err
	}
	c := &connections{s: s, res: res, conn: conn, ids: map[cmfsm.ID]struct{}{}, some: make(chan struct{}, 1), closed: make(chan struct{})}
	if c.client, err = res.dev.cm.Open(c.sink); err != nil {
		_, _ = conn.Close(), theirs.Close() // nobody has used them
		return nil, nil, err
	}
	c.pumping.Go(c.pump)
	return c, theirs, nil
}

func cmClose(s *session, _ *request, _ *proto.Empty) (any, error) {
	s.mu.Lock()
	c := s.cm
	s.cm = nil
	s.mu.Unlock()
	if c == nil {
		return nil, fmt.Errorf("%w: CM_CLOSE without CM_OPEN", errProtocol)
	}
	c.close()
	return nil, nil
}

// close ends all ids; peers of connections are told. Twice is no error.
func (c *connections) close() {
	c.once.Do(func() {
		_ = c.client.Close() // it has no error but that it is closed
		close(c.closed)
		_ = c.conn.Close()
	})
	c.pumping.Wait()
}

// sink takes an event. A lock of the connection manager is held.
func (c *connections) sink(e cmfsm.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		return
	}
	if c.full = len(c.waiting) >= maxCMEvents; c.full {
		// It logs, which may wait, and that must not be here.
		go c.s.kill(fmt.Errorf("%w: %d events of connections were not read", ErrLimit, maxCMEvents))
		return
	}
	if e.Type == cmfsm.EventConnectRequest {
		c.ids[e.ID] = struct{}{}
	}
	c.waiting = append(c.waiting, e)
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// pump sends events to the client.
func (c *connections) pump() {
	for {
		c.mu.Lock()
		list := c.waiting
		c.waiting = nil
		c.mu.Unlock()
		for i := range list {
			if !c.send(&list[i]) {
				return
			}
		}
		if len(list) != 0 {
			continue
		}
		select {
		case <-c.some:
		case <-c.closed:
			return
		}
	}
}

// send sends an event and reports whether the client may want more.
func (c *connections) send(e *cmfsm.Event) bool {
	if e.Type == cmfsm.EventConnectRequest && c.count() > c.s.limits.CMIDs {
		// As if the listener's backlog were full.
		_ = c.destroy(e.ID)
		return true
	}
	m, ok := proto.CMEventOf(e)
	if !ok {
		c.s.kill(fmt.Errorf("%w: %d bytes of private data in an event", errProtocol, len(e.Param.PrivateData)))
		return false
	}
	return c.conn.Send(packed(&m)) == nil // else the client has closed its end
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

// create makes an id, if the client may have one more.
func (c *connections) create(m *proto.CMCreate) (cmfsm.ID, error) {
	ps, typ, err := kindOf(m)
	if err != nil {
		return 0, err
	}
	if c.count() >= c.s.limits.CMIDs {
		return 0, fmt.Errorf("%w: %d are all that this client may have", cmfsm.ErrTooManyIDs, c.s.limits.CMIDs)
	}
	id, err := c.client.Create(ps, typ)
	if err == nil {
		c.mu.Lock()
		c.ids[id] = struct{}{}
		c.mu.Unlock()
	}
	return id, err
}

// destroy ends an id.
func (c *connections) destroy(id cmfsm.ID) error {
	err := c.client.Destroy(id)
	c.mu.Lock()
	delete(c.ids, id)
	c.mu.Unlock()
	return err
}

// list are the client's ids.
func (c *connections) list() []cmfsm.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]cmfsm.ID, 0, len(c.ids))
	for id := range c.ids {
		ids = append(ids, id)
	}
	return ids
}

// mayName refuses numbers of other clients' queue pairs in what is told to a peer. 0
// says that there is none yet. Of an id that takes none now the state is what is wrong.
func (c *connections) mayName(id cmfsm.ID, qpn uint32, in ...cmfsm.State) error {
	if qpn == 0 || c.res.numbers.own(qpn) {
		return nil
	}
	i, err := c.client.Info(id)
	switch {
	case err != nil:
		return err
	case !slices.Contains(in, i.State):
		return fmt.Errorf("%w: it is %v", cmfsm.ErrState, i.State)
	}
	return fmt.Errorf("%w: queue pair %#x is not one of this client", verbs.ErrInvalid, qpn)
}
