package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/pcap"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/icrccheck"
)

// capture is a recording of the bridge's port towards our device: RoCE frames
// of both directions, before the bridge drops any of ours.
type capture struct {
	file string
	keep bool
	ours net.HardwareAddr
	cmd  *exec.Cmd
	log  chan string // what tcpdump said, when it ends
}

// capture starts recording.
func (r *rig) capture(ctx context.Context, name string) (*capture, error) {
	dir, keep := r.o.dir, r.o.dir != ""
	if !keep {
		var err error
		if dir, err = os.MkdirTemp("", "rxe-interop-"); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &capture{file: filepath.Join(dir, name+".pcap"), keep: keep, log: make(chan string, 1)}
	err := r.ns.Do(func() error {
		ifc, err := net.InterfaceByName(ourEnd)
		if err == nil {
			c.ours = ifc.HardwareAddr
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.cmd = r.host(ctx, "tcpdump", "-i", bridgeEnd, "-n", "-s", "0", "-B", "65536", "-Z", "root", "-w", c.file, roceFrames)
	said, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("tcpdump: %w", err)
	}
	// Its first line comes when it records.
	in := bufio.NewReader(said)
	line, err := in.ReadString('\n')
	if err != nil || !strings.Contains(line, "listening") {
		return nil, fmt.Errorf("tcpdump does not record: %s", line)
	}
	go func() {
		rest, _ := io.ReadAll(in)
		c.log <- string(rest)
	}()
	return c, nil
}

// roceFrames is a filter for RoCE frames, with and without a VLAN tag. What comes
// after vlan is looked for behind the tag.
const roceFrames = "udp port 4791 or (vlan and udp port 4791)"

// settle is how long the kernel may keep frames from tcpdump, and a bit.
const settle = 1300 * time.Millisecond

// end stops recording and demands that no frame was missed.
func (c *capture) end() error {
	time.Sleep(settle)
	if err := c.cmd.Cancel(); err != nil {
		return err
	}
	said := <-c.log
	if err := c.cmd.Wait(); err != nil {
		return err
	}
	if !strings.Contains(said, "\n0 packets dropped by kernel") {
		return fmt.Errorf("frames were missed: %s", strings.TrimSpace(said))
	}
	return nil
}

func (c *capture) remove() {
	_ = c.cmd.Cancel()
	_ = c.cmd.Wait()
	if !c.keep {
		os.RemoveAll(filepath.Dir(c.file))
	}
}

// judge ends the recording and demands that every frame of ours is right: the
// ICRC by a second implementation, all fields by tshark.
func (c *capture) judge(ctx context.Context) (err error) {
	err = c.end()
	defer c.remove()
	if err != nil {
		return fmt.Errorf("tcpdump: %w", err)
	}
	n, err := c.judgeICRC()
	if err == nil && n == 0 {
		err = errors.New("no frame of ours was recorded")
	}
	return errors.Join(err, c.judgeFields(ctx))
}

// judgeICRC returns how many frames of ours there are.
func (c *capture) judgeICRC() (n int, err error) {
	f, err := os.Open(c.file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := pcap.NewReader(bufio.NewReader(f))
	if err != nil {
		return 0, err
	}
	bad := 0
	for at := 1; ; at++ {
		p, e := r.Next()
		if errors.Is(e, io.EOF) {
			break
		}
		if e != nil {
			return n, e
		}
		if len(p.Data) < 12 || !bytes.Equal(p.Data[6:12], c.ours) {
			continue
		}
		n++
		// rdma_rxe takes a FLUSH only with an ICRC of its own.
		if e := icrccheck.Check(p.Data); e != nil && !errors.Is(e, icrccheck.ErrRXEFlush) {
			if bad++; bad == 1 {
				err = fmt.Errorf("packet %d: %w", at, e)
			}
		}
	}
	if bad > 1 {
		err = fmt.Errorf("%d packets of %d, first %w", bad, n, err)
	}
	return n, err
}

// judgeFields has tshark look for malformed packets and expert errors. It does
// not know FLUSH and ATOMIC WRITE, and must not guess that payload is RPC.
func (c *capture) judgeFields(ctx context.Context) error {
	filter := fmt.Sprintf("eth.src == %s && (_ws.malformed || _ws.expert.severity >= 0x00800000) && !(infiniband.bth.opcode in {%d, %d})",
		c.ours, uint8(wire.Flush), uint8(wire.AtomicWrite))
	out, err := exec.CommandContext(ctx, "tshark", "-n", "--disable-protocol", "rpcordma", "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-r", c.file, "-Y", filter).Output()
	if err != nil {
		return fmt.Errorf("tshark: %w", err)
	}
	if len(out) > 0 {
		lines := strings.SplitN(string(out), "\n", 4)
		return fmt.Errorf("tshark: %d bad packets: %s", bytes.Count(out, []byte("\n")), strings.Join(lines[:min(3, len(lines))], "; "))
	}
	return nil
}
