package netns_test

import (
	"context"
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

func TestAwait(t *testing.T) {
	a := netns.NewAwait("ready")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = a.Write([]byte("not yet: re"))
	if err := a.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("before the text: %v", err)
	}
	for _, s := range []string{"ady", " and ready again"} { // across writes, and more than once
		if n, err := a.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Errorf("after the text: %v", err)
	}
	if got := a.String(); got != "not yet: ready and ready again" {
		t.Errorf("output %q", got)
	}
}
