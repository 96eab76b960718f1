package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"time"
)

// cmGuest is a process of the guest with ids of rdma_cm: a session of cm.py. Its
// current connection is a side of a trial.
type cmGuest struct{ *remote }

// portSpace is librdmacm's number of a port space.
type portSpace int

const (
	portSpaceTCP portSpace = 0x106
	portSpaceUDP portSpace = 0x111
)

// offer is what the guest offers with a request or an acceptance.
type offer struct {
	private          []byte
	resources, depth int
	retry            int
}

// cmEvent is an event of rdma_cm. Private data has the full length of its message.
type cmEvent struct {
	Event     string `json:"event"`
	Status    int    `json:"status"`
	Private   string `json:"private"`
	Resources int    `json:"resources"`
	Depth     int    `json:"depth"`
	Retry     int    `json:"retry"`
	RNR       int    `json:"rnr"`
	QPN       uint32 `json:"qpn"`
	QKey      uint32 `json:"qkey"`
}

// eventTime bounds the wait for an event of the guest: a request is sent again after
// 4.6 s, and an emulated CPU may stand still for longer than that.
const eventTime = 20 * time.Second

// dialCM begins a session with cm.py, which the first one starts.
func (b *bench) dialCM(ctx context.Context, f family) (*cmGuest, error) {
	if b.cm.stop == nil {
		var err error
		if b.cm.stop, err = b.serve("cm.py", guestCM); err != nil {
			return nil, err
		}
	}
	r, err := dialGuest(ctx, b.ns, f, guestCM)
	if err != nil {
		return nil, err
	}
	g := &cmGuest{r}
	return g, g.call("memory", fields{"size": regionLen, "addr": f.guest.String()}, 0, nil)
}

func (g *cmGuest) listen(f family, port uint16, ps portSpace) error {
	return g.call("listen", fields{"addr": f.guest.String(), "port": port, "ps": ps}, 0, nil)
}

// request sends a request for a connection to us.
func (g *cmGuest) request(f family, port uint16, ps portSpace, o offer) error {
	args := o.fields()
	args["addr"], args["port"], args["ps"] = f.ours.String(), port, ps
	return g.call("connect", args, eventTime, nil)
}

func (o offer) fields() fields {
	f := fields{"private": hex.EncodeToString(o.private), "resources": o.resources, "depth": o.depth}
	if o.retry > 0 {
		f["retry"] = o.retry
	}
	return f
}

func (g *cmGuest) accept(o offer) error { return g.call("accept", o.fields(), 0, nil) }

func (g *cmGuest) reject(private []byte) error {
	return g.call("reject", fields{"private": hex.EncodeToString(private)}, 0, nil)
}

func (g *cmGuest) disconnect() error { return g.call("disconnect", nil, 0, nil) }

// die ends the process by SIGKILL. There is no answer.
func (g *cmGuest) die() { _ = g.call("die", nil, 0, nil) }

// event demands the next event.
func (g *cmGuest) event(name string) (e cmEvent, err error) {
	var got *cmEvent
	if err := g.call("event", fields{"seconds": eventTime.Seconds()}, eventTime, &got); err != nil {
		return e, err
	}
	switch {
	case got == nil:
		return e, fmt.Errorf("the guest has no event %s within %v", name, eventTime)
	case got.Event != name:
		return e, fmt.Errorf("the guest's event is %s with status %d, want %s", got.Event, got.Status, name)
	}
	return *got, nil
}

// query is the state of the current connection's queue pair, and its path MTU as a code.
func (g *cmGuest) query() (state, mtu int, err error) {
	var q struct{ State, MTU int }
	err = g.call("query", nil, 0, &q)
	return q.State, q.MTU, err
}

// region is where the guest's memory is; there must be a queue pair.
func (g *cmGuest) region() (e endpoint, err error) {
	err = g.call("region", nil, 0, &e)
	return e, err
}

// carries demands the private data of a message: what was sent, and zeros up to size.
func carries(what string, got, sent []byte, size int) error {
	want := append(bytes.Clone(sent), make([]byte, size-len(sent))...)
	if !bytes.Equal(got, want) {
		return fmt.Errorf("private data of the %s is %x, want %x", what, got, want)
	}
	return nil
}

// carries is the same of an event of the guest.
func (e *cmEvent) carries(what string, sent []byte, size int) error {
	got, err := hex.DecodeString(e.Private)
	if err != nil {
		return err
	}
	return carries(what, got, sent, size)
}
