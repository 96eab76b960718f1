package simnet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

const us = time.Microsecond

// number is a frame that carries n.
func number(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// sendAll sends n numbered frames from an end, a microsecond apart.
func sendAll(l *Link, from End, n int) {
	for i := range n {
		l.Send(mono.Time(0).Add(time.Duration(i)*us), from, number(i))
	}
}

// drain lists all frames as "time to number".
func drain(l *Link) []string {
	var out []string
	for l.Next() != mono.Never {
		now := l.Next()
		to, frame, ok := l.Receive(now)
		if !ok {
			return append(out, "nothing at the announced time")
		}
		out = append(out, fmt.Sprintf("%v %v %x", now.Sub(0), to, frame))
	}
	return out
}

func TestGoodLink(t *testing.T) {
	l := NewLink(1, Conditions{Delay: 5 * us}, Conditions{Delay: 7 * us})
	l.Send(0, A, number(1))
	l.Send(mono.Time(0).Add(us), B, number(2))
	l.Send(mono.Time(0).Add(us), A, number(3))
	if n := l.InFlight(); n != 3 {
		t.Errorf("%d in flight", n)
	}
	if _, _, ok := l.Receive(mono.Time(0).Add(5*us - 1)); ok {
		t.Error("a frame came early")
	}
	want := []string{"5µs B 0000000000000001", "6µs B 0000000000000003", "8µs A 0000000000000002"}
	if diff := cmp.Diff(want, drain(l)); diff != "" {
		t.Error(diff)
	}
	if s := l.Stats(A); s != (Stats{Sent: 2, Delivered: 2}) {
		t.Errorf("from A: %+v", s)
	}
	if _, _, ok := l.Receive(mono.Never - 1); ok || l.Next() != mono.Never || l.InFlight() != 0 {
		t.Error("not empty")
	}
}

func TestSendCopies(t *testing.T) {
	l := NewLink(1, Conditions{Duplicate: 1}, Conditions{})
	frame := number(7)
	l.Send(0, A, frame)
	clear(frame)
	_, first, _ := l.Receive(0)
	if !bytes.Equal(first, number(7)) {
		t.Errorf("got %x", first)
	}
	clear(first)
	if _, second, ok := l.Receive(0); !ok || !bytes.Equal(second, number(7)) {
		t.Errorf("the copy is %x", second)
	}
}

// A frame that is not late overtakes no other.
func TestOrderIsKept(t *testing.T) {
	l := NewLink(3, Conditions{Delay: 50 * us, Drop: 0.2, Corrupt: 0}, Conditions{})
	for i := range 1000 {
		l.Send(0, A, number(i)) // all at one instant
	}
	last := -1
	for l.InFlight() > 0 {
		_, frame, _ := l.Receive(mono.Never - 1)
		n := int(binary.BigEndian.Uint64(frame))
		if n <= last {
			t.Fatalf("%d after %d", n, last)
		}
		last = n
	}
}

func TestSameSeedSameFate(t *testing.T) {
	bad := Conditions{Delay: us, Jitter: 20 * us, Drop: 0.1, Duplicate: 0.1, Reorder: 0.1, ReorderBy: 90 * us, Corrupt: 0.1}
	run := func(seed uint64, other int) []string {
		l := NewLink(seed, bad, bad)
		sendAll(l, B, other)
		sendAll(l, A, 300)
		return drain(l)
	}
	one := run(7, 100)
	if diff := cmp.Diff(one, run(7, 100)); diff != "" {
		t.Error(diff)
	}
	if slices.Equal(one, run(8, 100)) {
		t.Error("another seed made no difference")
	}
	// What B sends changes nothing for A's frames.
	toB := func(all []string) (out []string) {
		for _, s := range all {
			if bytes.Contains([]byte(s), []byte(" B ")) {
				out = append(out, s)
			}
		}
		return out
	}
	if diff := cmp.Diff(toB(one), toB(run(7, 0))); diff != "" {
		t.Error(diff)
	}
}

// Frequencies are within five standard deviations of the probabilities.
func TestProbabilities(t *testing.T) {
	const n = 20000
	c := Conditions{Drop: 0.1, Duplicate: 0.2, Reorder: 0.05, ReorderBy: us, Corrupt: 0.3}
	l := NewLink(11, c, Conditions{})
	sendAll(l, A, n)
	s := l.Stats(A)
	near := func(what string, got uint64, of, p float64) {
		want, dev := of*p, math.Sqrt(of*p*(1-p))
		if math.Abs(float64(got)-want) > 5*dev {
			t.Errorf("%s: %d of %.0f, want about %.0f", what, got, of, want)
		}
	}
	kept := float64(n - s.Dropped)
	near("dropped", s.Dropped, n, c.Drop)
	near("duplicated", s.Duplicated, kept, c.Duplicate)
	near("corrupted", s.Corrupted, kept, c.Corrupt)
	near("reordered", s.Reordered, 2*n, c.Reorder) // drawn for the copy as well
	if got, want := len(drain(l)), n-int(s.Dropped)+int(s.Duplicated); got != want || l.Stats(A).Delivered != uint64(want) {
		t.Errorf("%d delivered, want %d", got, want)
	}
}

func TestCorruptFlipsOneBit(t *testing.T) {
	l := NewLink(5, Conditions{Corrupt: 1, Duplicate: 1}, Conditions{})
	want := bytes.Repeat([]byte{0x5a}, 64)
	hit := map[int]bool{}
	for range 2000 {
		l.Send(0, A, want)
		_, first, _ := l.Receive(0)
		_, second, _ := l.Receive(0)
		if !bytes.Equal(first, second) {
			t.Fatal("the copy of a corrupted frame differs")
		}
		flips := 0
		for i := range want {
			if n := bits.OnesCount8(want[i] ^ first[i]); n > 0 {
				flips += n
				hit[i] = true
			}
		}
		if flips != 1 || len(first) != len(want) {
			t.Fatalf("%d bits flipped", flips)
		}
	}
	if len(hit) != len(want) {
		t.Errorf("%d of %d bytes were ever hit", len(hit), len(want))
	}
	l.Send(0, A, nil) // has no bit to flip
	if _, frame, ok := l.Receive(0); !ok || len(frame) != 0 {
		t.Errorf("an empty frame became %x", frame)
	}
}

func TestReorderAndJitterBounds(t *testing.T) {
	l := NewLink(9, Conditions{Delay: 10 * us, Jitter: 3 * us, Reorder: 0.5, ReorderBy: 100 * us}, Conditions{})
	sendAll(l, A, 500)
	last, newest, overtaken := mono.Time(0), -1, 0
	for l.InFlight() > 0 {
		now := l.Next()
		_, frame, _ := l.Receive(now)
		n := int(binary.BigEndian.Uint64(frame))
		if d := now.Sub(mono.Time(0).Add(time.Duration(n) * us)); d < 10*us || d > 113*us {
			t.Fatalf("frame %d took %v", n, d)
		}
		if now < last {
			t.Fatal("time went back")
		}
		if n < newest {
			overtaken++
		}
		last, newest = now, max(newest, n)
	}
	if overtaken == 0 {
		t.Error("no frame was overtaken")
	}
}

func TestConditionsChange(t *testing.T) {
	l := NewLink(2, Conditions{}, Conditions{})
	l.Send(0, A, number(1))
	l.SetConditions(A, Conditions{Drop: 1})
	l.Send(0, A, number(2))
	l.Send(0, B, number(3))
	l.SetConditions(A, Conditions{})
	l.Send(0, A, number(4))
	want := []string{"0s B 0000000000000001", "0s A 0000000000000003", "0s B 0000000000000004"}
	if diff := cmp.Diff(want, drain(l)); diff != "" {
		t.Error(diff)
	}
}

func TestEnds(t *testing.T) {
	if A.Other() != B || B.Other() != A || A.String() != "A" || B.String() != "B" {
		t.Error("ends are mixed up")
	}
}

func TestScript(t *testing.T) {
	l := NewLink(2, Conditions{Delay: us, ReorderBy: 10 * us}, Conditions{Drop: 1})
	l.Script = func(from End, n uint64, frame []byte) Fate {
		if !bytes.Equal(frame, number(int(n))) {
			t.Errorf("frame %d is %x", n, frame)
		}
		return map[End][]Fate{A: {Lose, Repeat, Delay, Chance}, B: {Chance, Repeat, Delay}}[from][n]
	}
	for i := range 4 {
		l.Send(0, A, number(i))
	}
	for i := range 3 {
		l.Send(0, B, number(i))
	}
	want := []string{
		"0s A 0000000000000001", "0s A 0000000000000001", "0s A 0000000000000002",
		"1µs B 0000000000000001", "1µs B 0000000000000001", "1µs B 0000000000000003", "11µs B 0000000000000002",
	}
	if diff := cmp.Diff(want, drain(l)); diff != "" {
		t.Error(diff)
	}
	if s := l.Stats(A); s != (Stats{Sent: 4, Dropped: 1, Duplicated: 1, Delivered: 4}) {
		t.Errorf("from A: %+v", s)
	}
}
