package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// TestNetnsCopy copies files of sizes around those of a WRITE to another host.
func TestNetnsCopy(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := pair.B.IPv4.String() + ":7471"
	from, to := t.TempDir(), t.TempDir()
	listening, served := netns.NewAwait("listening"), make(chan error, 1)
	go func() {
		served <- pair.B.NS.Do(func() error { return run(ctx, []string{pair.B.Ifname, address, "receive", to}, listening) })
	}()
	if err := listening.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	copyOf := func(name string) error {
		return pair.A.NS.Do(func() error {
			return run(ctx, []string{pair.A.Ifname, address, "send", filepath.Join(from, name)}, &strings.Builder{})
		})
	}
	for name, size := range map[string]int{
		"empty": 0, "byte": 1, "chunk": chunk, "more": chunk + 1, "many": (depth + 3) * chunk,
		strings.Repeat("n", maxName): 100,
	} {
		data := make([]byte, size)
		_, _ = random.Read(data)
		if err := os.WriteFile(filepath.Join(from, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := copyOf(name); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: the copy is another (%d bytes of %d), %v", name, len(got), size, err)
		}
	}
	if err := copyOf("byte"); !errors.Is(err, cm.ErrRejected) || !strings.Contains(err.Error(), "cannot be made") {
		t.Errorf("over a file that exists: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestWanted refuses names that lead elsewhere.
func TestWanted(t *testing.T) {
	request := func(name string, size uint64) []byte {
		return append(binary.BigEndian.AppendUint64(nil, size), append([]byte(name), make([]byte, maxName-len(name))...)...)
	}
	if name, size, err := wanted(request("a file", 7)); err != nil || name != "a file" || size != 7 {
		t.Errorf("%q, %d, %v", name, size, err)
	}
	for _, bad := range []string{"", ".", "..", "/etc/passwd", "../x", "a/b"} {
		if name, _, err := wanted(request(bad, 7)); err == nil {
			t.Errorf("%q is taken as %q", bad, name)
		}
	}
	if _, _, err := wanted(request("x", maxSize+1)); err == nil {
		t.Error("too large a file is taken")
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"eth0", "x", "send"}, {"eth0", "x", "get", "a"}} {
		if err := run(context.Background(), args, nil); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := run(context.Background(), []string{"nosuch0", ":1", "send", "a"}, nil); !errors.Is(err, datapath.ErrNoInterface) {
		t.Errorf("no interface: %v", err)
	}
}
