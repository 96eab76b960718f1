package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestKernelTraffic uses the interface as if nothing were there, while RDMA runs
// over it: TCP, ping and UDP, both families, both kinds of XDP.
func TestKernelTraffic(t *testing.T) {
	for _, mode := range []bpf.Mode{bpf.ModeNative, bpf.ModeGeneric} {
		t.Run(mode.String(), func(t *testing.T) {
			r := newRig(t, netns.PairOptions{MTU: 9000}, &datapath.Options{Mode: mode})
			stop := runRDMA(t, r)
			for i, addr := range r.hosts.B.Addrs() {
				from := r.hosts.A.Addrs()[i]
				for name, use := range map[string]func(*netns.Pair, netip.Addr) error{
					"TCP": exchangeTCP, "ping": ping, "UDP": exchangeUDP,
				} {
					if err := use(r.hosts, addr); err != nil {
						t.Errorf("%s from %s to %s: %v", name, from, addr, err)
					}
				}
			}
			if rounds := stop(); rounds == 0 {
				t.Error("RDMA did not move meanwhile")
			}
		})
	}
}

// runRDMA has a queue pair for each family and direction run every operation
// until stop, which returns how many rounds were complete.
func runRDMA(t *testing.T, r *rig) (stop func() int) {
	t.Helper()
	var ended atomic.Bool
	var rounds atomic.Int64
	var wg sync.WaitGroup
	o := verbstest.Options{BufferSize: 128 << 10}
	for _, p := range []*verbstest.Pair{r.pair(t, o), r.pair(t, o).Reverse(), r.pair6(t, o)} {
		wg.Go(func() {
			for !ended.Load() {
				if err := p.Every(64, 5000, 100_000); err != nil {
					t.Errorf("RDMA: %v", err)
					return
				}
				rounds.Add(1)
			}
		})
	}
	return func() int {
		ended.Store(true)
		wg.Wait()
		return int(rounds.Load())
	}
}

// exchangeTCP sends data from A to B and back and compares it.
func exchangeTCP(hosts *netns.Pair, addr netip.Addr) error {
	const size = 4 << 20
	var l net.Listener
	err := hosts.B.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	if err != nil {
		return err
	}
	defer l.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return // the dialling end says why
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
	})
	var c net.Conn
	err = hosts.A.NS.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", l.Addr().String(), 10*time.Second)
		return err
	})
	if err != nil {
		l.Close()
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	sent := make([]byte, size)
	verbstest.Fill(sent, size)
	wg.Go(func() {
		_, _ = c.Write(sent)
		_ = c.(*net.TCPConn).CloseWrite()
	})
	got, err := io.ReadAll(c)
	if err != nil {
		return fmt.Errorf("%w after %d bytes", err, len(got))
	}
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("%d bytes came back, not the %d that were sent", len(got), size)
	}
	return nil
}

// ping sends echo requests that need a whole frame and demands every answer.
func ping(hosts *netns.Pair, addr netip.Addr) error {
	var out []byte
	err := hosts.A.NS.Do(func() (err error) {
		out, err = exec.Command("ping", "-c", "5", "-i", "0.05", "-W", "5", "-s", "8000", addr.String()).CombinedOutput()
		return err
	})
	if err != nil || !bytes.Contains(out, []byte(" 0% packet loss")) {
		return fmt.Errorf("%w: %s", errors.Join(errors.New("answers are missing"), err), out)
	}
	return nil
}

// exchangeUDP sends datagrams to an ordinary port, and answers from RoCE's port:
// only the destination makes a frame RoCE.
func exchangeUDP(hosts *netns.Pair, addr netip.Addr) error {
	var server, client net.PacketConn
	listen := func(c *net.PacketConn, at string) func() error {
		return func() (err error) {
			*c, err = net.ListenPacket("udp", at)
			return err
		}
	}
	if err := hosts.B.NS.Do(listen(&server, netip.AddrPortFrom(addr, rocePort).String())); err != nil {
		return err
	}
	defer server.Close()
	if err := hosts.A.NS.Do(listen(&client, ":0")); err != nil {
		return err
	}
	defer client.Close()
	var other net.PacketConn
	if err := hosts.B.NS.Do(listen(&other, netip.AddrPortFrom(addr, 0).String())); err != nil {
		return err
	}
	defer other.Close()
	buf := make([]byte, 64)
	for i := range 50 {
		sent := fmt.Sprintf("datagram %d", i)
		if _, err := client.WriteTo([]byte(sent), other.LocalAddr()); err != nil {
			return err
		}
		_ = other.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, from, err := other.ReadFrom(buf)
		if err != nil || string(buf[:n]) != sent {
			return fmt.Errorf("request %d: %q, %w", i, buf[:n], err)
		}
		if _, err := server.WriteTo(buf[:n], from); err != nil {
			return err
		}
		_ = client.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, _, err = client.ReadFrom(buf); err != nil || string(buf[:n]) != sent {
			return fmt.Errorf("answer %d: %q, %w", i, buf[:n], err)
		}
	}
	return nil
}

// rocePort is the UDP port of RoCEv2 (IBTA annex A17).
const rocePort = 4791
