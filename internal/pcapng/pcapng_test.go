package pcapng

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

var someTime = time.Unix(1_700_000_000, 123_456_789).UTC()

// somePackets have each thing that a packet may have, and have not.
var somePackets = []Packet{
	{Interface: 0, Time: someTime, Data: []byte("four"), Len: 4, Direction: Outbound, Comments: []string{"a", "four"}},
	{Interface: 1, Time: someTime.Add(1), Data: []byte("seven__"), Len: 1500, Direction: Inbound},
	{Interface: 1, Time: time.Unix(0, 0).UTC(), Data: []byte{}, Len: 0, Comments: []string{""}},
	{Interface: 0, Time: someTime.Add(time.Hour), Data: bytes.Repeat([]byte{7}, 4096), Len: 4096},
}

func write(t testing.TB, packets ...Packet) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"eth0", ""} {
		if n, err := w.AddInterface(name, LinkEthernet); err != nil || n != i {
			t.Fatalf("interface %d is %d, %v", i, n, err)
		}
	}
	for i := range packets {
		if err := w.Write(&packets[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// readAll reads up to the end, or the first error.
func readAll(file []byte) (all []Packet, r *Reader, err error) {
	if r, err = NewReader(bytes.NewReader(file)); err != nil {
		return nil, nil, err
	}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r, nil
		} else if err != nil {
			return all, r, err
		}
		all = append(all, p)
	}
}

func TestReadWhatWasWritten(t *testing.T) {
	got, r, err := readAll(write(t, somePackets...))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(somePackets, got); d != "" {
		t.Errorf("(-written +read):\n%s", d)
	}
	if d := cmp.Diff([]Interface{{"eth0", LinkEthernet}, {"", LinkEthernet}}, r.Interfaces()); d != "" {
		t.Error(d)
	}
}

// A file by hand: big-endian, one interface of 2^-10 s without a name, a block of
// a type that nobody knows, and a packet of 3 bytes at second 2 and a half.
const bigEndian = "\x0a\x0d\x0d\x0a\x00\x00\x00\x1c\x1a\x2b\x3c\x4d\x00\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x1c" +
	"\x00\x00\x00\x01\x00\x00\x00\x1c\x00\x71\x00\x00\x00\x00\x00\x00\x00\x09\x00\x01\x8a\x00\x00\x00\x00\x00\x00\x1c" +
	"\x00\x00\x0b\xad\x00\x00\x00\x10what\x00\x00\x00\x10" +
	"\x00\x00\x00\x06\x00\x00\x00\x24\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x03\x00\x00\x00\x40abc\x00\x00\x00\x00\x24"

func TestOtherByteOrder(t *testing.T) {
	want := []Packet{{Time: time.Unix(2, 500_000_000).UTC(), Data: []byte("abc"), Len: 64}}
	for name, file := range map[string]string{"once": bigEndian, "a section after another": string(write(t)) + bigEndian} {
		got, r, err := readAll([]byte(file))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" || r.Interfaces()[0].LinkType != 0x71 {
			t.Errorf("%s: %s, %+v", name, d, r.Interfaces())
		}
	}
}

func TestEveryTruncation(t *testing.T) {
	first := len(write(t)) // up to the first packet
	file := write(t, somePackets[0])
	for n := range file {
		_, _, err := readAll(file[:n])
		switch {
		case n < sectionLen && !errors.Is(err, ErrFormat):
			t.Errorf("%d bytes: %v, want ErrFormat", n, err)
		case n == sectionLen || n == sectionLen+blockLenOf(file, sectionLen) || n == first:
			if err != nil {
				t.Errorf("%d bytes, which are whole blocks: %v", n, err)
			}
		case n > sectionLen && !errors.Is(err, ErrCorrupt):
			t.Errorf("%d bytes: %v, want ErrCorrupt", n, err)
		}
	}
}

func blockLenOf(file []byte, at int) int { return int(le.Uint32(file[at+4:])) }

