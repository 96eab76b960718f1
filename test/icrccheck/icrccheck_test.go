package icrccheck

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/pcap"
)

const data = "../../internal/wire/testdata"

// captures are all frames of the captures, by file.
func captures(t *testing.T) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob(data + "/vectors/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	all := map[string][][]byte{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := pcap.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		ps, err := r.ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range ps {
			all[filepath.Base(name)] = append(all[filepath.Base(name)], p.Data)
		}
	}
	return all
}

func TestCheckTable(t *testing.T) {
	if got := ^feed(0xFFFFFFFF, []byte("123456789")...); got != 0xCBF43926 {
		t.Errorf("CRC-32 of the check string is %#x, want 0xcbf43926", got)
	}
}

func TestCaptures(t *testing.T) {
	good, rxe := 0, map[string]int{}
	for name, frames := range captures(t) {
		for n, frame := range frames {
			switch err := Check(frame); {
			case err == nil:
				good++
			case errors.Is(err, ErrRXEFlush):
				rxe[name]++
			default:
				t.Errorf("%s, packet %d: %v", name, n+1, err)
			}
		}
	}
	if want := map[string]int{"rc-flush.pcap": 2}; good != 503 || !cmp.Equal(rxe, want) {
		t.Errorf("%d good, FLUSH of rxe %v; want 503, %v", good, rxe, want)
	}
}

func TestPublicPackets(t *testing.T) {
	files, err := filepath.Glob(data + "/public/*.hex")
	if err != nil || len(files) != 7 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(frame); err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
}

// Every bit of the IP packet counts, but for those that may change on the way.
func TestEveryBit(t *testing.T) {
	for _, c := range []struct {
		file  string
		l3    int
		loose map[int]byte // bytes from the IP header on that may change, and which bits
	}{
		{"rc-send.pcap", 14, map[int]byte{1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF, 26: 0xFF, 27: 0xFF, 32: 0xFF}},
		{"rc-send-v6.pcap", 14, map[int]byte{0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF, 52: 0xFF}},
	} {
		frame := captures(t)[c.file][2] // one byte of payload, three of pad
		for i := c.l3; i < len(frame); i++ {
			for bit := byte(1); bit != 0; bit <<= 1 {
				frame[i] ^= bit
				err := Check(frame)
				frame[i] ^= bit
				if may := c.loose[i-c.l3]&bit != 0; (err == nil) != may {
					t.Errorf("%s: byte %d from the IP header, bit %#02x changed: %v", c.file, i-c.l3, bit, err)
				}
			}
		}
	}
}

func TestNotRoCE(t *testing.T) {
	good := captures(t)["rc-send.pcap"][0]
	for n := range good {
		if err := Check(good[:n]); !errors.Is(err, ErrNotRoCE) {
			t.Errorf("first %d bytes: %v, want ErrNotRoCE", n, err)
		}
	}
	for _, c := range []struct {
		name string
		at   int
		to   byte
		want error
	}{
		{"ARP", 13, 6, ErrNotRoCE}, {"options", 14, 0x46, ErrNotRoCE}, {"fragment", 21, 1, ErrNotRoCE}, {"TCP", 23, 6, ErrNotRoCE},
		{"another port", 37, 0, ErrNotRoCE}, {"too short for an ICRC", 39, 8 + 12, ErrNotRoCE}, {"opcode", 42, 5, ErrMismatch},
	} {
		frame := bytes.Clone(good)
		frame[c.at] = c.to
		if err := Check(frame); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestTagsAndPadding(t *testing.T) {
	good := captures(t)["rc-send.pcap"][0]
	tagged := append(append(bytes.Clone(good[:12]), "\x88\xa8\x00\x05\x81\x00\x00\x06"...), good[12:]...)
	if err := Check(append(tagged, make([]byte, 8)...)); err != nil {
		t.Errorf("two tags, Ethernet padding: %v", err)
	}
}
