// Command cp copies a file to another host: its memory is the file, which the sender
// writes into with RDMA WRITEs.
//
//	go run ./examples/cp eth0 10.0.0.1:7471 receive directory
//	go run ./examples/cp eth0 10.0.0.1:7471 send file
//
// The name and size are the private data of the request, where to write is that of the
// acceptance. The last WRITE has immediate data, which tells the receiver that all
// is there: the writes of a connection arrive in order. Run both as root.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/verbs"
)

const (
	chunk   = 1 << 20 // bytes of one WRITE
	depth   = 8       // of them outstanding
	maxSize = 4 << 30
	maxName = cm.MaxDialPrivate - 8
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 4 || args[2] != "send" && args[2] != "receive" {
		return errors.New("usage: cp INTERFACE ADDRESS:PORT receive DIRECTORY, or cp INTERFACE ADDRESS:PORT send FILE")
	}
	dev, err := open(args[0])
	if err != nil {
		return err
	}
	defer dev.Close()
	if args[2] == "send" {
		return send(ctx, dev, args[1], args[3])
	}
	return serve(ctx, dev, args[1], args[3], out)
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

// serve receives files into a directory until ctx ends.
func serve(ctx context.Context, dev *verbs.Context, address, dir string, out io.Writer) error {
	l, err := cm.Listen(dev, address, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(out, "listening on", l.Addr())
	var senders sync.WaitGroup
	defer senders.Wait()
	for {
		r, err := l.Request(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		senders.Go(func() {
			name, n, err := receive(ctx, dev, r, dir)
			if err != nil { // this sender's failure, not ours
				fmt.Fprintln(os.Stderr, "cp:", err)
				return
			}
			fmt.Fprintf(out, "%s: %d bytes\n", name, n)
		})
	}
}

// wanted is what a request asks for.
func wanted(private []byte) (name string, size uint64, err error) {
	size = binary.BigEndian.Uint64(private)
	name = strings.TrimRight(string(private[8:]), "\x00")
	if size > maxSize || name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return "", 0, fmt.Errorf("a file %q of %d bytes is not taken", name, size)
	}
	return name, size, nil
}

// receive has a sender write a file.
func receive(ctx context.Context, dev *verbs.Context, r *cm.Request, dir string) (name string, n uint64, err error) {
	name, n, err = wanted(r.PrivateData())
	if err != nil {
		return "", 0, errors.Join(err, r.Reject([]byte(err.Error())))
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", 0, errors.Join(err, r.Reject([]byte("the file cannot be made")))
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	memory, unmap, err := mapped(f, int64(n))
	if err != nil {
		return "", 0, errors.Join(err, r.Reject([]byte("there is no room for it")))
	}
	defer unmap()
	// In a domain of its own nobody but this sender reaches the region.
	pd, err := dev.AllocPD()
	if err != nil {
		return "", 0, errors.Join(err, r.Reject(nil))
	}
	defer pd.Dealloc()
	mr, err := pd.RegisterMemory(memory, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return "", 0, errors.Join(err, r.Reject(nil))
	}
	defer mr.Deregister()
	where := binary.BigEndian.AppendUint64(nil, mr.Addr())
	conn, err := r.AcceptWith(ctx, &cm.Config{
		PD: pd, PrivateData: binary.BigEndian.AppendUint32(where, mr.RKey()),
		Prepare: func(qp *verbs.QP) error {
			return qp.PostRecv(&verbs.RecvWR{}) // for the last WRITE, which puts nothing into it
		},
	})
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	var wc [1]verbs.WC
	if _, err := conn.RecvCQ().Wait(ctx, wc[:]); err != nil {
		return "", 0, err
	}
	return name, n, wc[0].Err()
}

// mapped makes a file of a size and maps it. One byte more than nothing is mapped.
func mapped(f *os.File, size int64) (b []byte, unmap func(), err error) {
	if err := f.Truncate(size); err != nil {
		return nil, nil, err
	}
	if size == 0 {
		return make([]byte, 1), func() {}, nil
	}
	b, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return b, func() { _ = syscall.Munmap(b) }, err
}

// send writes a file into the receiver's memory.
func send(ctx context.Context, dev *verbs.Context, address, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	if len(name) > maxName || len(data) > maxSize {
		return fmt.Errorf("%s: names have up to %d bytes, files up to %d", path, maxName, maxSize)
	}
	request := append(binary.BigEndian.AppendUint64(nil, uint64(len(data))), name...)
	conn, err := cm.Dial(ctx, dev, address, &cm.Config{PrivateData: request, Cap: verbs.QPCap{MaxSendWR: depth}})
	var refused *cm.RejectedError
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %s", err, strings.TrimRight(string(refused.PrivateData), "\x00"))
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	mr, err := conn.PD().RegisterMemory(append(data, 0), 0) // no region is empty
	if err != nil {
		return err
	}
	defer mr.Deregister()
	if err := write(ctx, conn, mr, len(data)); err != nil {
		return err
	}
	return conn.Disconnect(ctx)
}

// write keeps depth WRITEs outstanding.
func write(ctx context.Context, conn *cm.Conn, mr *verbs.MR, size int) error {
	where := conn.PrivateData()
	base, rkey := binary.BigEndian.Uint64(where), binary.BigEndian.Uint32(where[8:])
	chunks := max((size+chunk-1)/chunk, 1)
	var wcs [depth]verbs.WC
	for posted, done := 0, 0; done < chunks; {
		for ; posted < chunks && posted-done < depth; posted++ {
			at := posted * chunk
			n := min(chunk, size-at)
			wr := verbs.SendWR{
				Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(at, n)},
				RemoteAddr: base + uint64(at), RKey: rkey,
			}
			if posted == chunks-1 {
				wr.Opcode = verbs.OpRDMAWriteWithImm
			}
			if err := conn.QP().PostSend(&wr); err != nil {
				return err
			}
		}
		n, err := conn.SendCQ().Wait(ctx, wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := wcs[i].Err(); err != nil {
				return err
			}
		}
		done += n
	}
	return nil
}
