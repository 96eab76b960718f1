package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// book is a log that can be read while it is written.
type book struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *book) log() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// lines are those that have all of the words.
func (b *book) lines(words ...string) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for line := range strings.Lines(b.buf.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		list = append(list, line)
	}
	return list
}

// leftOut is the sum of what a log says to have left out of a message.
func (b *book) leftOut(t testing.TB, msg string) (sum int) {
	t.Helper()
	for _, line := range b.lines(msg + ": lines left out") {
		var n int
		_, rest, _ := strings.Cut(line, " more=")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += n
	}
	return sum
}

func TestHush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		h := newHush(b.log())
		say := func(n int, uid int64, msg string) {
			for range n {
				h.say(b.log(), slog.LevelWarn, uid, msg)
			}
		}
		expect := func(when string, words []string, want int) {
			t.Helper()
			if got := b.lines(words...); len(got) != want {
				t.Errorf("%s: %d lines with %q, want %d: %v", when, len(got), words, want, got)
			}
		}
		say(1000, 7, "one")
		say(hushLines, 7, "another")
		say(hushLines+1, 8, "one")
		expect("of each kind and user the first", []string{"msg=one"}, 2*hushLines)
		expect("of each kind and user the first", []string{"msg=another"}, hushLines)
		expect("before its time", []string{"left out"}, 0)
		time.Sleep(hushTime)
		synctest.Wait()
		expect("in the end", []string{"one: lines left out", "uid=7", fmt.Sprintf("more=%d", 1000-hushLines), "level=WARN"}, 1)
		expect("in the end", []string{"one: lines left out", "uid=8", "more=1 "}, 1)
		expect("in the end", []string{"left out"}, 2)
		say(hushLines+5, 7, "one")
		expect("anew", []string{"msg=one"}, 3*hushLines)
		h.flush()
		h.flush()
		expect("at the end of the daemon", []string{"one: lines left out", "uid=7", "more=5 "}, 1)
		time.Sleep(2 * hushTime)
		synctest.Wait()
		expect("after it", []string{"left out"}, 3)
	})
}

func (h *hush) subjects() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.of)
}

// TestHushUsers: users without number are as one, and none of their lines goes without
// a trace.
func TestHushUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		h := newHush(b.log())
		const users = 5 * hushUsers
		for uid := range int64(users) {
			h.say(b.log(), slog.LevelWarn, uid, "one")
		}
		if n := len(b.lines("msg=one")); n != hushUsers+hushLines {
			t.Errorf("%d lines, want one of each of %d users and %d of the others", n, hushUsers, hushLines)
		}
		if n := h.subjects(); n > hushUsers+1 {
			t.Errorf("it remembers %d", n)
		}
		time.Sleep(hushTime)
		synctest.Wait()
		if n := b.leftOut(t, "one"); n != users-hushUsers-hushLines {
			t.Errorf("%d are said to be left out", n)
		}
		if n := h.subjects(); n != 0 {
			t.Errorf("it still remembers %d", n)
		}
	})
}

// TestNoFlood: a user who connects again and again, to be refused, to talk garbage or to
// open the device, leaves few lines, and the number of the others.
func TestNoFlood(t *testing.T) {
	const times = 5 * hushLines
	nobody := func(Cred) (Limits, error) { return Limits{}, errors.New("user 7 is in no group") }
	for _, tt := range []struct {
		name   string
		policy func(Cred) (Limits, error)
		msg    string
		do     func(t *testing.T, r *rig)
	}{
		{"refused", nobody, "client refused", func(t *testing.T, r *rig) {
			w := r.dial(t)
			w.refused(proto.StatusPermission, proto.OpHello, goodHello())
			w.close()
		}},
		{"garbage", nil, "client thrown out", func(t *testing.T, r *rig) {
			w := r.dial(t)
			if err := w.conn.Send([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil && !errors.Is(err, shm.ErrClosed) {
				t.Fatal(err)
			}
			w.ended()
		}},
		{"opened", nil, "device opened", func(t *testing.T, r *rig) { r.open(t).close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b book
			r := newRig(t, Config{Policy: tt.policy, Log: b.log()})
			for range times {
				tt.do(t, r)
			}
			waitFor(t, "the end of all clients", func() bool { return len(r.srv.of(nil)) == 0 })
			r.srv.hush.flush()
			lines := len(b.lines(tt.msg + `"`))
			if left := b.leftOut(t, tt.msg); lines+left != times || left == 0 {
				t.Errorf("%d lines and %d left out, of %d", lines, left, times)
			}
		})
	}
}
