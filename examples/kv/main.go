// Command kv is a key-value store that its clients read without its CPU: a client
// fetches the slot of a key from the server's memory with an RDMA READ.
//
//	go run ./examples/kv eth0 10.0.0.1:7471 serve apple=red banana=yellow
//	go run ./examples/kv eth0 10.0.0.1:7471 get apple
//
// The table is open addressing over slots of fixed size. Where it is, how large, and
// the key to it are the private data of the server's acceptance, so that a client has
// all it needs when it is connected. Run both as root.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// A slot is: length of the key (0: free), length of the value, key, value.
const (
	slots    = 1024
	slotSize = 256
	keyAt    = 2
	valueAt  = 64
	maxKey   = valueAt - keyAt
	maxValue = slotSize - valueAt - 1
)

var errNoKey = errors.New("no such key")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	serving := len(args) >= 3 && args[2] == "serve"
	if !serving && (len(args) != 4 || args[2] != "get") {
		return errors.New("usage: kv INTERFACE ADDRESS:PORT serve [KEY=VALUE...], or kv INTERFACE ADDRESS:PORT get KEY")
	}
	dev, err := open(args[0])
	if err != nil {
		return err
	}
	defer dev.Close() // frees everything below
	if serving {
		return serve(ctx, dev, args[1], args[3:], out)
	}
	value, err := get(ctx, dev, args[1], args[3])
	if err == nil {
		fmt.Fprintln(out, value)
	}
	return err
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

// place is the slot at which the search for a key begins.
func place(key string, n uint32) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, key)
	return h.Sum32() % n
}

// put enters a key.
func put(table []byte, key, value string) error {
	if key == "" || len(key) > maxKey || len(value) > maxValue {
		return fmt.Errorf("%q: a key has 1 to %d bytes, a value up to %d", key, maxKey, maxValue)
	}
	first := place(key, slots)
	for i := range uint32(slots) {
		slot := table[(first+i)%slots*slotSize:][:slotSize]
		if slot[0] != 0 && !bytes.Equal(slot[keyAt:keyAt+slot[0]], []byte(key)) {
			continue
		}
		copy(slot[keyAt:], key)
		copy(slot[valueAt:], value)
		slot[0], slot[1] = uint8(len(key)), uint8(len(value))
		return nil
	}
	return errors.New("the table is full")
}

// serve fills the table and then only accepts connections: reading is the clients' and the
// device's business.
func serve(ctx context.Context, dev *verbs.Context, address string, pairs []string, out io.Writer) error {
	table, err := dev.AllocBuffer(slots * slotSize)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		if err := put(table, key, value); err != nil {
			return err
		}
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.RegisterMemory(table, verbs.AccessRemoteRead)
	if err != nil {
		return err
	}
	where := binary.BigEndian.AppendUint64(nil, mr.Addr())
	where = binary.BigEndian.AppendUint32(where, mr.RKey())
	where = binary.BigEndian.AppendUint32(where, slots)
	l, err := cm.Listen(dev, address, &cm.Config{PD: pd, PrivateData: where})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(out, "listening on", l.Addr())
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.Accept(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, cm.ErrRemoved):
			return err
		case err != nil: // this client's failure, not ours
			fmt.Fprintln(os.Stderr, "kv:", err)
			continue
		}
		clients.Go(func() {
			defer conn.Close()
			select {
			case <-conn.Done():
			case <-ctx.Done():
			}
		})
	}
}

// get reads slots until it finds the key, or a free one.
func get(ctx context.Context, dev *verbs.Context, address, key string) (string, error) {
	conn, err := cm.Dial(ctx, dev, address, nil)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	where := conn.PrivateData()
	base, rkey, n := binary.BigEndian.Uint64(where), binary.BigEndian.Uint32(where[8:]), binary.BigEndian.Uint32(where[12:])
	if n == 0 {
		return "", errors.New("the server is no kv")
	}
	slot := make([]byte, slotSize)
	mr, err := conn.PD().RegisterMemory(slot, verbs.AccessLocalWrite)
	if err != nil {
		return "", err
	}
	defer mr.Deregister()
	first := place(key, n)
	for i := range n {
		at := base + uint64((first+i)%n)*slotSize
		if err := read(ctx, conn, mr, at, rkey); err != nil {
			return "", err
		}
		if slot[0] == 0 {
			break
		}
		if bytes.Equal(slot[keyAt:keyAt+min(slot[0], maxKey)], []byte(key)) {
			return string(slot[valueAt : valueAt+min(slot[1], maxValue)]), nil
		}
	}
	return "", fmt.Errorf("%w: %q", errNoKey, key)
}

// read fetches a slot of the server's memory.
func read(ctx context.Context, conn *cm.Conn, mr *verbs.MR, at uint64, rkey uint32) error {
	err := conn.QP().PostSend(&verbs.SendWR{
		Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, slotSize)}, RemoteAddr: at, RKey: rkey,
	})
	if err != nil {
		return err
	}
	var wc [1]verbs.WC
	if _, err := conn.SendCQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	return wc[0].Err()
}
