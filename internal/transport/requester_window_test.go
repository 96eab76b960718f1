package transport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

func TestReqWindow(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.window = 3 }, func(r *reqRig) {
		r.send(4 * reqMTU)
		r.send(1)
		// The last packet before the stop asks for an acknowledgement.
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B", "SEND_MIDDLE 2 256B A")
		r.stopped(reqWindow)
		r.expect()
		r.ack(0)
		r.expect("SEND_LAST 3 256B A")
		r.ack(2)
		r.expect("SEND_ONLY 4 1B A")
		r.ack(4)
		r.done("1 SUCCESS", "2 SUCCESS")
	})
}

// The driver may lower the window at any time.
func TestReqWindowShrinks(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.window = 4 }, func(r *reqRig) {
		for range 6 {
			r.send(1)
		}
		r.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 1B A", "SEND_ONLY 2 1B A", "SEND_ONLY 3 1B A")
		r.env.Window = 0 // counts as 1
		r.ack(2)
		r.expect()
		r.ack(3)
		r.expect("SEND_ONLY 4 1B A")
		r.stopped(reqWindow)
	})
}

func TestReqBatchRoom(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.batch = 2 }, func(r *reqRig) {
		r.send(3 * reqMTU)
		r.tx.Reset(2)
		if !r.qp.Poll(r.now, r.tx) {
			r.Error("Poll says that there is no more")
		}
	})
}

// Whoever polls by deadlines alone loses nothing: what can be sent is due at
// once.
func TestReqDueAtOnce(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.batch, c.window = 2, 4 }, func(r *reqRig) {
		due := func(when string) {
			r.Helper()
			if r.qp.NextDeadline() > r.now {
				r.Errorf("%s: Poll is not due", when)
			}
		}
		r.send(5 * reqMTU)
		due("RTS entered")
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B A")
		due("batch was full")
		r.expect("SEND_MIDDLE 2 256B", "SEND_MIDDLE 3 256B A")
		r.stopped(reqWindow)
		r.expect()
		r.deadline(4096 << 14)
		r.ack(0)
		due("window moved")
		r.expect("SEND_LAST 4 256B A")
		r.nak(1)
		due("repetition asked for")
	})
}

func TestReqAckInterval(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.window, c.batch = 200, 200 }, func(r *reqRig) {
		r.write(100 * reqMTU)
		var asks []int
		for i, s := range r.poll() {
			if strings.HasSuffix(s, " A") {
				asks = append(asks, i)
			}
		}
		if want := []int{31, 63, 95, 99}; !slices.Equal(asks, want) {
			t.Errorf("packets %v ask for an ACK, want %v", asks, want)
		}
	})
}

func TestReqAckRequestBeforeRoomEnds(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.batch = 3 }, func(r *reqRig) {
		r.write(5 * reqMTU)
		r.expect("WRITE_FIRST 0 [+0 1280] 256B", "WRITE_MIDDLE 1 256B", "WRITE_MIDDLE 2 256B A")
		r.expect("WRITE_MIDDLE 3 256B", "WRITE_LAST 4 256B A")
	})
}

// A batch whose list of pieces is used up takes no more packets instead of
// growing it.
func TestReqBatchPieces(t *testing.T) {
	c := reqDefaults()
	c.sge, c.batch = 32, 8
	r := newReqRig(t, c)
	tiny := make([]queue.SGE, 32)
	for i := range tiny {
		tiny[i] = r.sge(i*100, 1)
	}
	for range 6 {
		r.wr(ibv.WRSend, 32, tiny...)
	}
	limit := cap(r.tx.Pieces)
	for sent := 0; sent < 6; sent += len(r.tx.Intents) {
		if got := r.poll(); len(got) == 0 {
			t.Fatal("nothing sent")
		}
		if cap(r.tx.Pieces) != limit {
			t.Fatalf("list of pieces grew from %d to %d", limit, cap(r.tx.Pieces))
		}
	}
}

func TestReqReadCredit(t *testing.T) {
	for _, op := range []ibv.WROpcode{ibv.WRRDMARead, ibv.WRAtomicFetchAdd, ibv.WRAtomicCmpAndSwp, ibv.WRAtomicWrite} {
		t.Run(op.String(), func(t *testing.T) {
			reqEach(t, func(c *reqConfig) { c.rd = 2 }, func(r *reqRig) {
				for range 3 {
					r.wr(op, 8)
				}
				r.send(1) // behind the third, which waits
				if got := r.poll(); len(got) != 2 {
					r.Fatalf("sent %v", got)
				}
				r.stopped(reqCredit)
				switch op {
				case ibv.WRRDMARead:
					r.answer(0, 8, 0, 1)
				case ibv.WRAtomicWrite:
					r.answer(0, 0, 0, 1)
				default:
					r.atomicAck(0, 1)
				}
				if got := r.poll(); len(got) != 2 {
					r.Fatalf("sent %v after the first response", got)
				}
			})
		})
	}
}

