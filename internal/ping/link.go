package ping

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// kind is what a work request is, and its number.
type kind uint64

const (
	sending kind = iota
	receiving
	reading
	writing
	probing
	kinds
)

// link is one end of a connection.
type link struct {
	dev     *verbs.Context
	qp      *verbs.QP
	conn    *cm.Conn
	buffers [][]byte
	mrs     []*verbs.MR

	inbox   *verbs.MR // where messages arrive, one at a time
	message [messageLen]byte
	length  int         // of the message
	done    [kinds]bool // what has completed that nobody has awaited yet
	probed  bool        // a probe is under way
}

// depths of the queues: those of rping.
var depths = verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: messageLen}

// region makes memory of n bytes, and a region of it.
func (l *link) region(pd *verbs.PD, n int, access verbs.Access) (*verbs.MR, error) {
	buf, err := l.dev.AllocBuffer(n)
	if err != nil {
		return nil, err
	}
	l.buffers = append(l.buffers, buf)
	mr, err := pd.RegisterMemory(buf, access)
	if err != nil {
		return nil, err
	}
	l.mrs = append(l.mrs, mr)
	return mr, nil
}

// prepare posts the first receive, before the peer can send.
func (l *link) prepare(pd *verbs.PD, qp *verbs.QP) (err error) {
	l.qp = qp
	if l.inbox, err = l.region(pd, messageLen, verbs.AccessLocalWrite); err != nil {
		return err
	}
	return l.receive()
}

func (l *link) receive() error {
	return l.qp.PostRecv(&verbs.RecvWR{WRID: uint64(receiving), SGList: []verbs.SGE{l.inbox.SGE(0, messageLen)}})
}

// send sends a message.
func (l *link) send(m buffer) error {
	return l.qp.PostSend(&verbs.SendWR{
		WRID: uint64(sending), Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendInline,
		InlineData: m.append(make([]byte, 0, messageLen)),
	})
}

// move READs from the peer's memory to mr, or WRITEs to it from there, and waits.
func (l *link) move(ctx context.Context, op verbs.Opcode, as kind, mr *verbs.MR, m buffer) error {
	err := l.qp.PostSend(&verbs.SendWR{
		WRID: uint64(as), Opcode: op, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{mr.SGE(0, int(m.size))}, RemoteAddr: m.addr, RKey: m.rkey,
	})
	if err != nil {
		return l.why(err)
	}
	return l.await(ctx, as)
}

// await waits until the work request of a kind has completed.
func (l *link) await(ctx context.Context, want kind) error {
	for !l.done[want] {
		var wc [1]verbs.WC
		if _, err := l.conn.RecvCQ().Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return l.why(err)
		}
		if err := l.complete(&wc[0]); err != nil {
			return err
		}
	}
	l.done[want] = false
	return nil
}

// complete takes note of a completion.
func (l *link) complete(wc *verbs.WC) error {
	k := kind(wc.WRID)
	switch k {
	case probing:
		l.probed = false
		return nil
	case receiving:
		if l.done[receiving] {
			return fmt.Errorf("%w: two messages at a time", ErrProtocol)
		}
		l.length = copy(l.message[:], l.inbox.Bytes()[:wc.ByteLen])
		// The peer may send its next as soon as it has an answer to this one.
		if err := l.receive(); err != nil {
			return l.why(err)
		}
	case sending, reading, writing:
	}
	l.done[k] = true
	return nil
}

// awaitPeer waits for a message however long it takes, and every now and then sees
// whether the peer is still there: an empty WRITE needs no memory of it, as no key is
// looked at, and fails when nobody acknowledges it.
func (l *link) awaitPeer(ctx context.Context, every time.Duration) error {
	for {
		part, cancel := context.WithTimeout(ctx, every)
		err := l.await(part, receiving)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		if l.probed {
			continue
		}
		if err := l.qp.PostSend(&verbs.SendWR{WRID: uint64(probing), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled}); err != nil {
			return l.why(err)
		}
		l.probed = true
	}
}

// why is the reason of an error: that the connection has ended, if the error is only
// what comes of that.
func (l *link) why(err error) error {
	var failed *verbs.CompletionError
	flushed := errors.As(err, &failed) && failed.Status == verbs.WCFlushed
	if gone := l.conn.Err(); gone != nil && (flushed || errors.Is(err, verbs.ErrState)) {
		return gone
	}
	return err
}

// ending bounds how long a peer has to agree to the end of a connection.
const ending = time.Second

// hangUp ends the connection. That the peer does not answer is no failure any more.
func (l *link) hangUp() error {
	if l.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	_ = l.conn.Disconnect(ctx)
	return l.conn.Close()
}

// free frees the memory; the queue pair is gone.
func (l *link) free() error {
	var errs []error
	for _, mr := range l.mrs {
		errs = append(errs, mr.Deregister())
	}
	for _, b := range l.buffers {
		errs = append(errs, l.dev.FreeBuffer(b))
	}
	l.mrs, l.buffers = nil, nil
	return errors.Join(errs...)
}

// config is how both ends connect. Each READ or WRITE is waited for, so one at a time is
// enough; a C server has no more than it is offered.
func config(pd *verbs.PD, prepare func(*verbs.QP) error) cm.Config {
	return cm.Config{PD: pd, Cap: depths, Prepare: prepare, ResponderResources: 1, InitiatorDepth: 1}
}
