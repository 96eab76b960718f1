package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// bePoor opens devices with next to no descriptors or memory, and makes what it can
// get: it has to get an error in the end, and nothing worse.
func bePoor(ctx context.Context, a *answers) error {
	a.by(nil)
	kind, value, _ := strings.Cut(os.Getenv(moreEnv), " ")
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return err
	}
	resource := unix.RLIMIT_NOFILE
	if kind == "memory" {
		resource = unix.RLIMIT_AS
		if n, err = moreThanNow(n); err != nil {
			return err
		}
	}
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		return err
	}
	tell("poor: %v", spend(ctx))
	return nil
}

// moreThanNow is the size of the address space with n bytes more.
func moreThanNow(n uint64) (uint64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseUint(strings.Fields(string(b))[0], 10, 64)
	return pages*pageSize + n, err
}

// spend makes lives and objects until there is an error, which it returns.
func spend(ctx context.Context) error {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		a, b, err := openBoth()
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer func() { _, _ = a.Close(), b.Close() }()
		for range 20 {
			if _, err := verbstest.NewRCPair(a, b, verbstest.Options{BufferSize: 1 << r.IntN(20)}); err != nil {
				return fmt.Errorf("pair: %w", err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return errors.New("none: there was enough of everything")
}
