// What README.md says is run, as it says it.
package examples_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// commands are the lines of a document that are indented like code.
func commands(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			all = append(all, strings.TrimSuffix(command, "\n"))
		}
	}
	return all
}

// reader is somebody who types commands, and whose named namespaces are nobody else's.
type reader struct {
	ctx   context.Context
	mount string // namespace with a /run/netns of its own
	root  string // of the repository
	tmp   string // where mktemp makes directories
}

func newReader(t *testing.T) *reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c",
		"mkdir -p "+netns.Dir+" && mount -t tmpfs none "+netns.Dir+" && echo ready && read forever")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ready := netns.NewAwait("ready\n")
	cmd.Stdout = ready
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // read ends with an error
	})
	if err := ready.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return &reader{ctx: ctx, root: root, mount: "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/mnt", tmp: t.TempDir()}
}

// command is a line typed in the root of the repository, in a shell that prefix starts.
func (r *reader) command(line string, prefix ...string) *exec.Cmd {
	args := append([]string{"--mount=" + r.mount, "--wdns=" + r.root}, prefix...)
	cmd := exec.CommandContext(r.ctx, "nsenter", append(args, "bash", "-c", line)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

func (r *reader) run(t *testing.T, line string, prefix ...string) string {
	t.Helper()
	out, err := r.command(line, prefix...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// serve types the line of a server, and the next one on the other host while that runs. It
// returns what each has printed.
func (r *reader) serve(t *testing.T, server, client string, hosts [][]string) (served, asked string) {
	t.Helper()
	cmd := r.command(server, hosts[0]...)
	out := netns.NewAwait("listening on")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := out.Wait(r.ctx); err != nil {
		t.Fatalf("%s: %v: %s", server, err, out)
	}
	asked = r.run(t, client, hosts[1]...)
	// Ctrl-C is for all of a terminal's foreground.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	// go run is a failure itself when it is interrupted, and tells of one of the program.
	if err := cmd.Wait(); err != nil && (cmd.ProcessState.ExitCode() != 1 || strings.Contains(out.String(), "exit status")) {
		t.Errorf("%s: %v after Ctrl-C: %s", server, err, out)
	}
	return out.String(), asked
}

// example is the name of the example that a line runs, empty if it runs none.
func example(line string) string {
	rest, _ := strings.CutPrefix(line, "go run ./examples/")
	name, _, _ := strings.Cut(rest, " ")
	if rest == line {
		return ""
	}
	return name
}

// TestNetnsREADME types every command of the README in its order.
func TestNetnsREADME(t *testing.T) {
	netns.Require(t)
	license, err := os.ReadFile("../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // what each prints, of a client and server those of both
		"write": "RDMA_WRITE: hello, RDMA\n", "echo": "hello, RDMA\n", "kv": "red\n", "cp": "LICENSE: " + strconv.Itoa(len(license)) + " bytes\n",
	}
	r := newReader(t)
	var hosts [][]string // what starts a shell on each
	for lines := commands(t, "README.md"); len(lines) > 0; lines = lines[1:] {
		line, name := lines[0], example(lines[0])
		var out string
		switch shell, ok := strings.CutSuffix(line, " bash"); {
		case ok:
			hosts = append(hosts, strings.Fields(shell))
			continue
		case name == "":
			r.run(t, line)
			continue
		case len(hosts) != 2:
			t.Fatalf("%s comes before the two hosts", line)
		case len(lines) > 1 && example(lines[1]) == name:
			served, asked := r.serve(t, line, lines[1], hosts)
			out, lines = served+asked, lines[1:]
		default:
			out = r.run(t, line, hosts[0]...)
		}
		if text, ok := want[name]; !ok || !strings.HasSuffix(out, text) {
			t.Errorf("%s: printed %q, want %q at the end", line, out, text)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("the README does not run %s", name)
	}
	copies, err := filepath.Glob(filepath.Join(r.tmp, "*", "LICENSE"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("received %v, %v", copies, err)
	}
	if got, err := os.ReadFile(copies[0]); err != nil || !bytes.Equal(got, license) {
		t.Errorf("the copy has %d bytes, %v; the original %d", len(got), err, len(license))
	}
}
