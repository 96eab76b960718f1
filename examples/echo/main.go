// Command echo is a server that sends back what it is sent, and its client:
//
//	go run ./examples/echo eth0 10.0.0.1:7471 server
//	go run ./examples/echo eth0 10.0.0.1:7471 client "hello, RDMA"
//
// Both ends own their interface: run them as root, on two hosts or in two namespaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/verbs"
)

const maxMessage = 4096

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	server := len(args) == 3 && args[2] == "server"
	if !server && (len(args) != 4 || args[2] != "client") {
		return errors.New("usage: echo INTERFACE ADDRESS:PORT server, or echo INTERFACE ADDRESS:PORT client MESSAGE")
	}
	dev, err := open(args[0])
	if err != nil {
		return err
	}
	defer dev.Close() // frees everything below
	if server {
		return serve(ctx, dev, args[1], out)
	}
	return ask(ctx, dev, args[1], args[3], out)
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

// serve accepts connections until ctx ends, and serves each in a goroutine.
func serve(ctx context.Context, dev *verbs.Context, address string, out io.Writer) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	l, err := cm.Listen(dev, address, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(out, "listening on", l.Addr())
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		r, err := l.Request(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		clients.Go(func() {
			if err := client(ctx, pd, r); err != nil { // its failure, not ours
				fmt.Fprintln(os.Stderr, "echo:", err)
			}
		})
	}
}

// client serves one.
func client(ctx context.Context, pd *verbs.PD, r *cm.Request) error {
	mr, err := pd.RegisterMemory(make([]byte, maxMessage), verbs.AccessLocalWrite)
	if err != nil {
		return errors.Join(err, r.Reject(nil))
	}
	defer mr.Deregister()
	conn, err := r.AcceptWith(ctx, &cm.Config{PD: pd, Prepare: func(qp *verbs.QP) error {
		// The receive is there before the client can send.
		return qp.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, maxMessage)}})
	}})
	if err != nil {
		return err
	}
	defer conn.Close()
	echo(ctx, conn, mr)
	return nil
}

// echo sends back what comes, until the client disconnects.
func echo(ctx context.Context, conn *cm.Conn, mr *verbs.MR) {
	var wc [1]verbs.WC
	for {
		if _, err := conn.RecvCQ().Wait(ctx, wc[:]); err != nil || wc[0].Err() != nil {
			return // flushed: the connection has ended
		}
		if wc[0].Opcode != verbs.WCRecv {
			continue
		}
		// The receive for the next message comes first: its memory is used when the client has
		// this answer, and sends again.
		n := int(wc[0].ByteLen)
		if err := conn.QP().PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, maxMessage)}}); err != nil {
			return
		}
		err := conn.QP().PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, n)}})
		if err != nil {
			return
		}
	}
}

// ask sends a message and prints the answer.
func ask(ctx context.Context, dev *verbs.Context, address, message string, out io.Writer) error {
	if len(message) > maxMessage {
		return fmt.Errorf("the message has %d bytes, at most %d fit", len(message), maxMessage)
	}
	conn, err := cm.Dial(ctx, dev, address, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	mr, err := conn.PD().RegisterMemory(make([]byte, 2*maxMessage), verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	defer mr.Deregister()
	if err := conn.QP().PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(maxMessage, maxMessage)}}); err != nil {
		return err
	}
	n := copy(mr.Bytes(), message)
	err = conn.QP().PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, n)}})
	if err != nil {
		return err
	}
	var wc [1]verbs.WC
	for wc[0].Opcode != verbs.WCRecv { // the send completes, too
		if _, err := conn.RecvCQ().Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s\n", mr.Bytes()[maxMessage:maxMessage+int(wc[0].ByteLen)])
	return conn.Disconnect(ctx)
}
