package serve

import (
	"fmt"
	"slices"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
)

// A worker that reads or writes a program's own memory waits in the kernel for pages
// that are not there. Usually that is short. But they may be those of a file system
// that does not answer, and everybody whom that worker serves waits with it; no signal
// ends such a wait. So somebody has to be told whose memory it is.

// hungAfter is how long an access has to last to count as hung: as long at least, and
// at most twice that.
const hungAfter = time.Second

// ownMemory is what a session knows of the accesses to its program's own memory.
type ownMemory struct {
	m    *datapath.ProcessMemory
	seen datapath.Accesses // those that were under way when they were last looked at
	hung bool
}

// watch looks after a session's memory from now on.
func (s *Server) watch(n *session, m *datapath.ProcessMemory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.own.m = m
	if !s.watching {
		s.watching = true
		time.AfterFunc(s.cfg.hungAfter, s.look)
	}
}

// look looks at the memory of all sessions, again and again as long as there is some.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = false
	for n := range s.sessions {
		if n.own.m != nil {
			n.lookAtMemory()
			s.watching = true
		}
	}
	if s.watching {
		time.AfterFunc(s.cfg.hungAfter, s.look)
	}
}

// lookAtMemory says when an access begins to be hung, and when that is over. The
// server's lock is held.
func (s *session) lookAtMemory() {
	now, o := s.own.m.Accesses(), &s.own
	hung := false
	for i, n := range now {
		hung = hung || n != 0 && n == o.seen[i]
	}
	o.seen = now
	switch {
	case hung && !o.hung:
		s.log.Error("a worker waits for memory of a program, and so do all whom it serves: end what provides that memory, such as a file system of its own; own_memory = false in the user's policy forbids such memory", "client", s.id)
	case !hung && o.hung:
		s.log.Warn("the memory of the program has answered", "client", s.id)
	}
	o.hung = hung
}

// Problems are what somebody has to mend, in words: the programs for whose memory a
// worker waits.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for n := range s.sessions {
		if n.own.hung {
			list = append(list, fmt.Sprintf("a worker waits for memory of client %d (%s, pid %d, uid %d)", n.id, n.comm, n.cred.PID, n.cred.UID))
		}
	}
	slices.Sort(list)
	return list
}
