package transport_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/pcapng"
)

// worldCapture is a capture of a simulation, an interface for each host: each
// frame as it leaves and as it arrives, with what the programs did since the last
// one as comments.
type worldCapture struct {
	w     *pcapng.Writer
	hosts int
	notes [][]string // by host, since its last frame
	err   error
}

func newWorldCapture(file io.Writer, hosts int) *worldCapture {
	c := &worldCapture{hosts: hosts, notes: make([][]string, hosts)}
	c.w, c.err = pcapng.NewWriter(file)
	for i := range hosts {
		if c.err == nil {
			_, c.err = c.w.AddInterface(fmt.Sprint("host", i), pcapng.LinkEthernet)
		}
	}
	return c
}

func (c *worldCapture) note(at mono.Time, host int, text string) {
	c.notes[host] = append(c.notes[host], fmt.Sprintf("%v: %s", at.Sub(pairBegin), text))
}

func (c *worldCapture) frame(at mono.Time, host int, outbound bool, frame []byte) {
	p := pcapng.Packet{Interface: host, Time: captureTime(at), Data: frame, Direction: pcapng.Inbound, Comments: c.notes[host]}
	if outbound {
		p.Direction = pcapng.Outbound
	}
	c.notes[host] = nil
	if c.err == nil {
		c.err = c.w.Write(&p)
	}
}

// captureTime is simulated time as a capture has it: from the year 2000 on.
func captureTime(at mono.Time) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(at.Sub(pairBegin))
}

// end writes what the programs did after the last frame, with a frame without
// contents for each host.
func (c *worldCapture) end(at mono.Time, failure string) error {
	for i := range c.hosts {
		if failure != "" {
			c.note(at, i, failure)
		}
		if len(c.notes[i]) > 0 {
			c.frame(at, i, true, nil)
		}
	}
	return c.err
}

// captureFile makes the file for a simulation that has failed, where -artifacts
// says, or among temporary files; it stays there.
func captureFile(t *testing.T, seed uint64) *os.File {
	t.Helper()
	dir := ""
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		dir = t.ArtifactDir()
	}
	f, err := os.CreateTemp(dir, fmt.Sprintf("roce-xdp-%s-seed-%d-*.pcapng", filepath.Base(t.Name()), seed))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// howToReplay says where the capture of a failed simulation is, and how to run it
// alone.
func howToReplay(t *testing.T, seed uint64, capture string) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return fmt.Sprintf("frames and events: %s\nreplay: go test ./internal/transport -run '^%s$' -seed %d -v", capture, name, seed)
}

// eachSeed runs simulations, each a test of its own. One that fails runs again,
// recorded, and is the last.
func eachSeed(t *testing.T, prefix string, first, last uint64, run func(t *testing.T, seed uint64, rec worldRecorder)) {
	t.Helper()
	for seed := first; seed <= last; seed++ {
		ok := t.Run(fmt.Sprintf("%sseed=%d", prefix, seed), func(t *testing.T) { run(t, seed, traceOf(t)) })
		if ok {
			continue
		}
		f := captureFile(t, seed)
		c := newWorldCapture(f, 2)
		t.Run(fmt.Sprintf("%sseed=%d recorded", prefix, seed), func(t *testing.T) { run(t, seed, c) })
		if err := errors.Join(c.end(pairBegin, ""), f.Close()); err != nil {
			t.Error(err)
		}
		t.Fatal(howToReplay(t, seed, f.Name()))
	}
}

// The capture of a simulation has all its frames, twice but for those that got
// lost, and what the programs did.
func TestWorldCapture(t *testing.T) {
	var file bytes.Buffer
	p := drawWorld(3)
	c := newWorldCapture(&file, len(p.hosts))
	w, err := runWorld(p, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.end(w.now, "the end"); err != nil {
		t.Fatal(err)
	}
	r, err := pcapng.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	got := make([][3]uint64, len(p.hosts)) // by direction
	text, last := "", time.Time{}
	for {
		packet, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(packet.Data) > 0 {
			got[packet.Interface][packet.Direction]++
		}
		if packet.Time.Before(last) {
			t.Errorf("%v after %v", packet.Time, last)
		}
		last = packet.Time
		text += strings.Join(packet.Comments, "\n") + "\n"
	}
	for i, h := range w.hosts {
		if got[i] != [3]uint64{0, h.arrived, h.sent} || h.sent == 0 {
			t.Errorf("host %d: frames by direction %v, it has received %d and sent %d", i, got[i], h.arrived, h.sent)
		}
		for _, q := range h.qps {
			if n := strings.Count(text, fmt.Sprintf("QP %#x posts", q.qp.QPN())); n != len(q.ops) {
				t.Errorf("host %d: QP %#x posts something %d times, want %d", i, q.qp.QPN(), n, len(q.ops))
			}
		}
	}
	if strings.Count(text, "the end") != len(p.hosts) || !strings.Contains(text, "completes") {
		t.Errorf("the end, or all completions, are missing in:\n%s", text)
	}
}
