package transport

import "testing"

// Traces tell all states and kinds apart.
func TestReqNames(t *testing.T) {
	seen := map[string]bool{}
	for s := reqSending; s <= reqDead; s++ {
		seen[s.String()] = true
	}
	for k := kindNone; k <= kindFlush; k++ {
		seen[k.String()] = true
	}
	if want := int(reqDead) + int(kindFlush) + 2; len(seen) != want {
		t.Errorf("%d different names, want %d: %v", len(seen), want, seen)
	}
	if reqState(200).String() != "unknown state" || reqKind(200).String() != "unknown operation" {
		t.Error("values out of range have names")
	}
}
