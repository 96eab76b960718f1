package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

const (
	crowdSize   = 10_000 // connections
	crowdDepth  = 8      // messages outstanding on each of them
	singleDepth = 128    // and on one that is alone
)

// crowd measures how fast queue pairs are made, and the message rate over one and
// over all of them: a WRITE is posted as another one completes.
func (m *measures) crowd(ctx context.Context, p *netns.Pair, secs float64) error {
	r, err := openRDMA(p)
	if err != nil {
		return err
	}
	err = m.crowdOn(ctx, r, int(secs*400_000))
	if cerr := r.close(); err == nil {
		err = cerr
	}
	return err
}

func (m *measures) crowdOn(ctx context.Context, r *rdmaPair, messages int) (err error) {
	c, err := verbstest.NewCrowd(r.a, r.b, verbstest.CrowdOptions{
		Cap: verbs.QPCap{MaxSendWR: singleDepth, MaxRecvWR: 1}, Size: small, Limit: crowdSize, Entries: crowdSize * crowdDepth,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	begin := time.Now()
	if err := c.Connect(crowdSize); err != nil {
		return err
	}
	m.add("connect_rate", "kQP/s", 2*crowdSize/time.Since(begin).Seconds()/1e3)
	for _, of := range []struct {
		name        string
		qps, depth  int
		eachMessage int
	}{{"rate_1_qp", 1, singleDepth, messages}, {"rate_10000_qps", crowdSize, crowdDepth, max(1, messages/crowdSize)}} {
		begin := time.Now()
		if err := c.Run(ctx, verbs.OpRDMAWrite, 0, of.qps, of.eachMessage, of.depth, nil); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		m.add(of.name, "Mmsg/s", float64(of.qps*of.eachMessage)/time.Since(begin).Seconds()/1e6)
	}
	return nil
}