func TestReqSendsBehindReads(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(2 * reqMTU)
		r.send(1)
		r.fadd()
		r.expect("READ_REQUEST 0 [+0 512] A", "SEND_ONLY 2 1B A", "FETCH_ADD 3 A")
	})
}

func TestReqFence(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		fenced := func(op ibv.WROpcode) {
			r.post(queue.SendWQE{Opcode: op, Flags: ibv.SendFence | ibv.SendSignaled, NumSGE: 1, Length: 8, RemoteAddr: reqVA}, r.sge(0, 8))
		}
		r.read(2 * reqMTU)
		r.fadd()
		r.send(1)
		fenced(ibv.WRSend)
		r.expect("READ_REQUEST 0 [+0 512] A", "FETCH_ADD 2 A", "SEND_ONLY 3 1B A")
		r.stopped(reqFence)
		r.answer(0, 2*reqMTU, 0, 2)
		r.expect()
		r.atomicAck(2, 0)
		fenced(ibv.WRRDMARead)
		fenced(ibv.WRSend)
		// SENDs do not hold a fence up; the fenced READ does.
		r.expect("SEND_ONLY 4 8B A", "READ_REQUEST 5 [+0 8] A")
		r.answer(5, 8, 0, 1)
		r.expect("SEND_ONLY 6 8B A")
		r.ack(6)
		r.done("1 SUCCESS 512B", "2 SUCCESS 8B", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS 8B", "6 SUCCESS")
	})
}

// A READ longer than the window goes as several READ requests, so that its
// responses cannot overrun the receive ring; the program sees one.
func TestReqReadInChunks(t *testing.T) {
	for _, c := range []struct {
		rd, window, chunk int
	}{{1, 8, 8}, {2, 8, 4}, {4, 8, 2}, {16, 8, 2}, {4, 1, 1}, {4, 3, 1}, {128, 64, 16}} {
		t.Run(fmt.Sprintf("rd %d window %d", c.rd, c.window), func(t *testing.T) {
			reqEach(t, func(k *reqConfig) { k.rd, k.window = uint8(c.rd), c.window }, func(r *reqRig) {
				const packets = 37
				const n = packets*reqMTU - 5
				r.wr(ibv.WRRDMARead, n, r.sge(1000, n))
				at := 0
				for served := 0; served < packets; {
					sent := r.poll()
					outstanding := 0
					for _, s := range sent {
						k := min(c.chunk, packets-at)
						bytes := min(k*reqMTU, n-at*reqMTU)
						if want := fmt.Sprintf("READ_REQUEST %d [+%d %d] A", at, at*reqMTU, bytes); s != want {
							t.Fatalf("sent %q, want %q", s, want)
						}
						at += k
					}
					if outstanding = at - served; outstanding > c.window {
						t.Fatalf("%d responses outstanding", outstanding)
					}
					if outstanding == 0 {
						t.Fatal("stuck")
					}
					end := min((served/c.chunk+1)*c.chunk, packets)
					r.serve(n, served, end)
					served = end
				}
				r.done(fmt.Sprintf("1 SUCCESS %dB", n))
				if string(r.local[1000:1000+n]) != string(reqRemote(n)) {
					t.Error("memory differs")
				}
			})
		})
	}
}

// serve answers one READ request for packets from to end of a READ of n bytes:
// the positions are those of that request.
func (r *reqRig) serve(n, from, end int) {
	bytes := min(end*reqMTU, n) - from*reqMTU
	data := reqRemote(n)[from*reqMTU:]
	for i := 0; i < end-from; i++ {
		r.resp(reqRespOp(i, end-from), from+i, data[i*reqMTU:min((i+1)*reqMTU, bytes)])
	}
}

// After a timeout a few packets ask where the peer is; the window grows back
// with the progress that they bring.
func TestReqWindowAfterTimeout(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.window, c.batch = 64, 128 }, func(r *reqRig) {
		sent := func(want int) {
			r.Helper()
			if got := len(r.poll()); got != want {
				r.Errorf("%d packets, want %d", got, want)
			}
		}
		r.send(100 * reqMTU)
		sent(64)
		r.pass(reqTimeout)
		sent(16)
		r.stopped(reqWindow)
		r.pass(2 * reqTimeout)
		sent(8)
		r.pass(4 * reqTimeout)
		sent(4)
		r.ack(3)
		sent(8)
		r.ack(11)
		sent(16)
		r.nak(20) // progress too
		sent(32)
		r.ack(51) // the window is whole again
		sent(48)
		r.ack(99)
		r.done("1 SUCCESS")
	})
}
