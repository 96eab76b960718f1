package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// match is a packet that the bridge drops, once or each time.
type match struct {
	op      wire.Opcode
	psn     psn.PSN
	forever bool
}

// rule is the nftables ruleset that drops m on the bridge. Transport header bit
// 64 is the BTH's opcode, bit 136 its PSN.
func (m match) rule() string {
	var b strings.Builder
	b.WriteString("table bridge interop {\n chain c {\n  type filter hook forward priority 0; policy accept;\n")
	fmt.Fprintf(&b, "  udp dport 4791 @th,64,8 %#x @th,136,24 %#x ", uint8(m.op), uint32(m.psn))
	if !m.forever {
		b.WriteString("limit rate 1/hour burst 1 packets ")
	}
	b.WriteString("counter drop\n }\n}\n")
	return b.String()
}

// dropper loses packets on the rig's bridge.
type dropper struct {
	ctx context.Context
	r   *rig
	set bool
}

// add puts a rule in place.
func (d *dropper) add(rule string) error {
	cmd := d.r.host(d.ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rule)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	d.set = true
	return nil
}

var counted = regexp.MustCompile(`counter packets (\d+)`)

// packets is how many the rule has dropped.
func (d *dropper) packets() (int, error) {
	n, err := d.counts()
	if err != nil {
		return 0, err
	}
	if len(n) != 1 {
		return 0, fmt.Errorf("nft: %d counters, want one", len(n))
	}
	return n[0], nil
}

// counts are the values of all counters.
func (d *dropper) counts() ([]int, error) {
	out, err := d.r.host(d.ctx, "nft", "list", "table", "bridge", "interop").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("nft: %w: %s", err, out)
	}
	var all []int
	for _, m := range counted.FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func (d *dropper) clear() error {
	if !d.set {
		return nil
	}
	d.set = false
	return d.r.host(context.WithoutCancel(d.ctx), "nft", "delete", "table", "bridge", "interop").Run()
}

func (t *trial) drop(m match) {
	if t.err == nil {
		t.err = t.loss.add(m.rule())
	}
}

// dropped demands that the rule has lost a packet: a row that lost none proves
// nothing.
func (t *trial) dropped() {
	if t.err != nil {
		return
	}
	n, err := t.loss.packets()
	if err == nil && n == 0 {
		err = fmt.Errorf("the bridge dropped no packet")
	}
	t.err = err
}

// random is a rule that drops one RoCE packet in that many, of both directions.
func random(oneIn int) string {
	return fmt.Sprintf("table bridge interop {\n chain c {\n  type filter hook forward priority 0; policy accept;\n"+
		"  udp dport 4791 numgen random mod %d 0 counter drop\n }\n}\n", oneIn)
}

// burst are the requests of a loss row: four of lossLen bytes, on the way
// together. Each has lossPackets packets.
const (
	lossPackets = 3
	lossCount   = 4
)

func (t *trial) lossLen() int { return (lossPackets-1)*t.mtu + 500 }

// nth is the PSN of packet j of request i.
func nth(i, j int) psn.PSN { return psn.Of(requesterPSN).Add(i*lossPackets + j) }

// losses are rows that lose one packet of a burst.
var losses = []struct {
	name  string
	retry int // attempts
	run   func(t *trial)
}{
	{"WRITE_FIRST", 7, lossyWrite(wire.WriteFirst, nth(1, 0))},
	{"WRITE_MIDDLE", 7, lossyWrite(wire.WriteMiddle, nth(0, 1))},
	{"WRITE_LAST_OF_ALL", 7, lossyWrite(wire.WriteLast, nth(lossCount-1, lossPackets-1))},
	{"WRITE_LAST_ACK", 7, lossyWrite(wire.Acknowledge, nth(lossCount-1, lossPackets-1))},
	{"SEND_FIRST", 7, lossySend(wire.SendFirst, nth(0, 0))},
	{"SEND_MIDDLE", 7, lossySend(wire.SendMiddle, nth(2, 1))},
	{"READ_REQUEST", 7, lossyRead(wire.ReadRequest, nth(1, 0))},
	{"READ_RESPONSE_FIRST", 7, lossyRead(wire.ReadRespFirst, nth(0, 0))},
	{"READ_RESPONSE_MIDDLE", 7, lossyRead(wire.ReadRespMid, nth(1, 1))},
	{"READ_RESPONSE_LAST_OF_ALL", 7, lossyRead(wire.ReadRespLast, nth(lossCount-1, lossPackets-1))},
	{"ATOMIC_REQUEST", 7, lossyAtomic(wire.FetchAdd, requesterPSN)},
	{"ATOMIC_ACK", 7, lossyAtomic(wire.AtomicAck, requesterPSN)},
	{"ATOMIC_CMP_ACK", 7, lossySwap},
	{"ATOMIC_WRITE_REQUEST", 7, lossyAtomicWrite(wire.AtomicWrite)},
	{"ATOMIC_WRITE_ANSWER", 7, lossyAtomicWrite(wire.ReadRespOnly)},
	{"FLUSH_REQUEST", 7, lossyFlush(wire.Flush)},
	{"FLUSH_ANSWER", 2, lossyFlush(wire.ReadRespOnly)},
	{"RANDOM", 7, lossyRandom},
}

