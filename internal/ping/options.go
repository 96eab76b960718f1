package ping

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Errors of this package; test with errors.Is. Those of cm, datapath and verbs come
// through.
var (
	// ErrOptions: no run is possible with the options.
	ErrOptions = errors.New("bad options")
	// ErrProtocol: the peer does not speak rping's protocol.
	ErrProtocol = errors.New("the other end is not an rping program")
	// ErrMismatch: what the server wrote is not what it read.
	ErrMismatch = errors.New("data mismatch")
	// ErrNoAnswer: the peer did not answer within Options.Timeout.
	ErrNoAnswer = errors.New("no answer")
)

// Limits of rping.
const (
	DefaultPort = 7174
	DefaultSize = 64
	MinSize     = 23 // room for the text and some data
	MaxSize     = 65535
)

// DefaultTimeout is how long an answer is waited for.
const DefaultTimeout = 5 * time.Second

// Options are those of rping. Defaults returns their values.
type Options struct {
	Open      func(ifname string) (*verbs.Context, error)
	Interface string // empty: the one that the addresses tell
	// Address is the server's, a name or an address, link-local ones with their zone;
	// for a server where it listens, "" and the unspecified ones being everywhere.
	Address    string
	Source     string // client: own address to come from; empty: any that fits
	Port       int
	Size       int  // client: bytes that go each way in a round
	Count      int  // client: rounds; 0: until ctx ends
	Verbose    bool // print the data
	Validate   bool // client: compare what came back
	Persistent bool // server: serve any number of clients, until ctx ends
	Debug      bool // say on Log how connections were made
	JSON       bool // print JSON; Verbose has no effect then
	// Timeout is how long the peer has to answer a request to connect, and each round.
	// A server looks as often whether a silent client is still there.
	Timeout   time.Duration
	Out       io.Writer                 // results
	Log       io.Writer                 // what goes wrong without ending a server, and Debug; nil: nowhere
	Listening func(addr netip.AddrPort) // called when a server waits for clients; may be nil
}

// Defaults are the values that rping has without options.
func Defaults() Options {
	return Options{Port: DefaultPort, Size: DefaultSize, Timeout: DefaultTimeout}
}

func (o *Options) check() error {
	for _, r := range []struct {
		name         string
		v, low, high int
	}{
		{"port (-p)", o.Port, 1, 65535},
		{"size (-S)", o.Size, MinSize, MaxSize},
		{"count (-C)", o.Count, 0, 1<<31 - 1},
	} {
		if r.v < r.low || r.v > r.high {
			return fmt.Errorf("%w: %s is %d: %d to %d are possible", ErrOptions, r.name, r.v, r.low, r.high)
		}
	}
	if o.Timeout <= 0 {
		return fmt.Errorf("%w: --timeout is %v: it must be more than 0", ErrOptions, o.Timeout)
	}
	return nil
}