func TestRefusesDamage(t *testing.T) {
	ifAt := sectionLen
	packetAt := len(write(t))
	for _, c := range []struct {
		name string
		at   int
		put  string
		want error
	}{
		{"another format", 0, "\xd4\xc3\xb2\xa1", ErrFormat},
		{"byte order of nobody", 8, "\x00\x00\x00\x01", ErrFormat},
		{"major version 2", 12, "\x02\x00", ErrFormat},
		{"block without room for its lengths", ifAt + 4, "\x08\x00\x00\x00", ErrCorrupt},
		{"block that is too large", packetAt + 4, "\x04\x00\x10\x00", ErrCorrupt},
		{"block of an odd length", packetAt + 4, "\x2d\x00\x00\x00", ErrCorrupt},
		{"lengths differ", ifAt + blockLenOf(write(t), ifAt) - 4, "\x10\x00\x00\x00", ErrCorrupt},
		{"packet of an unknown interface", packetAt + 8, "\x02\x00\x00\x00", ErrCorrupt},
		{"packet with more data than its block", packetAt + 20, "\xff\xff\xff\xff", ErrCorrupt},
		{"option longer than its block", packetAt + 34, "\xff\xff", ErrCorrupt},
		{"unit of time too small", ifAt + 16 + 8 + 4, "\xff", ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := write(t, somePackets[0])
			copy(file[c.at:], c.put)
			if _, _, err := readAll(file); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	w, err := NewWriter(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddInterface("a", LinkEthernet); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Packet{
		"no such interface":   {Interface: 1, Time: someTime},
		"negative interface":  {Interface: -1, Time: someTime},
		"before 1970":         {Time: time.Unix(-1, 0)},
		"after 2262":          {Time: time.Unix(1<<40, 0)},
		"no such direction":   {Time: someTime, Direction: 3},
		"more than one block": {Time: someTime, Data: make([]byte, MaxBlock)},
	} {
		if err := w.Write(&p); !errors.Is(err, ErrPacket) {
			t.Errorf("%s: %v, want ErrPacket", name, err)
		}
	}
	if err := w.Write(&Packet{Time: someTime, Data: make([]byte, MaxBlock-packetLen-blockOverhead)}); err != nil {
		t.Errorf("the largest packet: %v", err)
	}
}

// The file's errors come back.
func TestWriteFails(t *testing.T) {
	r, w := io.Pipe()
	_ = r.Close()
	if _, err := NewWriter(w); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v, want that of the file", err)
	}
}

// Wireshark reads the same.
func TestTshark(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		netns.Missing(t, "tshark", "tshark is not installed")
	}
	file := filepath.Join(t.TempDir(), "some.pcapng")
	if err := os.WriteFile(file, write(t, somePackets...), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tshark", "-r", file, "-T", "fields", "-E", "separator=|", "-E", "aggregator=+", "-e", "frame.interface_name",
		"-e", "frame.time_epoch", "-e", "frame.cap_len", "-e", "frame.len", "-e", "frame.comment", "-e", "frame.packet_flags_direction")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	want := []string{
		"eth0|1700000000.123456789|4|4|a+four|0x00000002",
		"unknown|1700000000.123456790|7|1500||0x00000001",
		"unknown|0.000000000|0|0||",
		"eth0|1700003600.123456789|4096|4096||",
	}
	if d := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); d != "" {
		t.Errorf("(-want +tshark):\n%s\n%s", d, errs.String())
	}
}

// FuzzReader reads any bytes; what it makes of them can be written and read again.
func FuzzReader(f *testing.F) {
	f.Add([]byte(bigEndian))
	f.Add(write(f, somePackets[:3]...))
	f.Fuzz(func(t *testing.T, file []byte) {
		packets, r, err := readAll(file)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is neither ErrFormat nor ErrCorrupt", err)
			}
			return
		}
		var b bytes.Buffer
		w, err := NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		interfaces := len(r.Interfaces())
		for range interfaces {
			if _, err := w.AddInterface("", LinkEthernet); err != nil {
				t.Fatal(err)
			}
		}
		var wrote []Packet
		for _, p := range packets {
			if p.Len < len(p.Data) {
				p.Len = len(p.Data) // which a file may get wrong
			}
			if err := w.Write(&p); err == nil {
				wrote = append(wrote, p)
			} else if !errors.Is(err, ErrPacket) {
				t.Fatal(err)
			}
		}
		again, _, err := readAll(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(wrote, again); d != "" {
			t.Errorf("(-written +read):\n%s", d)
		}
	})
}
