package integration_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/test/netns/impair"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// rates are the probabilities of each kind of fault on impaired links.
var rates = []float64{0.01, 0.05}

// TestImpaired runs every operation up to 1 MiB, both ways at once, over links
// that drop, duplicate and corrupt frames each way, and compares memory. With a
// local ACK timeout of 4 ms, and seven of them, a machine that has other things to do
// for a tenth of a second ends a connection, as it should: that is tried again.
func TestImpaired(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		for _, rate := range rates {
			name := fmt.Sprintf("link %d, rate %v", mtu, rate)
			t.Run(name, func(t *testing.T) {
				undisturbed(t, name, 1, func() string { return impaired(t, mtu, rate) })
			})
		}
	}
}

// impaired is one run of TestImpaired. It tells when connections have ended.
func impaired(t *testing.T, mtu int, rate float64) (ended string) {
	t.Helper()
	r := newRig(t, netns.PairOptions{MTU: mtu, Bridge: true, StaticNeighbors: true}, nil)
	o := verbstest.Options{BufferSize: 1<<20 + 4096, Timeout: 10}
	pairs := []*verbstest.Pair{r.pair(t, o), r.pair6(t, o).Reverse()}
	link := impair.ForTest(t, r.hosts, 1)
	must(t, link.SetBoth(impair.Rates{Drop: rate, Duplicate: rate, Corrupt: rate}))
	var wg sync.WaitGroup
	errs := make([]error, len(pairs))
	for i, p := range pairs {
		wg.Go(func() {
			for range soak(1, 20) {
				if errs[i] = p.Every(1, p.MTU.Bytes(), 50_000, 1<<20); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		var c *verbs.CompletionError
		if errors.As(err, &c) && c.Status == verbs.WCRetryExceeded {
			return fmt.Sprintf("%d and %d local ACK timeouts, %d and %d repetitions: %v",
				count(t, r.a, "local_ack_timeout_err"), count(t, r.b, "local_ack_timeout_err"),
				count(t, r.a, "completer_retry_err"), count(t, r.b, "completer_retry_err"), err)
		}
		t.Fatal(err)
	}
	for dir := range impair.FromB + 1 {
		c := impairments(t, link, dir)
		if c.Dropped == 0 || c.Duplicated == 0 || c.Corrupted == 0 {
			t.Errorf("direction %d: the link was too good: %+v", dir, c)
		}
	}
	a, c := counters(t, r.a), impairments(t, link, impair.FromA)
	if a["completer_retry_err"]+a["rcvd_seq_err"]+a["implied_nak"] == 0 {
		t.Error("nothing was sent again")
	}
	if b := count(t, r.b, "icrc_errors"); b == 0 {
		t.Error("no ICRC was found wrong")
	}
	t.Logf("from A: %+v; A was told of %d gaps, timed out or restarted %d times", c, a["rcvd_seq_err"], a["completer_retry_err"])
	return ""
}

func impairments(t *testing.T, l *impair.Link, dir impair.Direction) impair.Counts {
	t.Helper()
	c, err := l.Counts(dir)
	must(t, err)
	return c
}

// lossyLink is a link that only drops frames, both ways alike.
type lossyLink struct{ *impair.Link }

// loseFrames makes the hosts' link one that drops frames; so far it drops none.
func loseFrames(t *testing.T, hosts *netns.Pair) lossyLink {
	t.Helper()
	return lossyLink{impair.ForTest(t, hosts, 1)}
}

// set changes the share of frames that is dropped, 0 to 1.
func (l lossyLink) set(t *testing.T, share float64) {
	t.Helper()
	must(t, l.SetBoth(impair.Rates{Drop: share}))
}