// spread gives request i of a burst its own piece of an area.
func (t *trial) spread(area, i int) int { return area + i*(t.lossLen()+11) }

func lossyWrite(op wire.Opcode, p psn.PSN) func(*trial) {
	return func(t *trial) {
		n := t.lossLen()
		var ids []uint64
		for i := range lossCount {
			t.fill(t.req, t.spread(source, i), n, fmt.Sprint("write ", i))
		}
		t.drop(match{op: op, psn: p})
		for i := range lossCount {
			ids = append(ids, t.post(request{Op: verbs.OpRDMAWrite, Off: t.spread(source, i), N: n, Addr: uint64(t.spread(target, i))}))
		}
		for i, id := range ids {
			t.completesAs(t.req, id, verbs.WCRDMAWrite)
			t.same(t.resp, t.spread(target, i), data(fmt.Sprint("write ", i), n))
		}
		t.dropped()
	}
}

func lossySend(op wire.Opcode, p psn.PSN) func(*trial) {
	return func(t *trial) {
		n := t.lossLen()
		var ids, rs []uint64
		for i := range lossCount {
			t.fill(t.req, t.spread(source, i), n, fmt.Sprint("send ", i))
			rs = append(rs, t.recvAt(t.spread(target, i), n))
		}
		t.drop(match{op: op, psn: p})
		for i := range lossCount {
			ids = append(ids, t.post(request{Op: verbs.OpSend, Off: t.spread(source, i), N: n}))
		}
		for i := range lossCount {
			t.completesAs(t.req, ids[i], verbs.WCSend)
			t.receives(rs[i], verbs.WCRecv, n, 0, 0)
			t.same(t.resp, t.spread(target, i), data(fmt.Sprint("send ", i), n))
		}
		t.quiet(t.resp)
		t.dropped()
	}
}

func lossyRead(op wire.Opcode, p psn.PSN) func(*trial) {
	return func(t *trial) {
		n := t.lossLen()
		var ids []uint64
		for i := range lossCount {
			t.fill(t.resp, t.spread(source, i), n, fmt.Sprint("read ", i))
		}
		t.drop(match{op: op, psn: p})
		for i := range lossCount {
			ids = append(ids, t.post(request{Op: verbs.OpRDMARead, Off: t.spread(target, i), N: n, Addr: uint64(t.spread(source, i))}))
		}
		for i, id := range ids {
			t.completesAs(t.req, id, verbs.WCRDMARead)
			t.same(t.req, t.spread(target, i), data(fmt.Sprint("read ", i), n))
		}
		t.dropped()
	}
}

// lossyAtomic adds twice; what is lost is asked for again and added once.
func lossyAtomic(op wire.Opcode, p psn.PSN) func(*trial) {
	return func(t *trial) {
		t.setWord(t.resp, 100)
		t.drop(match{op: op, psn: p})
		a := t.post(request{Op: verbs.OpAtomicFetchAdd, Off: target, N: 8, Addr: word, Cmp: 1})
		b := t.post(request{Op: verbs.OpAtomicFetchAdd, Off: target + 8, N: 8, Addr: word, Cmp: 10})
		t.completesAs(t.req, a, verbs.WCFetchAdd)
		t.completesAs(t.req, b, verbs.WCFetchAdd)
		t.sameWord(t.req, target, 100)
		t.sameWord(t.req, target+8, 101)
		t.sameWord(t.resp, word, 111)
		t.dropped()
	}
}

