package main

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/perf"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

const (
	latencyRounds = 20000 // exchanges of one latency measurement
	rawFlood      = 300000
	linkMTU       = 9000 // carries the path MTU 4096
	small         = 64
)

// socketsPart is the name of the part that needs iperf3 and sockperf.
const socketsPart = "sockets"

// rawSizes are the payloads of the raw baseline.
var rawSizes = []int{64, 1024, 4096}

// measures collects one value of each quantity from each round.
type measures struct {
	values map[string]series
	units  map[string]string
	order  []string
	only   *regexp.Regexp // parts to measure
	apart  bool           // daemons in sessions of their own
}

func newMeasures() *measures {
	return &measures{values: map[string]series{}, units: map[string]string{}}
}

func (m *measures) add(name, unit string, v float64) {
	if _, ok := m.units[name]; !ok {
		m.units[name] = unit
		m.order = append(m.order, name)
	}
	m.values[name] = append(m.values[name], v)
}

func (m *measures) addTimes(name string, d []time.Duration) {
	p50, p99 := percentiles(d)
	m.add(name+"_p50", "us", us(p50))
	m.add(name+"_p99", "us", us(p99))
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// round measures everything once: raw AF_XDP, then RDMA, on one pair with XDP;
// TCP and UDP on a pair of their own without XDP, TCP also on one with XDP.
func (m *measures) round(ctx context.Context, secs float64) error {
	for _, part := range []struct {
		name string
		run  func(context.Context, *netns.Pair, float64) error
	}{
		{"raw AF_XDP", m.raw}, {"RDMA", m.rdma}, {"RDMA through daemons", m.throughDaemons}, {"many queue pairs", m.crowd}, {socketsPart, m.plain}, {socketsPart + " over XDP", m.overXDP},
	} {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		if !m.only.MatchString(part.name) {
			continue
		}
		p, err := netns.NewPair(netns.PairOptions{MTU: linkMTU, NoIPv6: true, StaticNeighbors: true})
		if err != nil {
			return err
		}
		err = part.run(ctx, p, secs)
		if cerr := p.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func (m *measures) raw(ctx context.Context, p *netns.Pair, secs float64) error {
	r, err := openRawPair(p)
	if err != nil {
		return err
	}
	defer r.close()
	deadline := time.Now().Add(time.Minute)
	for _, size := range rawSizes {
		rtt, kicks, err := r.pingPong(size, latencyRounds, deadline)
		if err != nil {
			return err
		}
		m.addTimes(fmt.Sprintf("raw_rtt_%d", size), rtt)
		m.add(fmt.Sprintf("raw_two_kicks_%d", size), "us", us(kicks))
		d, err := r.oneWay(size, rawFlood, rawBatch, deadline)
		if err != nil {
			return err
		}
		m.add(fmt.Sprintf("raw_rate_%d", size), "Mmsg/s", rawFlood/d.Seconds()/1e6)
		m.add(fmt.Sprintf("raw_bw_%d", size), "Gbit/s", float64(rawFlood*size*8)/d.Seconds()/1e9)
	}
	return ctx.Err()
}

func (m *measures) rdma(ctx context.Context, p *netns.Pair, secs float64) error {
	r, err := openRDMA(p)
	if err != nil {
		return err
	}
	err = m.verbs(ctx, r, time.Duration(secs*float64(time.Second)))
	if cerr := r.close(); err == nil {
		err = cerr
	}
	return err
}

func (m *measures) verbs(ctx context.Context, r *rdmaPair, d time.Duration) error {
	for _, op := range []perf.Op{perf.Write, perf.Send} {
		rtt, err := r.latency(ctx, op, small, latencyRounds)
		if err != nil {
			return err
		}
		m.addTimes(string(op)+"_rtt_64", rtt)
		for _, size := range []struct {
			name         string
			bytes, depth int
		}{{"64k", 64 << 10, 64}, {"1m", 1 << 20, 16}} {
			bps, _, err := r.bandwidth(ctx, op, size.bytes, size.depth, d)
			if err != nil {
				return err
			}
			m.add(fmt.Sprintf("%s_bw_%s", op, size.name), "Gbit/s", bps/1e9)
		}
		_, rate, err := r.bandwidth(ctx, op, small, 256, d)
		if err != nil {
			return err
		}
		m.add(string(op)+"_rate_64", "Mmsg/s", rate/1e6)
	}
	bps, _, err := r.bandwidth(ctx, perf.Read, 64<<10, 64, d)
	if err != nil {
		return err
	}
	m.add("read_bw_64k", "Gbit/s", bps/1e9)
	return nil
}

func (m *measures) plain(ctx context.Context, p *netns.Pair, secs float64) error {
	if err := m.tcp(ctx, p, secs, ""); err != nil {
		return err
	}
	for _, polling := range []bool{false, true} {
		p50, p99, err := sockperf(ctx, p, secs, false, polling)
		if err != nil {
			return err
		}
		name := "udp_rtt_blocking"
		if polling {
			name = "udp_rtt_polling"
		}
		m.add(name+"_p50", "us", us(p50))
		m.add(name+"_p99", "us", us(p99))
	}
	return nil
}

// overXDP measures TCP with the steering program and its sockets in place.
func (m *measures) overXDP(ctx context.Context, p *netns.Pair, secs float64) error {
	r, err := openRawPair(p)
	if err != nil {
		return err
	}
	defer r.close()
	return m.tcp(ctx, p, secs, "_xdp")
}

func (m *measures) tcp(ctx context.Context, p *netns.Pair, secs float64, suffix string) error {
	bps, err := iperf(ctx, p, secs)
	if err != nil {
		return err
	}
	m.add("tcp_bw"+suffix, "Gbit/s", bps/1e9)
	for _, polling := range []bool{false, true} {
		p50, p99, err := sockperf(ctx, p, secs, true, polling)
		if err != nil {
			return err
		}
		name := "tcp_rtt_blocking"
		if polling {
			name = "tcp_rtt_polling"
		}
		m.add(name+suffix+"_p50", "us", us(p50))
		m.add(name+suffix+"_p99", "us", us(p99))
	}
	return nil
}
