// Command write is the smallest program with RDMA in it: it opens an interface,
// connects two queue pairs of it with each other, and writes from one half of a
// buffer into the other. Run it as root, or with a daemon (roce-xdp run eth0):
// go run ./examples/write eth0
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "write: which interface? usage: write eth0")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func run(ifname string, out io.Writer) (err error) {
	defer caught(&err)
	dev := must(open(ifname)) // verbs.Open: of a daemon; or datapath.Open: of this program alone
	defer dev.Close()         // frees everything below

	pd := must(dev.AllocPD())
	buf := must(dev.AllocBuffer(4096)) // page-aligned, locked; any []byte does too
	mr := must(pd.RegisterMemory(buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite))
	cq := must(dev.CreateCQ(16))
	attr := &verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}
	a, b := must(pd.CreateQP(attr)), must(pd.CreateQP(attr))
	connect(dev, a, b)
	connect(dev, b, a)

	const message = "hello, RDMA"
	copy(buf, message)
	ok(a.PostSend(&verbs.SendWR{
		Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGList:     []verbs.SGE{mr.SGE(0, len(message))},
		RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey(), // what a peer would have told us
	}))
	var wc [1]verbs.WC
	must(cq.Wait(context.Background(), wc[:])) // or cq.Poll, which drives the device itself
	ok(wc[0].Err())
	fmt.Fprintf(out, "%s: %s\n", wc[0].Opcode, buf[2048:2048+len(message)])
	return nil
}

// open opens an interface: through the daemon that serves it (roce-xdp run), for which this
// program needs no privileges, or, where no daemon runs, as root and for itself alone.
func open(ifname string) (*verbs.Context, error) {
	dev, err := verbs.Open(ifname)
	if errors.Is(err, verbs.ErrNoDaemon) {
		return datapath.Open(ifname, nil)
	}
	return dev, err
}

// connect brings a queue pair to RTS, with peer at the other end.
func connect(dev *verbs.Context, qp, peer *verbs.QP) {
	gid := must(dev.DefaultGID())
	ok(qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, AccessFlags: verbs.AccessRemoteWrite},
		verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccessFlags))
	ok(qp.Modify(&verbs.QPAttr{
		State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: peer.Num(), MinRNRTimer: 12,
		AV: verbs.AddressVector{DGID: gid.GID, SGIDIndex: gid.Index, Port: 1},
	}, verbs.AttrState|verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|verbs.AttrRQPSN|
		verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer))
	ok(qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7},
		verbs.AttrState|verbs.AttrSQPSN|verbs.AttrTimeout|verbs.AttrRetryCnt|verbs.AttrRNRRetry|verbs.AttrMaxQPRDAtomic))
}
