package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// guestAnswer bounds the wait for one answer of ops.py, besides the time that
// the request itself takes.
const guestAnswer = 20 * time.Second

// rxeName is the guest's end in the names of rows, ourName ours.
const rxeName, ourName = "rxe", "ours"

// remote is the guest's end: rxe0 behind ops.py.
type remote struct {
	conn net.Conn
	in   *bufio.Reader
}

// fields are the arguments of a request to ops.py.
type fields map[string]any

// dialGuest connects to ops.py, or another program like it.
func dialGuest(ctx context.Context, ns *netns.NS, f family, port string) (*remote, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	r := &remote{}
	err := ns.Do(func() (err error) {
		r.conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(f.guest.String(), port))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("port %s of the guest: %w", port, err)
	}
	r.in = bufio.NewReader(r.conn)
	return r, nil
}

// call has ops.py do something that may take up to the time extra longer than
// other requests. The result may be nil.
func (r *remote) call(do string, args fields, extra time.Duration, result any) error {
	if args == nil {
		args = fields{}
	}
	args["do"] = do
	line, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if err := r.conn.SetDeadline(time.Now().Add(guestAnswer + extra)); err != nil {
		return err
	}
	if _, err := r.conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w", do, err)
	}
	if line, err = r.in.ReadBytes('\n'); err != nil {
		return fmt.Errorf("%s: %w", do, err)
	}
	var a struct {
		OK    json.RawMessage `json:"ok"`
		Error string          `json:"error"`
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("%s: answer %q: %w", do, line, err)
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s", do, a.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.OK, result)
}

func (r *remote) name() string { return rxeName }

func (r *remote) open(p params) (e endpoint, err error) {
	err = r.call("open", fields{
		"gid": p.family.gidIndex, "mtu": p.mtu, "size": p.size, "psn": p.psn, "rd": rdAtomic,
		"timeout": p.timeout, "retry": p.retry, "rnr": p.rnr, "min_rnr": p.minRNR,
	}, 0, &e)
	return e, err
}

func (r *remote) connect(peer endpoint) error {
	gid := netip.AddrFrom16(peer.GID.As16()).StringExpanded()
	if peer.GID.Is4() {
		// pyverbs reads eight groups, no dotted ones.
		b := peer.GID.As4()
		gid = fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	}
	return r.call("connect", fields{"qpn": peer.QPN, "psn": peer.PSN, "gid": gid}, 0, nil)
}

func (r *remote) fill(off, n int, seed string) error {
	return r.call("fill", fields{"off": off, "n": n, "seed": seed}, 0, nil)
}

func (r *remote) set(off int, b []byte) error {
	return r.call("set", fields{"off": off, "data": hex.EncodeToString(b)}, 0, nil)
}

func (r *remote) sum(off, n int) (s string, err error) {
	err = r.call("sum", fields{"off": off, "n": n}, 0, &s)
	return s, err
}

func (r *remote) recv(id uint64, off, n int) error {
	return r.call("recv", fields{"id": id, "off": off, "n": n}, 0, nil)
}

func (r *remote) post(q request) error {
	return r.call("post", fields{
		"op": q.Op.String(), "id": q.ID, "off": q.Off, "n": q.N, "addr": q.Addr, "rkey": q.RKey,
		"imm": q.Imm, "cmp": q.Cmp, "swap": q.Swap, "level": q.Level,
	}, 0, nil)
}

func (r *remote) window(off, n int) (key uint32, err error) {
	err = r.call("window", fields{"off": off, "n": n}, 0, &key)
	return key, err
}

func (r *remote) state() (s verbs.QPState, err error) {
	err = r.call("state", nil, 0, &s)
	return s, err
}

func (r *remote) wait(n int, limit time.Duration) (wcs []completion, err error) {
	err = r.call("wait", fields{"n": n, "seconds": limit.Seconds()}, limit, &wcs)
	return wcs, err
}

func (r *remote) close() error { return r.conn.Close() }
