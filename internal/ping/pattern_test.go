package ping

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestFill compares with what rping sends.
func TestFill(t *testing.T) {
	for _, tt := range []struct {
		name string
		k, n int
		want string
	}{
		{"default size", 0, 64, "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\x00"},
		{"one further", 1, 23, "rdma-ping-1: BCDEFGHIJ\x00"},
		{"last start", 57, 24, "rdma-ping-57: zABCDEFGH\x00"},
		{"first start again", 58, 24, "rdma-ping-58: ABCDEFGHI\x00"},
		{"largest count", 1<<31 - 2, 23, "rdma-ping-2147483646: \x00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := make([]byte, tt.n)
			fill(b, tt.k)
			if d := cmp.Diff(tt.want, string(b)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got, want := string(text(b)), strings.TrimSuffix(tt.want, "\x00"); got != want {
				t.Errorf("text %q, want %q", got, want)
			}
		})
	}
}

// TestFillHasOneNUL: a server of C copies up to the first NUL.
func TestFillHasOneNUL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, rapid.IntRange(MinSize, MaxSize).Draw(t, "size"))
		fill(b, rapid.IntRange(0, 1<<31-2).Draw(t, "round"))
		if at := strings.IndexByte(string(b), 0); at != len(b)-1 {
			t.Fatalf("NUL at %d of %d", at, len(b))
		}
	})
}

func TestMessage(t *testing.T) {
	m := buffer{addr: 0x0102030405060708, rkey: 0x090a0b0c, size: 0xd0e}
	want := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 13, 14}
	got := m.append(nil)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if back, err := parseBuffer(got); err != nil || back != m {
		t.Errorf("parsed %+v, %v", back, err)
	}
}

func TestMessageRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":     {},
		"short":     buffer{size: 64}.append(nil)[:15],
		"long":      append(buffer{size: 64}.append(nil), 0),
		"no bytes":  buffer{addr: 1}.append(nil),
		"too large": buffer{size: maxBuffer + 1}.append(nil),
	} {
		if _, err := parseBuffer(b); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := parseBuffer(buffer{size: maxBuffer}.append(nil)); err != nil {
		t.Errorf("largest: %v", err)
	}
}
