package netns

import (
	"os/exec"
	"strings"
)

// IP runs commands of ip(8) in a namespace, each a line without the program's name.
func IP(t TB, ns *NS, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if out, err := exec.Command("ip", append([]string{"-n", ns.Name()}, strings.Fields(l)...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", l, err, out)
		}
	}
}
