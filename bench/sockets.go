package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// The baselines of the socket world, measured by the tools that people know:
// iperf3 for bandwidth, sockperf for latency.

const (
	iperfPort    = 5201
	sockperfPort = 11111
)

// inNS starts a command in a namespace. It ends with ctx at the latest.
func inNS(ctx context.Context, ns *netns.NS, name string, args ...string) (*exec.Cmd, *bytes.Buffer, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := ns.Do(cmd.Start)
	if err != nil {
		err = fmt.Errorf("start %s: %w", name, err)
	}
	return cmd, &out, err
}

// startServer starts a server command, waits until it listens, runs the client and
// ends the server.
func startServer(ctx context.Context, p *netns.Pair, port int, udp bool, server, client []string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv, sout, err := inNS(ctx, p.B.NS, server[0], server[1:]...)
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); _ = srv.Wait() }()
	if err := listening(p, port, udp); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", server[0], err, sout)
	}
	cli, out, err := inNS(ctx, p.A.NS, client[0], client[1:]...)
	if err != nil {
		return nil, err
	}
	if err := cli.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", client[0], err, out)
	}
	return out.Bytes(), nil
}

// listening waits until the server's port answers. UDP has no such sign: there
// it waits until the port can no longer be bound.
func listening(p *netns.Pair, port int, udp bool) error {
	addr := net.JoinHostPort(p.B.IPv4.String(), strconv.Itoa(port))
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		free := false
		err := p.B.NS.Do(func() error {
			if udp {
				c, err := net.ListenPacket("udp4", addr)
				if err == nil {
					free = true
					return c.Close()
				}
				return nil
			}
			l, err := net.Listen("tcp4", addr)
			if err == nil {
				free = true
				return l.Close()
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !free {
			return nil
		}
	}
	return fmt.Errorf("port %d does not listen after 5 s", port)
}

// iperf measures TCP bandwidth in bits per second.
func iperf(ctx context.Context, p *netns.Pair, secs float64) (float64, error) {
	port := strconv.Itoa(iperfPort)
	out, err := startServer(ctx, p, iperfPort, false,
		[]string{"iperf3", "-s", "-1", "-p", port},
		[]string{"iperf3", "-c", p.B.IPv4.String(), "-p", port, "-t", fmt.Sprintf("%.0f", max(1, secs)), "-J"})
	if err != nil {
		return 0, err
	}
	var r struct {
		End struct {
			Received struct {
				BPS float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, fmt.Errorf("iperf3 printed no JSON: %w", err)
	}
	if r.Error != "" || r.End.Received.BPS == 0 {
		return 0, fmt.Errorf("iperf3 measured nothing: %s", r.Error)
	}
	return r.End.Received.BPS, nil
}

var percentile = regexp.MustCompile(`percentile\s+(50|99)\.0+\s*=\s*([0-9.]+)`)

// sockperf measures the median and the 99th percentile of the round trip time
// of 64 bytes; polling has both ends spin on a non-blocking socket.
func sockperf(ctx context.Context, p *netns.Pair, secs float64, tcp, polling bool) (p50, p99 time.Duration, err error) {
	common := []string{"-i", p.B.IPv4.String(), "-p", strconv.Itoa(sockperfPort)}
	if tcp {
		common = append(common, "--tcp")
	}
	if polling {
		common = append(common, "--nonblocked")
	}
	server := append([]string{"sockperf", "server"}, common...)
	client := append([]string{"sockperf", "ping-pong", "-m", "64", "--full-rtt", "-t", fmt.Sprintf("%.0f", max(1, secs))}, common...)
	out, err := startServer(ctx, p, sockperfPort, !tcp, server, client)
	if err != nil {
		return 0, 0, err
	}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		if m := percentile.FindStringSubmatch(s.Text()); m != nil {
			us, _ := strconv.ParseFloat(m[2], 64)
			d := time.Duration(us * float64(time.Microsecond))
			if m[1] == "50" {
				p50 = d
			} else {
				p99 = d
			}
		}
	}
	if p50 == 0 {
		return 0, 0, fmt.Errorf("sockperf printed no percentiles: %s", out)
	}
	return p50, p99, nil
}
