package resolve_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// asPeer makes a test of this program resolve the peer that it names.
const asPeer = "RESOLVE_TEST_PEER"

// Who has no privileges resolves peers that the kernel does not know yet, too.
func TestNetnsUnprivileged(t *testing.T) {
	if peer := os.Getenv(asPeer); peer != "" {
		r, err := resolve.New()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		res, err := r.Resolve(t.Context(), request(peer, "", ""))
		if err != nil || res.DstMAC == [6]byte{} {
			t.Fatalf("%+v, %v", res, err)
		}
		return
	}
	for _, tool := range []string{"nsenter", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			netns.Missing(t, "util-linux", err.Error())
		}
	}
	pair := netns.PairForTest(t, netns.PairOptions{})
	ip(t, pair.A.NS, "route add 198.51.100.0/24 via inet6 2001:db8::2")
	for _, peer := range []string{"192.0.2.2", "2001:db8::2", linkLocal(t, pair.B).String() + "%eth0", "198.51.100.1"} {
		ip(t, pair.A.NS, "neighbour flush dev eth0")
		cmd := exec.Command("nsenter", "--net="+pair.A.NS.Path(), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all",
			"/proc/self/fd/3", "-test.run=^TestNetnsUnprivileged$", "-test.v")
		self, err := os.Open(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{self}
		cmd.Dir, cmd.Env = "/", append(os.Environ(), asPeer+"="+peer)
		out, err := cmd.CombinedOutput()
		self.Close()
		if err != nil || !strings.Contains(string(out), "PASS: TestNetnsUnprivileged") {
			t.Errorf("%s: %v\n%s", peer, err, out)
		}
	}
}