// lossySwap swaps twice and loses the first answer: were it executed again it
// would find what it has stored.
func lossySwap(t *trial) {
	t.setWord(t.resp, 1)
	t.drop(match{op: wire.AtomicAck, psn: requesterPSN})
	a := t.post(request{Op: verbs.OpAtomicCmpAndSwp, Off: target, N: 8, Addr: word, Cmp: 1, Swap: 2})
	b := t.post(request{Op: verbs.OpAtomicCmpAndSwp, Off: target + 8, N: 8, Addr: word, Cmp: 2, Swap: 1})
	t.completesAs(t.req, a, verbs.WCCompSwap)
	t.completesAs(t.req, b, verbs.WCCompSwap)
	t.sameWord(t.req, target, 1)
	t.sameWord(t.req, target+8, 2)
	t.sameWord(t.resp, word, 1)
	t.dropped()
}

// lossyAtomicWrite loses a request or its answer. rdma_rxe repeats the request
// with the address 0, which nothing is written to.
func lossyAtomicWrite(op wire.Opcode) func(*trial) {
	return func(t *trial) {
		const old, v = 0x1111111111111111, 0x0102030405060708
		t.setWord(t.resp, old)
		t.setWord(t.req, v)
		t.drop(match{op: op, psn: requesterPSN})
		id := t.post(request{Op: verbs.OpAtomicWrite, Off: word, N: 8, Addr: word})
		if op == wire.AtomicWrite && t.req.name() == rxeName {
			t.refused(id, verbs.WCRemoteAccess)
			t.sameWord(t.resp, word, old)
		} else {
			t.completesAs(t.req, id, verbs.WCAtomicWrite)
			t.sameWord(t.resp, word, v)
		}
		t.dropped()
	}
}

// lossyFlush loses a request or its answer. rdma_rxe repeats the request with the
// address 0, and does not answer one that it has executed before.
func lossyFlush(op wire.Opcode) func(*trial) {
	return func(t *trial) {
		const n = 200
		t.fill(t.req, source, n, "flushed")
		before := t.clear(t.resp, n)
		t.drop(match{op: op, psn: nth(0, 1)})
		w := t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: n, Addr: target})
		t.completesAs(t.req, w, verbs.WCRDMAWrite)
		f := t.post(request{Op: verbs.OpFlush, N: n, Addr: target})
		switch {
		case op == wire.Flush && t.req.name() == rxeName:
			t.refused(f, verbs.WCRemoteAccess)
		case op != wire.Flush && t.resp.name() == rxeName:
			t.completes(t.req, f, verbs.WCRetryExceeded)
			t.in(t.req, verbs.QPStateErr)
		default:
			t.completesAs(t.req, f, verbs.WCFlush)
		}
		t.placed(t.resp, before, "flushed")
		t.dropped()
	}
}

// A random loss row goes on until the bridge has lost this many packets, for which
// one in forty takes 120 on average. The most rounds that it runs have 7000 packets
// or more: nobody gets there by bad luck.
const (
	randomLosses    = 3
	leastRandom     = 4
	mostRandom      = 200
	randomMessage   = 40_000
	randomOneInThat = 40
)

// lossyRandom moves messages of many packets over a link that loses one packet
// in forty, each way.
func lossyRandom(t *trial) {
	if t.err == nil {
		t.err = t.loss.add(random(randomOneInThat))
	}
	for round := range mostRandom {
		send(verbs.OpSendWithImm)(t, randomMessage, fmt.Sprint("send ", round))
		write(verbs.OpRDMAWrite)(t, randomMessage, fmt.Sprint("write ", round))
		read(t, randomMessage, fmt.Sprint("read ", round))
		if t.err != nil {
			return
		}
		lost, err := t.loss.packets()
		if t.err = err; err != nil || round+1 >= leastRandom && lost >= randomLosses {
			return
		}
	}
	t.failf("the bridge did not drop %d packets in %d rounds", randomLosses, mostRandom)
}
