package transport

import "testing"

func TestBelief(t *testing.T) {
	var b belief
	// occasions counts those until the next try.
	occasions := func() (n int) {
		for ; !b.try(); n++ {
			b.pass()
		}
		return n
	}
	for _, want := range []int{7, 35, 63, 63} {
		if !b.try() {
			t.Fatal("no try in the end")
		}
		b.no()
		if got := occasions(); got != want {
			t.Errorf("%d occasions until the next try, want %d", got, want)
		}
	}
	b.yes()
	for i := range maxTrust {
		if b.no(); !b.try() {
			t.Errorf("given up after %d failures", i+1)
		}
	}
	b.no()
	if got := occasions(); got != 7 {
		t.Errorf("%d occasions after a peer that did it once does not, want 7", got)
	}
	b.pass() // nothing to count
	if !b.try() {
		t.Error("no try")
	}
}
