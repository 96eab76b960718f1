package verbs_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMulticastReachesDevice(t *testing.T) {
	r := newRigOf(t, verbs.UD, verbs.QPStateReset, verbs.QPCap{})
	one, two := gidOf("::ffff:239.1.2.3"), gidOf("ff0e::1")
	for _, g := range []verbs.GID{one, two} {
		if err := r.qp.AttachMulticast(g); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.qp.DetachMulticast(one); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]verbs.GID{two}, r.fake().groups); d != "" {
		t.Error(d)
	}
	r.fake().refuse = errors.New("too many groups")
	var op *verbs.OpError
	if err := r.qp.AttachMulticast(one); !errors.Is(err, r.fake().refuse) || !errors.As(err, &op) || op.Obj != "qp 0x11" {
		t.Errorf("refused: %v", err)
	}
	if err := r.qp.DetachMulticast(one); !errors.Is(err, r.fake().refuse) {
		t.Errorf("refused: %v", err)
	}
	if err := r.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := r.qp.AttachMulticast(one); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("attach of a destroyed queue pair: %v", err)
	}
	if err := r.qp.DetachMulticast(two); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("detach of a destroyed queue pair: %v", err)
	}
}
