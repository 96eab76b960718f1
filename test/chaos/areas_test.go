package chaos_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// area is memory that this process shares with a daemon.
type area struct {
	start, n uint64
	inode    string // of its file, which no other has had
	writable bool
	name     string
}

// sharedAreas are all of them but those of before: /proc/self/maps tells, whatever the
// library that has mapped them thinks of it. Of a device that was closed, memory may be
// mapped until nobody can have it.
func sharedAreas(before map[area]bool) ([]area, error) {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var all []area
	for line := range strings.Lines(string(b)) {
		_, name, ok := strings.Cut(line, "/memfd:roce-xdp ")
		if !ok {
			continue
		}
		span, rest, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(span, "-")
		start, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return nil, err
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(rest)
		if len(fields) < 4 {
			return nil, fmt.Errorf("/proc/self/maps: %q", line)
		}
		a := area{start: start, n: end - start, inode: fields[3], writable: strings.HasPrefix(rest, "rw"), name: strings.TrimSpace(name)}
		if !a.writable || !before[a] { // states are the same file for all
			all = append(all, a)
		}
	}
	return all, nil
}

const pageSize = 4096

// pen writes where it likes in this process's memory. Through the file it needs no
// pointers that the language would not have.
type pen struct {
	mem *os.File
	r   *rand.Rand
	buf []byte
}

func newPen(r *rand.Rand) (*pen, error) {
	f, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	return &pen{mem: f, r: r}, err
}

// put writes b at an address. What is not mapped any more is not there to be
// spoilt.
func (p *pen) put(at uint64, b []byte) { _, _ = p.mem.WriteAt(b, int64(at)) }

func (p *pen) noise(n int) []byte {
	if len(p.buf) < n {
		p.buf = make([]byte, n)
	}
	b := p.buf[:n]
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], p.r.Uint64())
	}
	return b
}

// whole writes random bytes everywhere.
func (p *pen) whole(a area) { p.put(a.start, p.noise(int(a.n))) }

// ones sets every bit: doorbells that all ring, indices that cannot be.
func (p *pen) ones(a area) {
	b := p.noise(int(a.n))
	for i := range b {
		b[i] = 0xff
	}
	p.put(a.start, b)
}

// words writes a few random words to each page.
func (p *pen) words(a area) {
	for page := uint64(0); page < a.n; page += pageSize {
		for range 4 {
			p.put(a.start+page+uint64(4*p.r.IntN(pageSize/4)), p.noise(8)[:4])
		}
	}
}

// small writes small numbers where indices and lengths are: those that pass the first
// look.
func (p *pen) small(a area) {
	var b [4]byte
	for page := uint64(0); page < a.n; page += pageSize {
		for at := page; at < page+pageSize; at += 64 {
			if p.r.IntN(4) == 0 {
				binary.LittleEndian.PutUint32(b[:], uint32(p.r.IntN(70)))
				p.put(a.start+at+uint64(4*p.r.IntN(16)), b[:])
			}
		}
	}
}

// shuffle copies parts of each page to elsewhere in the area: work requests that
// were good, in another's place.
func (p *pen) shuffle(a area) {
	b := p.noise(128)
	for page := uint64(0); page < a.n; page += pageSize {
		from := p.r.Uint64N(a.n/64) * 64
		n := min(a.n-from, uint64(8*(1+p.r.IntN(16))))
		if _, err := p.mem.ReadAt(b[:n], int64(a.start+from)); err != nil {
			continue
		}
		p.put(a.start+page+uint64(64*p.r.IntN(pageSize/64-1)), b[:min(n, 64)])
	}
}

// holes takes pages away, from both sides.
func (p *pen) holes(a area) {
	first := p.r.Uint64N(a.n / pageSize)
	n := 1 + p.r.Uint64N(a.n/pageSize-first)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(a.start+first*pageSize), uintptr(n*pageSize), unix.MADV_REMOVE)
}

// spoil does one of these.
func (p *pen) spoil(a area) {
	ways := []func(area){p.whole, p.ones, p.words, p.small, p.small, p.shuffle, p.shuffle, p.holes}
	ways[p.r.IntN(len(ways))](a)
}

// tryReadOnly writes to what the daemon lets nobody write.
func (p *pen) tryReadOnly(a area) error {
	if _, err := p.mem.WriteAt([]byte{1}, int64(a.start)); err == nil {
		return fmt.Errorf("%s could be written", a.name)
	}
	if _, _, errno := unix.Syscall(unix.SYS_MPROTECT, uintptr(a.start), uintptr(a.n), unix.PROT_READ|unix.PROT_WRITE); errno == 0 {
		return fmt.Errorf("%s could be made writable", a.name)
	}
	return nil
}
