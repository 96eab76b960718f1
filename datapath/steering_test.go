package datapath

import (
	"errors"
	"slices"
	"testing"

	"github.com/roce-xdp/roce-xdp/bpf"
)

// operated is an XDP program that remembers what an operator did to it.
type operated struct {
	noSteering
	did []string
	err error
}

func (o *operated) SetUnknownQPN(a bpf.Action) error { return o.note("unknown_qpn " + a.String()) }
func (o *operated) SetNoSocket(a bpf.Action) error   { return o.note("no_socket " + a.String()) }
func (o *operated) Unpin() error                     { return o.note("unpin") }
func (o *operated) TookOver() bool                   { return true }
func (o *operated) Fallback() error                  { return o.err }

func (o *operated) note(what string) error {
	o.did = append(o.did, what)
	return o.err
}

func TestProgramOfAnOperator(t *testing.T) {
	o := &operated{}
	d := &Device{steer: o}
	if err := errors.Join(d.SetActions(bpf.ActionPass, bpf.ActionDrop), d.Unpin(), d.Fallback()); err != nil {
		t.Error(err)
	}
	if !d.TookOver() {
		t.Error("it took nothing over")
	}
	if want := []string{"unknown_qpn pass", "no_socket drop", "unpin"}; !slices.Equal(o.did, want) {
		t.Errorf("did %q, want %q", o.did, want)
	}
	o.err = errors.New("slow")
	if err := d.Fallback(); !errors.Is(err, o.err) {
		t.Errorf("fallback %v", err)
	}
	if err := d.SetActions(bpf.ActionPass, bpf.ActionPass); !errors.Is(err, o.err) {
		t.Errorf("set actions: %v", err)
	}
}

// A device without an interface has no program that could be changed.
func TestNoProgram(t *testing.T) {
	d := &Device{steer: noSteering{}}
	if err := d.SetActions(bpf.ActionPass, bpf.ActionPass); !errors.Is(err, ErrUnsupported) {
		t.Errorf("set actions: %v", err)
	}
	if err := d.Unpin(); !errors.Is(err, ErrUnsupported) {
		t.Errorf("unpin: %v", err)
	}
	if err := d.Fallback(); err != nil || d.TookOver() {
		t.Errorf("fallback %v, taken over %v", err, d.TookOver())
	}
}

func TestOptionsCheck(t *testing.T) {
	var none *Options
	if err := none.Check(); err != nil {
		t.Error(err)
	}
	if err := (&Options{Queues: maxWorkers}).Check(); err != nil {
		t.Error(err)
	}
	if err := (&Options{RingSize: 100}).Check(); !errors.Is(err, ErrConfig) {
		t.Errorf("a ring of 100: %v", err)
	}
}
