package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// How much is logged about a user: a program that connects in a loop, to be refused or
// thrown out each time, could fill the disk with it.
const (
	hushLines = 10               // of a kind
	hushTime  = 10 * time.Second // from the first of them on
	hushUsers = 1024             // with lines of a kind; others are as one
	anybody   = -1               // those others, and who cannot be told
)

// hush logs what users cause: of each user the first lines of a kind, and when their time
// is over one line that says how many more there were.
type hush struct {
	log *slog.Logger

	mu sync.Mutex
	of map[subject]*said
}

// subject is what is counted together: lines of a message about a user.
type subject struct {
	uid int64
	msg string
}

// said is what has been logged of a subject since its first line.
type said struct {
	level       slog.Level
	lines, more int
	end         *time.Timer
}

func newHush(log *slog.Logger) *hush { return &hush{log: log, of: map[subject]*said{}} }

// say logs to a user's log, or counts.
func (h *hush) say(log *slog.Logger, level slog.Level, uid int64, msg string, args ...any) {
	if h.admit(subject{uid, msg}, level) {
		log.Log(context.Background(), level, msg, args...)
	}
}

func (h *hush) admit(k subject, level slog.Level) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of[k]
	if s == nil && len(h.of) >= hushUsers {
		k.uid = anybody
		s = h.of[k]
	}
	if s == nil {
		s = &said{level: level}
		s.end = time.AfterFunc(hushTime, func() { h.tell(k, s) })
		h.of[k] = s
	}
	if s.lines == hushLines {
		s.more++
		return false
	}
	s.lines++
	return true
}

// tell says how many lines of a subject were left out, and begins anew with it.
func (h *hush) tell(k subject, s *said) {
	h.mu.Lock()
	if h.of[k] != s {
		h.mu.Unlock()
		return // told already
	}
	delete(h.of, k)
	more := s.more
	h.mu.Unlock()
	switch {
	case more == 0:
	case k.uid == anybody:
		h.log.Log(context.Background(), s.level, k.msg+": lines left out", "more", more, "within", hushTime)
	default:
		h.log.Log(context.Background(), s.level, k.msg+": lines left out", "uid", k.uid, "more", more, "within", hushTime)
	}
}

// flush tells at once what was left out so far.
func (h *hush) flush() {
	h.mu.Lock()
	all := make(map[subject]*said, len(h.of))
	for k, s := range h.of {
		s.end.Stop()
		all[k] = s
	}
	h.mu.Unlock()
	for k, s := range all {
		h.tell(k, s)
	}
}
