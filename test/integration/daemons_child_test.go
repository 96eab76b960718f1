package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/internal/daemon"
	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// What children do with daemons.
const (
	childDaemon  = "daemon"  // be `roce-xdp run eth0 --user nobody`, until SIGTERM
	childProgram = "program" // be a program at the daemons of two hosts
)

// dirsEnv names the runtime directories: a daemon's own, or those of two hosts.
const dirsEnv = "ROCE_XDP_INTEGRATION_DIRS"

// hostEnv is the address of the first host, to which programs connect.
const hostEnv = "ROCE_XDP_INTEGRATION_HOST"

// beDaemon is what the command run does.
func beDaemon() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	source := &config.Source{
		Env: os.LookupEnv, Interfaces: []string{netns.Ifname},
		Flags: map[string]string{"runtime-dir": os.Getenv(dirsEnv), "user": "nobody"},
	}
	d, err := daemon.Start(daemon.Params{
		Load: source.Load, NewService: daemon.Clients, Getenv: os.Getenv, Out: os.Stdout, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// beProgram is a client of both hosts' daemons, whose queue pairs are connected with
// each other: it moves data by every operation and compares memory.
func beProgram() (err error) {
	if os.Geteuid() == 0 {
		return errors.New("the program is privileged")
	}
	var dev [2]*verbs.Context
	for i, dir := range strings.Split(os.Getenv(dirsEnv), ":") {
		if err := os.Setenv(session.DirVariable, dir); err != nil {
			return err
		}
		if dev[i], err = verbs.Open(netns.Ifname); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dev[i].Close()) }()
	}
	for _, s := range []struct {
		name  string
		typ   verbs.QPType
		sizes []int
	}{
		{"RC", verbs.RC, []int{0, 1, 3, 4, 63, 64, 4095, 4096, 4097, 65536, 1 << 20}},
		{"XRC", verbs.XRCSend, []int{0, 1, 4097, 100_000}},
		{"UC", verbs.UC, []int{0, 1, 4095, 4096, 4097, 20_000}},
		{"UD", verbs.UD, []int{0, 1, 63, 4096}},
	} {
		if err := everyOperation(dev[0], dev[1], s.typ, s.sizes); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err := callAndAnswer(dev[0], dev[1]); err != nil {
		return fmt.Errorf("connection manager: %w", err)
	}
	return nil
}

// everyOperation runs the matrix both ways, and the keys that work requests bind.
func everyOperation(a, b *verbs.Context, typ verbs.QPType, sizes []int) (err error) {
	// Programs wait for their turn on a busy machine: a time-out of 1 s.
	p, err := verbstest.NewPair(typ, a, b, verbstest.Options{BufferSize: 1<<20 + 4096, Timeout: 18})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Every(sizes...); err != nil {
		return fmt.Errorf("A to B: %w", err)
	}
	if err := p.Reverse().Every(sizes...); err != nil {
		return fmt.Errorf("B to A: %w", err)
	}
	if typ != verbs.RC {
		return nil
	}
	return p.Keys(10_000)
}

// callAndAnswer listens at one host, connects from the other, and sends a message each way.
func callAndAnswer(a, b *verbs.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := cm.Listen(a, ":0", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	type accepted struct {
		conn *cm.Conn
		err  error
	}
	server := make(chan accepted, 1)
	go func() {
		c, err := l.Accept(ctx)
		server <- accepted{c, err}
	}()
	client, err := cm.Dial(ctx, b, fmt.Sprintf("%s:%d", os.Getenv(hostEnv), l.Addr().Port()), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	s := <-server
	if s.err != nil {
		return s.err
	}
	defer func() { err = errors.Join(err, s.conn.Close()) }()
	if err := message(ctx, client, s.conn); err != nil {
		return fmt.Errorf("client to server: %w", err)
	}
	if err := message(ctx, s.conn, client); err != nil {
		return fmt.Errorf("server to client: %w", err)
	}
	return client.Disconnect(ctx)
}

// message sends one from one end of a connection to the other, from and to memory of the
// program's own.
func message(ctx context.Context, from, to *cm.Conn) (err error) {
	const n = 5000
	src, err := from.PD().RegisterMemory(make([]byte, n), verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Deregister()) }()
	dst, err := to.PD().RegisterMemory(make([]byte, n), verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Deregister()) }()
	verbstest.Fill(src.Bytes(), uint64(from.QP().Num()))
	if err := to.QP().PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{dst.SGE(0, n)}}); err != nil {
		return err
	}
	if err := from.QP().PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{src.SGE(0, n)}}); err != nil {
		return err
	}
	for _, cq := range []*verbs.CQ{from.SendCQ(), to.RecvCQ()} {
		var wc [1]verbs.WC
		if _, err := cq.Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
	}
	if !bytes.Equal(src.Bytes(), dst.Bytes()) {
		return errors.New("another message arrived")
	}
	return nil
}
