package chaos_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// beBabbler says to daemons what no program should: packets that are no messages,
// messages that are too short, too long, or random inside, with descriptors that nobody
// has asked for. It reads some of the replies.
func beBabbler(ctx context.Context, a *answers) error {
	r := seedOfChild()
	b := &babbler{r: r}
	if err := b.gather(); err != nil {
		return err
	}
	var m mood
	a.by(m.answerers())
	tell("up")
	dirs := []string{os.Getenv(dirAEnv), os.Getenv(dirBEnv)}
	for ctx.Err() == nil {
		if !m.hostile.Load() {
			for range 20 {
				b.packet()
			}
			time.Sleep(pause)
			continue
		}
		if err := b.talk(session.SocketPath(dirs[r.IntN(2)])); err != nil {
			return err
		}
		m.rounds.Add(1)
		time.Sleep(5 * pause) // connections are work, and this is no flood
	}
	return nil
}

type babbler struct {
	r   *rand.Rand
	seq uint32
	fds []int // of all kinds, to pass on
}

// gather opens descriptors of all kinds, none of which a daemon wants.
func (b *babbler) gather() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	dir, derr := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	mem, merr := unix.Open("/proc/self/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	event, eerr := unix.Eventfd(0, unix.EFD_CLOEXEC)
	epoll, perr := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	file, ferr := unix.MemfdCreate("not sealed", unix.MFD_CLOEXEC)
	var pipe [2]int
	serr := unix.Pipe2(pipe[:], unix.O_CLOEXEC)
	b.fds = []int{null, dir, mem, event, epoll, file, pipe[0], pipe[1]}
	return errors.Join(err, derr, merr, eerr, perr, ferr, serr)
}

// talk is a connection from its beginning to its end.
func (b *babbler) talk(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if b.r.IntN(8) != 0 {
		b.send(fd, b.message(proto.OpHello, &proto.Hello{Magic: proto.Magic, MinVersion: proto.MinVersion, MaxVersion: proto.Version}), nil)
		if b.r.IntN(8) != 0 {
			open := &proto.Open{}
			proto.PutText(open.Name[:], netns.Ifname)
			b.send(fd, b.message(proto.OpOpen, open), nil)
		}
	}
	reads := b.r.IntN(2) == 0
	for range b.r.IntN(40) {
		b.send(fd, b.packet(), b.descriptors(fd))
		if reads {
			if err := b.read(fd); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends a packet if there is room and the daemon has not ended the talk.
func (b *babbler) send(fd int, packet []byte, fds []int) {
	var oob []byte
	if len(fds) != 0 {
		oob = unix.UnixRights(fds...)
	}
	_ = unix.Sendmsg(fd, packet, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// read takes what has come, and the descriptors with it, whose files it tries to cut
// off under the daemon.
func (b *babbler) read(fd int) error {
	var buf [proto.MaxMessage]byte
	var oob [1024]byte
	for {
		size, n, _, _, err := unix.Recvmsg(fd, buf[:], oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != nil || size == 0 {
			return nil // nothing more has come, or the daemon has had enough
		}
		msgs, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil {
			return err
		}
		for i := range msgs {
			got, err := unix.ParseUnixRights(&msgs[i])
			if err != nil {
				return err
			}
			for _, d := range got {
				if unix.Ftruncate(d, 0) == nil || unix.Ftruncate(d, 1<<40) == nil {
					return errors.New("a file that is shared with a daemon could be resized")
				}
				_ = unix.Fallocate(d, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20)
				_ = unix.Close(d)
			}
		}
	}
}

// descriptors are none, mostly, or some, or too many; the connection itself may be
// among them.
func (b *babbler) descriptors(conn int) []int {
	n := 0
	switch b.r.IntN(8) {
	case 0:
		n = 1
	case 1:
		n = 2 + b.r.IntN(4)
	case 2:
		n = proto.MaxFDs + b.r.IntN(253-proto.MaxFDs)
	}
	fds := make([]int, n)
	for i := range fds {
		fds[i] = b.fds[b.r.IntN(len(b.fds))]
		if b.r.IntN(16) == 0 {
			fds[i] = conn
		}
	}
	return fds
}

func (b *babbler) message(op proto.Op, body any) []byte {
	b.seq++
	p, err := proto.Append(nil, proto.Header{Op: op, Seq: b.seq}, body)
	if err != nil {
		panic(err) // samples of the protocol are messages of it
	}
	return p
}

// packet is one of the things that a daemon should not be told.
func (b *babbler) packet() []byte {
	m := &proto.Messages[b.r.IntN(len(proto.Messages))]
	p := b.message(m.Op, reflect.New(reflect.TypeOf(m.Request)).Interface())
	body := p[proto.HeaderSize:]
	switch b.r.IntN(8) {
	case 0: // noise
		p = b.noise(make([]byte, 1+b.r.IntN(300)))
	case 1: // a header that promises more, or less
		binary.LittleEndian.PutUint32(p, b.r.Uint32N(uint32(2*len(p))))
	case 2: // cut off
		p = p[:1+b.r.IntN(len(p))]
	case 3: // too long
		p = append(p, make([]byte, 1+b.r.IntN(2*proto.MaxMessage))...)
	case 4, 5: // small numbers, which may be handles, sizes and rights
		for i := range body {
			if b.r.IntN(3) == 0 {
				body[i] = byte(b.r.IntN(8))
			}
		}
	default:
		b.noise(body)
	}
	return p
}

func (b *babbler) noise(p []byte) []byte {
	for i := range p {
		p[i] = byte(b.r.Uint32())
	}
	return p
}
