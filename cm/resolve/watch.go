package resolve

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// settle is how long changes gather before they are looked at: one of a link
// brings many messages.
const settle = 20 * time.Millisecond

// Watcher follows ways to peers. Its methods are safe for concurrent use.
type Watcher struct {
	from   *Resolver
	socket *nl.NetlinkSocket
	look   chan struct{} // has an element when there is something to look at
	ended  sync.WaitGroup
	once   sync.Once
	done   chan struct{}

	mu   sync.Mutex
	ways map[*way]struct{}
}

// way is what is followed.
type way struct {
	req  verbs.ResolveRequest
	tell func(verbs.Resolution, error)
	last verbs.Resolution
	err  string // of last; empty: none
}

// NewWatcher follows changes in the namespace of the calling thread, which is to be
// that of r; it is closed before r.
func NewWatcher(r *Resolver) (*Watcher, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return nil, fmt.Errorf("watch routes and neighbours: %w", err)
	}
	w := &Watcher{from: r, socket: s, look: make(chan struct{}, 1), done: make(chan struct{}), ways: map[*way]struct{}{}}
	w.ended.Add(2)
	go w.listen()
	go w.follow()
	return w, nil
}

// Close ends all notifications; none comes after it. tell must not call it.
func (w *Watcher) Close() error {
	w.once.Do(func() { close(w.done); w.socket.Close() })
	w.ended.Wait()
	return nil
}

// Watch calls tell when the way to a peer is another one than last, or none any
// more: a route, an address, a link, an MTU or the link-layer address of the next
// hop has changed. An entry of the neighbour table that merely was forgotten is
// no change, one that failed is ErrNoNeighbour. tell is called by one goroutine for
// all ways, so that it must not block; stop ends that.
func (w *Watcher) Watch(req *verbs.ResolveRequest, last verbs.Resolution, tell func(verbs.Resolution, error)) (stop func()) {
	way := &way{req: *req, tell: tell, last: last}
	way.last.Neighbour = ""
	w.mu.Lock()
	w.ways[way] = struct{}{}
	w.mu.Unlock()
	w.want() // what happened since last was found
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.ways, way)
	}
}

func (w *Watcher) want() {
	select {
	case w.look <- struct{}{}:
	default: // it is wanted already
	}
}

// listen takes whatever the kernel tells as a sign to look, so that a message
// that was lost does no harm.
func (w *Watcher) listen() {
	defer w.ended.Done()
	for {
		_, _, err := w.socket.Receive()
		if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return // closed
		}
		w.want()
	}
}

// follow looks at all ways when something has changed.
func (w *Watcher) follow() {
	defer w.ended.Done()
	for {
		select {
		case <-w.look:
		case <-w.done:
			return
		}
		select {
		case <-time.After(settle):
		case <-w.done:
			return
		}
		w.mu.Lock()
		all := make([]*way, 0, len(w.ways))
		for way := range w.ways {
			all = append(all, way)
		}
		w.mu.Unlock()
		for _, way := range all {
			w.check(way)
		}
	}
}

// check compares a way with what it was.
func (w *Watcher) check(way *way) {
	now, err := w.from.Route(&way.req)
	failed := now.Neighbour == State(netlink.NUD_FAILED).String()
	now.Neighbour = ""
	says := ""
	switch {
	case errors.Is(err, ErrClosed):
		return
	case err == nil && failed:
		err = fmt.Errorf("%w: %s on %s does not answer any more", ErrNoNeighbour, now.NextHop, now.Interface)
	case err == nil && now.DstMAC == [6]byte{} && now.NextHop == way.last.NextHop && now.IfIndex == way.last.IfIndex:
		now.DstMAC = way.last.DstMAC
	}
	if err != nil {
		says = err.Error()
		now = way.last
	}
	now.SGIDIndex = way.last.SGIDIndex
	if now == way.last && says == way.err {
		return
	}
	way.last, way.err = now, says
	w.mu.Lock()
	_, wanted := w.ways[way]
	w.mu.Unlock()
	if wanted {
		way.tell(now, err)
	}
}
