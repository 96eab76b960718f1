package chaos_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// What the environment tells a child.
const (
	roleEnv = "ROCE_XDP_CHAOS_ROLE"
	dirAEnv = "ROCE_XDP_CHAOS_DIR_A" // runtime directories of the daemons
	dirBEnv = "ROCE_XDP_CHAOS_DIR_B"
	seedEnv = "ROCE_XDP_CHAOS_SEED"
	moreEnv = "ROCE_XDP_CHAOS_MORE" // what the role says
)

// part is what a child plays. It ends with the context, which does when the test
// wants it to.
type part func(ctx context.Context, answers *answers) error

var parts = map[string]part{
	"daemon":    beDaemon,
	"steady":    beSteady,
	"victim":    beVictim,
	"phoenix":   bePhoenix,
	"scribbler": beScribbler,
	"babbler":   beBabbler,
	"flooder":   beFlooder,
	"vanisher":  beVanisher,
	"poor":      bePoor,
	"listener":  beListener,
	"dialer":    beDialer,
}

// play runs a child, whose exit code it returns.
func play(name string) int {
	f := parts[name]
	if f == nil {
		fmt.Fprintln(os.Stderr, "no such role:", name)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := f(ctx, &answers{end: cancel}); err != nil {
		tell("fail: %v", err)
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// tell says a line to the test. It is one write, so that lines of goroutines do not
// mix.
func tell(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, "! "+format+"\n", args...)
}

// answers gives answers to what the test asks.
type answers struct {
	end context.CancelFunc
}

// by begins to answer with the functions of that name. The end of the questions is
// that of the child.
func (a *answers) by(to map[string]func() string) {
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			f := to[in.Text()]
			if f == nil {
				f = func() string { return "what?" }
			}
			fmt.Printf("= %s\n", f())
		}
		a.end()
		// Who cannot end says where it hangs.
		time.AfterFunc(patience/2, func() { panic("the child does not end") })
	}()
}

// seedOfChild is what the child makes its random choices with.
func seedOfChild() *rand.Rand {
	seed, _ := strconv.ParseUint(os.Getenv(seedEnv), 10, 64)
	return rand.New(rand.NewPCG(seed, 1))
}

// opening is held while the environment says whose device is opened.
var opening sync.Mutex

// openAt opens the device of the daemon of a directory.
func openAt(dir string) (*verbs.Context, error) {
	opening.Lock()
	defer opening.Unlock()
	if err := os.Setenv(session.DirVariable, dir); err != nil {
		return nil, err
	}
	return verbs.Open(netns.Ifname)
}

// openBoth opens the devices of both daemons.
func openBoth() (a, b *verbs.Context, err error) {
	if a, err = openAt(os.Getenv(dirAEnv)); err != nil {
		return nil, nil, err
	}
	if b, err = openAt(os.Getenv(dirBEnv)); err != nil {
		_ = a.Close()
		return nil, nil, err
	}
	return a, b, nil
}
