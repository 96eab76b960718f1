package transport_test

import (
	"math/rand/v2"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
)

// worldParams are what a simulation of several hosts is made of. All of it
// follows from the seed.
type worldParams struct {
	seed   uint64
	v6     bool
	hosts  []hostParams
	conns  []connParams
	faults []worldFault
	batch  int           // packets of one Poll
	pause  time.Duration // longest time between two turns of a program
	wrong  int           // one of so many requests cannot succeed; 0: none
	keys   bool          // programs bind and invalidate
	rated  bool          // ways have rates and queues
}

// hostParams are those of one host and of its ways to and from the switch.
type hostParams struct {
	window, keep, budget int
	srqDepth             int
	up, down             simnet.Conditions
}

// connParams are two queue pairs, of XRC four, that talk to each other.
type connParams struct {
	typ        ibv.QPType
	hosts      [2]int
	mtu        ibv.MTU
	firstPSN   [2]uint32
	ops        [2]int
	sqDepth    int
	rqDepth    int
	shared     [2]bool // receives come from the host's shared queue
	rdAtomic   uint8
	timeout    uint8
	rnrRetries uint8
}

// faultKind is something that a program, or the network, does meanwhile.
type faultKind int

const (
	faultDrain     faultKind = iota // a queue pair goes to SQD, and on when it has drained
	faultStop                       // a queue pair goes to ERR
	faultReset                      // a queue pair goes to RESET
	faultResizeCQ                   // a completion queue gets another ring
	faultResizeSRQ                  // a shared receive queue gets another ring
	faultOutage                     // nothing leaves a host for a while
	faultCut                        // nothing leaves a host any more
	faultKinds
)

// worldFault is a fault, when it happens and to whom: numbers are taken modulo
// what there is.
type worldFault struct {
	kind faultKind
	at   time.Duration
	host int
	n    int
	long time.Duration
}

func drawWorld(seed uint64) worldParams {
	rnd := rand.New(rand.NewPCG(seed, 10))
	pick := func(v ...int) int { return v[rnd.IntN(len(v))] }
	p := worldParams{
		seed:  seed,
		v6:    rnd.IntN(2) == 0,
		batch: pick(1, 2, 7, 32),
		pause: time.Duration(pick(1, 5, 20, 100)) * time.Microsecond,
		keys:  rnd.IntN(2) == 0,
		rated: rnd.IntN(4) == 0,
	}
	if rnd.IntN(4) == 0 {
		p.wrong = pick(10, 40)
	}
	level := []float64{0, 0, 0.001, 0.01, 0.05}[rnd.IntN(5)]
	for range 2 + rnd.IntN(3)*rnd.IntN(2) {
		p.hosts = append(p.hosts, hostParams{
			window: pick(1, 3, 16, 256, 256), keep: pick(0, 1, 5, 16), budget: pick(0, 0, 4, 32), srqDepth: pick(1, 4, 16),
			up: drawWay(rnd, level, p.rated), down: drawWay(rnd, level, p.rated),
		})
	}
	for range 1 + rnd.IntN(4) {
		p.conns = append(p.conns, drawConn(rnd, len(p.hosts), p.rated))
	}
	for range pick(0, 0, 1, 2, 4) {
		f := worldFault{
			kind: faultKind(rnd.IntN(int(faultKinds))), at: time.Duration(1<<rnd.IntN(11)) * time.Microsecond,
			host: rnd.IntN(len(p.hosts)), n: rnd.IntN(64), long: time.Duration(1+rnd.IntN(3000)) * time.Microsecond,
		}
		if f.kind == faultCut && rnd.IntN(2) == 0 {
			f.kind = faultOutage
		}
		p.faults = append(p.faults, f)
	}
	return p
}

// drawWay draws the conditions of one way: level is how bad it may be.
func drawWay(rnd *rand.Rand, level float64, rated bool) simnet.Conditions {
	some := func() float64 { return level * float64(rnd.IntN(2)) }
	c := simnet.Conditions{
		Delay:  time.Duration(1+rnd.IntN(10)) * time.Microsecond,
		Jitter: time.Duration(rnd.IntN(2)*rnd.IntN(2)) * time.Microsecond,
		Drop:   some(), Duplicate: some(), Reorder: some(), Corrupt: some(),
		ReorderBy: []time.Duration{time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, 2 * time.Millisecond}[rnd.IntN(4)],
	}
	if some() > 0 && rnd.IntN(2) == 0 {
		c.Burst = simnet.Burst{Begin: level / 4, End: 0.3, Drop: 0.7}
	}
	if rated {
		c.Rate = []int64{1e9, 10e9, 100e9}[rnd.IntN(3)]
		c.Queue = []int{0, 16 << 10, 128 << 10}[rnd.IntN(3)]
		c.Mark = simnet.Marking{Kmin: 4 << 10, Kmax: 16 << 10, Pmax: 0.2}
	}
	return c
}

func drawConn(rnd *rand.Rand, hosts int, rated bool) connParams {
	pick := func(v ...int) int { return v[rnd.IntN(len(v))] }
	types := []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeRC, ibv.QPTypeRC, ibv.QPTypeXRCSend, ibv.QPTypeUC, ibv.QPTypeUD}
	psns := []uint32{0, 1, 0xfffffe, 0xffffff, 0xfffff0, 0x7ffffe, 0x800000, rnd.Uint32()}
	a := rnd.IntN(hosts)
	c := connParams{
		typ:        types[rnd.IntN(len(types))],
		hosts:      [2]int{a, (a + 1 + rnd.IntN(hosts-1)) % hosts},
		mtu:        ibv.MTU(pick(1, 1, 1, 2, 2, 3, 4, 5)),
		rdAtomic:   uint8(pick(1, 2, 4, 16)),
		sqDepth:    pick(1, 4, 16),
		rqDepth:    pick(1, 4, 16),
		timeout:    uint8(pick(8, 9)),
		rnrRetries: uint8(pick(7, 7, 7, 1)),
	}
	if rated {
		c.timeout = 12
	}
	for i := range 2 {
		c.firstPSN[i], c.ops[i], c.shared[i] = psns[rnd.IntN(len(psns))], pick(0, 4, 12, 20), rnd.IntN(3) == 0
	}
	return c
}

// lossless reports whether the network delivers all frames in time, as long as no
// fault stops it.
func (p *worldParams) lossless() bool {
	for _, f := range p.faults {
		if f.kind == faultOutage || f.kind == faultCut {
			return false
		}
	}
	for i := range p.hosts {
		for _, c := range []*simnet.Conditions{&p.hosts[i].up, &p.hosts[i].down} {
			if c.Drop+c.Corrupt+c.Reorder+c.Burst.Begin != 0 || c.Queue != 0 {
				return false
			}
		}
	}
	return true
}

// ordered reports whether frames arrive in the order in which they were sent,
// none of them twice.
func (p *worldParams) ordered() bool {
	for i := range p.hosts {
		for _, c := range []*simnet.Conditions{&p.hosts[i].up, &p.hosts[i].down} {
			if c.Duplicate+c.Reorder != 0 || c.Jitter != 0 {
				return false
			}
		}
	}
	return true
}
