package proto

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
)

// bodies are all structures that travel, by name.
func bodies() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	add := func(v any) { all[reflect.TypeOf(v).Name()] = reflect.TypeOf(v) }
	for _, m := range Messages {
		add(m.Request)
		add(m.Reply)
	}
	add(Header{})
	add(Failure{})
	add(AsyncEvent{})
	add(CMEvent{})
	return all
}

// What Go writes without padding is what C has in memory.
func TestNoHiddenPadding(t *testing.T) {
	for name, typ := range bodies() {
		if got, want := binary.Size(reflect.Zero(typ).Interface()), int(typ.Size()); got != want {
			t.Errorf("%s is %d bytes on the wire and %d in memory", name, got, want)
		}
		if typ.Size()%8 != 0 && name != "Header" {
			t.Errorf("%s is %d bytes, not a multiple of 8", name, typ.Size())
		}
		if typ.Size()+HeaderSize > MaxMessage {
			t.Errorf("%s is %d bytes", name, typ.Size())
		}
	}
}

// Clearing what is called Pad is all that a sender need not think of.
func TestOnlyFixedSizes(t *testing.T) {
	for name, typ := range bodies() {
		if binary.Size(reflect.Zero(typ).Interface()) < 0 {
			t.Errorf("%s has a field without a fixed size", name)
		}
	}
}

func TestMessages(t *testing.T) {
	ops, names := map[Op]bool{}, map[string]bool{}
	last := Op(0)
	for _, m := range Messages {
		if ops[m.Op] || names[m.Name] || m.Op <= last {
			t.Errorf("%d %s: twice, or out of order", m.Op, m.Name)
		}
		ops[m.Op], names[m.Name], last = true, true, m.Op
		if m.Op.String() != m.Name || strings.ToUpper(m.Name) != m.Name {
			t.Errorf("%v is called %s", m.Op, m.Name)
		}
	}
	if got := Op(999).String(); got != "OP_999" {
		t.Error(got)
	}
}

func TestStatusNames(t *testing.T) {
	seen := map[string]bool{}
	for s, n := range statusNames {
		if seen[n] || s.String() != n {
			t.Errorf("status %d is %q", s, n)
		}
		seen[n] = true
	}
	if got := Status(777).String(); got != "STATUS_777" {
		t.Error(got)
	}
}

func TestTables(t *testing.T) {
	for _, tc := range []struct {
		name      string
		got, want int
	}{
		{"header", binary.Size(Header{}), HeaderSize},
		{"event", binary.Size(AsyncEvent{}), 16},
		{"span", binary.Size(Span{}), 24},
		{"gid entry", binary.Size(GIDEntry{}), 32},
	} {
		if tc.got != tc.want {
			t.Errorf("%s is %d bytes, want %d", tc.name, tc.got, tc.want)
		}
	}
}
