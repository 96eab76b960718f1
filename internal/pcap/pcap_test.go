package pcap

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Two files by hand: one packet, at second 1 and 2 microseconds or nanoseconds.
var (
	littleMicro = "\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x01\x00\x00\x00" +
		"\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x40\x00\x00\x00abc"
	bigNano = "\xa1\xb2\x3c\x4d\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\xf0\x00\x00\x71" +
		"\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x03abc"
)

func TestReadAll(t *testing.T) {
	for _, c := range []struct {
		name, file string
		link       uint32
		want       []Packet
	}{
		{"little endian, microseconds, cut", littleMicro, LinkEthernet,
			[]Packet{{Time: time.Unix(1, 2000).UTC(), Data: []byte("abc"), Len: 64}}},
		{"big endian, nanoseconds, FCS bits", bigNano, 0x71,
			[]Packet{{Time: time.Unix(1, 2).UTC(), Data: []byte("abc"), Len: 3}}},
		{"no packets", littleMicro[:fileHeaderLen], LinkEthernet, nil},
		{"two packets", littleMicro + littleMicro[fileHeaderLen:], LinkEthernet, []Packet{
			{Time: time.Unix(1, 2000).UTC(), Data: []byte("abc"), Len: 64},
			{Time: time.Unix(1, 2000).UTC(), Data: []byte("abc"), Len: 64},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := NewReader(bytes.NewReader([]byte(c.file)))
			if err != nil {
				t.Fatal(err)
			}
			if r.LinkType != c.link {
				t.Errorf("link type %#x, want %#x", r.LinkType, c.link)
			}
			got, err := r.ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEveryTruncation(t *testing.T) {
	for n := range littleMicro {
		r, err := NewReader(bytes.NewReader([]byte(littleMicro[:n])))
		if n < fileHeaderLen {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%d bytes: header error %v, want ErrFormat", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		want := ErrCorrupt
		if n == fileHeaderLen {
			want = io.EOF
		}
		if _, err := r.Next(); !errors.Is(err, want) || errors.Is(err, io.EOF) != errors.Is(want, io.EOF) {
			t.Errorf("%d bytes: packet error %v, want %v", n, err, want)
		}
	}
}

func TestNotPcap(t *testing.T) {
	pcapng := append([]byte("\x0a\x0d\x0d\x0a"), make([]byte, 40)...)
	if _, err := NewReader(bytes.NewReader(pcapng)); !errors.Is(err, ErrFormat) {
		t.Errorf("error %v, want ErrFormat", err)
	}
}

func TestLengthIsBounded(t *testing.T) {
	file := []byte(littleMicro)
	copy(file[fileHeaderLen+8:], "\x01\x00\x04\x00") // MaxPacket + 1
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadAll(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
}
