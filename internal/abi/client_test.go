package abi

import (
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A program in C sends a datagram through a daemon to a program in Go.
func TestClientInC(t *testing.T) {
	cc := compilers(t)[0]
	bin := filepath.Join(t.TempDir(), "client")
	out, err := exec.CommandContext(t.Context(), cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-I", filepath.Join(root, "include"), "-o", bin, "testdata/client.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	d := daemontest.Start(t, a, serve.Config{})
	p := verbstest.UDPair(t, b, b, verbstest.Options{})
	for round := range 3 { // a client that has come and gone leaves room for the next
		ok(t, p.A.Recv(1, 0, 200))
		text := fmt.Sprintf("hello from C, %d", round)
		gid := verbs.GID(datapathtest.IPv4[1].As16())
		out, err = exec.CommandContext(t.Context(), bin, session.SocketPath(d.Dir), "mem0", "0", hex.EncodeToString(gid[:]),
			fmt.Sprint(p.A.QP.Num()), fmt.Sprint(p.A.QKey), text).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		wc, err := p.A.Done(1, verbs.WCRecv)
		ok(t, err)
		got := string(p.A.Buf[verbs.GRHLen:wc.ByteLen])
		if got != text || wc.ByteLen != uint32(verbs.GRHLen+len(text)) {
			t.Errorf("%q arrived, want %q", got, text)
		}
	}
}
