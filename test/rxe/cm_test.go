package main

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Private data is compared to its last byte, with the zeros behind it.
func TestCarries(t *testing.T) {
	sent := withZeros("x", 50)
	if n := len(sent); n != 50 || sent[0] != 0 || sent[n/2] != 0 || sent[n-1] == 0 {
		t.Errorf("%x has no zeros at its begin and within, or one at its end", sent)
	}
	full := append(append([]byte{}, sent...), make([]byte, 6)...)
	for _, tt := range []struct {
		name string
		got  []byte
		ok   bool
	}{
		{"the same", full, true},
		{"without the zeros", sent, false},
		{"too long", append(append([]byte{}, full...), 0), false},
		{"something behind it", append(append([]byte{}, full[:55]...), 1), false},
		{"cut at the first zero", make([]byte, 56), false},
		{"none", nil, false},
	} {
		e := cmEvent{Private: hex.EncodeToString(tt.got)}
		if err := carries("REQ", tt.got, sent, 56); tt.ok != (err == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := e.carries("REQ", sent, 56); tt.ok != (err == nil) {
			t.Errorf("%s, of the guest: %v", tt.name, err)
		}
	}
	if err := (&cmEvent{Private: "0"}).carries("REQ", nil, 0); err == nil {
		t.Error("half a byte is taken")
	}
}

func TestRefused(t *testing.T) {
	private := make([]byte, cm.MaxRejectPrivate)
	for _, tt := range []struct {
		reason cm.RejectReason
		first  byte
		ok     bool
	}{{28, 0, true}, {8, 0, false}, {28, 1, false}} {
		got := append([]byte{tt.first}, private[1:]...)
		if err := rejectedWith(&cm.RejectedError{Reason: tt.reason, PrivateData: got}, cm.RejectByApplication, nil); tt.ok != (err == nil) {
			t.Errorf("%+v: %v", tt, err)
		}
		e := cmEvent{Status: int(tt.reason), Private: hex.EncodeToString(got)}
		if err := e.refused(cm.RejectByApplication, nil); tt.ok != (err == nil) {
			t.Errorf("%+v, of the guest: %v", tt, err)
		}
	}
	if err := rejectedWith(nil, cm.RejectByApplication, nil); err == nil {
		t.Error("success is taken for a refusal")
	}
}

// A transfer that is cut off: successes, one failure, and flushed requests.
func TestInterrupted(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  string
		says string // empty: as it should be
	}{
		{"in the middle", "..xff", ""},
		{"at once", "xfff", ""},
		{"flushed from here", "..fff", ""},
		{"not at all", ".....", "the peer did not die"},
		{"success after it", "..xf.", "request 4 ends with"},
		{"another failure", "..yff", "request 2 ends with"},
		{"two failures", "..xxf", "request 3 ends with"},
	} {
		var got []completion
		for _, c := range tt.got {
			status := map[rune]verbs.WCStatus{
				'.': verbs.WCSuccess, 'x': verbs.WCRetryExceeded, 'f': verbs.WCFlushed, 'y': verbs.WCLocalProtection,
			}[c]
			got = append(got, completion{Status: status})
		}
		err := interrupted(got, verbs.WCRetryExceeded, verbs.WCFlushed)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

// The most connections at a time are kept, whatever goes between.
func TestThrongCounts(t *testing.T) {
	var c throng
	for _, d := range []int{1, 1, 1, -1, -1, 1, -1, -1} {
		if d > 0 {
			c.rise()
		} else {
			c.up.Add(-1)
		}
	}
	if n := c.upMost.Load(); n != 3 {
		t.Errorf("%d at a time, want 3", n)
	}
}
