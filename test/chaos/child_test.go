package chaos_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// stranger is the user as whom programs run. It is not the daemon's.
const stranger = 47110

// child is this test's binary as another process. It says lines: answers to what it is
// asked, and what it has to tell by itself.
type child struct {
	role    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers chan string
	told    chan string
	log     *tail
	ended   chan struct{} // closed when it has
	err     error         // of its end; for who has seen ended closed
}

// options of a child.
type options struct {
	ns   *netns.NS // nil: the test's own
	root bool      // not an ordinary user
	env  []string
}

// start starts a child, which ends with the test.
func start(t *testing.T, role string, o options) *child {
	t.Helper()
	c := &child{role: role, answers: make(chan string, 16), told: make(chan string, 1024), log: &tail{}, ended: make(chan struct{})}
	// By this name users find it who may not enter the directory of the binary.
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Env = append(append(os.Environ(), roleEnv+"="+role), o.env...)
	c.cmd.Dir, c.cmd.Stderr = "/", c.log
	if !o.root {
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	run := c.cmd.Start
	if o.ns != nil {
		run = func() error { return o.ns.Do(c.cmd.Start) }
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	go c.read(stdout)
	t.Cleanup(c.kill)
	return c
}

// read sorts what the child says until it has ended.
func (c *child) read(stdout io.Reader) {
	in := bufio.NewScanner(stdout)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		if answer, ok := strings.CutPrefix(line, "= "); ok {
			c.answers <- answer
			continue
		}
		select {
		case c.told <- strings.TrimPrefix(line, "! "):
		default: // a child that talks so much repeats itself
		}
	}
	c.err = c.cmd.Wait()
	close(c.ended)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the child as `kill -9` does, and returns when it has ended. Killing
// twice is fine.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// stop asks the child to end, which it has to do well.
func (c *child) stop(t *testing.T) {
	t.Helper()
	_ = c.stdin.Close()
	select {
	case <-c.ended:
		if c.err != nil {
			t.Fatalf("the %s ended with %v: %s", c.role, c.err, c.said())
		}
	case <-time.After(patience):
		c.dump()
		t.Fatalf("the %s did not end: %s", c.role, c.said())
	}
}

// said is what it has told and written that nobody has read yet.
func (c *child) said() string {
	var b strings.Builder
	for {
		select {
		case s := <-c.told:
			b.WriteString(s + "\n")
		default:
			return b.String() + c.log.String()
		}
	}
}

// ask has the child answer a question.
func (c *child) ask(t *testing.T, question string) string {
	t.Helper()
	_, err := io.WriteString(c.stdin, question+"\n")
	if err != nil {
		t.Fatalf("ask the %s for %s: %v: %s", c.role, question, err, c.said())
	}
	select {
	case a := <-c.answers:
		return a
	case <-c.ended:
		t.Fatalf("the %s ended with %v when it was asked for %s: %s", c.role, c.err, question, c.said())
	case <-time.After(patience):
		c.dump()
		t.Fatalf("the %s does not answer %s: %s", c.role, question, c.said())
	}
	return ""
}

// wait waits until the child tells a line that begins like this, and returns what
// follows. What it tells before is skipped.
func (c *child) wait(t *testing.T, prefix string) string {
	t.Helper()
	timeout := time.After(2 * patience)
	for {
		select {
		case line := <-c.told:
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(rest)
			}
		case <-c.ended:
			t.Fatalf("the %s ended with %v, waiting for %q: %s", c.role, c.err, prefix, c.said())
		case <-timeout:
			c.dump()
			t.Fatalf("the %s does not say %q: %s", c.role, prefix, c.said())
		}
	}
}

// alive fails the test if the child has ended.
func (c *child) alive(t *testing.T) {
	t.Helper()
	select {
	case <-c.ended:
		t.Fatalf("the %s ended with %v: %s", c.role, c.err, c.said())
	default:
	}
}

// tail keeps the beginning and the end of what is written.
type tail struct {
	mu   sync.Mutex
	head []byte
	end  []byte
}

const tailSize = 32 << 10

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(b)
	if room := tailSize - len(w.head); room > 0 {
		k := min(room, len(b))
		w.head = append(w.head, b[:k]...)
		b = b[k:]
	}
	if w.end = append(w.end, b...); len(w.end) > tailSize {
		w.end = append([]byte(nil), w.end[len(w.end)-tailSize:]...)
	}
	return n, nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%s%s", w.head, w.end)
}

// dump ends a program that hangs, which shows where.
func (c *child) dump() {
	_ = c.cmd.Process.Signal(syscall.SIGQUIT)
	<-c.ended
}
