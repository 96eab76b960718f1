package datapath

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

func TestOptionsDefaults(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		queues, cpus             int
		wantQueues, ring, frames int
		spin                     time.Duration
	}{
		{"one queue, one CPU", 1, 1, 1, 2048, 4096, 0},
		{"one queue, two CPUs", 1, 2, 1, 2048, 4096, shortSpin},
		{"eight queues, many CPUs", 8, 16, 8, 2048, 4096, defaultSpin},
		{"sixteen queues have less memory each", 16, 16, 16, 1024, 2048, defaultSpin},
		{"more queues than workers", 128, 16, 64, 256, 512, defaultSpin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var none *Options
			o, err := none.complete(tt.queues, tt.cpus)
			if err != nil {
				t.Fatal(err)
			}
			if o.Queues != tt.wantQueues || o.RingSize != tt.ring || o.Frames != tt.frames || o.SpinTime != tt.spin {
				t.Errorf("queues %d, ring %d, frames %d, spin %v", o.Queues, o.RingSize, o.Frames, o.SpinTime)
			}
			if o.FrameSize != 4096 || o.Window != transport.DefaultWindow || o.KeepBudget != defaultKeep {
				t.Errorf("frame size %d, window %d, keep %d", o.FrameSize, o.Window, o.KeepBudget)
			}
		})
	}
}

func TestOptionsRanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
		says string // empty: allowed
	}{
		{"all queues named", Options{Queues: 4}, ""},
		{"a queue too many", Options{Queues: 5}, "Queues is 5: the interface has 4"},
		{"queues below zero", Options{Queues: -1}, "Queues is -1"},
		{"smallest ring", Options{RingSize: 64}, ""},
		{"ring too small", Options{RingSize: 32}, "RingSize is 32"},
		{"ring of three quarters", Options{RingSize: 96}, "RingSize is 96"},
		{"ring too large", Options{RingSize: 1 << 17}, "RingSize is 131072"},
		{"frames twice the ring", Options{RingSize: 256, Frames: 512}, ""},
		{"too few frames", Options{RingSize: 256, Frames: 511}, "Frames is 511: at least twice the 256"},
		{"as many frames as can be", Options{RingSize: 256, Frames: maxFrames}, ""},
		{"too many frames", Options{RingSize: 256, Frames: maxFrames + 1}, "Frames is 4194305: at most 4194304 are possible"},
		{"small frames", Options{FrameSize: 2048}, ""},
		{"odd frames", Options{FrameSize: 3000}, "FrameSize is 3000"},
		{"busy", Options{Poll: PollBusy}, ""},
		{"unknown policy", Options{Poll: 3}, "poll policy 3"},
		{"spin below zero", Options{SpinTime: -1}, "SpinTime is -1ns"},
		{"spin for ever", Options{SpinTime: time.Minute}, "SpinTime is 1m0s"},
		{"window of 8", Options{Window: 8}, ""},
		{"window of 7", Options{Window: 7}, "Window is 7"},
		{"an address in a VLAN", Options{VLANAddrs: []VLANAddr{{Addr: addrA, VLAN: 4094, Neighbors: map[netip.Addr]net.HardwareAddr{addrB: macB[:]}}}}, ""},
		{"VLAN 0", Options{VLANAddrs: []VLANAddr{{Addr: addrA}}}, "192.0.2.1 is in VLAN 0"},
		{"VLAN 4095", Options{VLANAddrs: []VLANAddr{{Addr: addrA, VLAN: 4095}}}, "VLAN 4095: 1 to 4094"},
		{"no address in a VLAN", Options{VLANAddrs: []VLANAddr{{VLAN: 5}}}, "not the address of a host"},
		{"a group in a VLAN", Options{VLANAddrs: []VLANAddr{{Addr: netip.MustParseAddr("ff02::1"), VLAN: 5}}}, "not the address of a host"},
		{"a neighbour of another family", Options{VLANAddrs: []VLANAddr{{Addr: netip.MustParseAddr("fd00::1"), VLAN: 5,
			Neighbors: map[netip.Addr]net.HardwareAddr{addrB: macB[:]}}}}, "cannot have the neighbour 192.0.2.2"},
		{"a neighbour without address", Options{VLANAddrs: []VLANAddr{{Addr: addrA, VLAN: 5,
			Neighbors: map[netip.Addr]net.HardwareAddr{addrB: {1, 2}}}}}, "cannot have the neighbour"},
		{"keep nothing", Options{KeepBudget: -1}, ""},
		{"keep too much", Options{KeepBudget: 5000}, "KeepBudget is 5000"},
		{"congestion control", Options{Congestion: ibv.CongestionDCQCN, LineRate: 1_000_000, CNPInterval: time.Second}, ""},
		{"no congestion reports", Options{CNPInterval: -1}, ""},
		{"unknown congestion control", Options{Congestion: 3}, "Congestion is"},
		{"slow line", Options{LineRate: 999_999}, "LineRate is 999999"},
		{"line below zero", Options{LineRate: -1}, "LineRate is -1"},
		{"rare congestion reports", Options{CNPInterval: time.Minute}, "CNPInterval is 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.o.complete(4, 4)
			switch {
			case tt.says == "" && err != nil:
				t.Error(err)
			case tt.says != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("error %v, want %q", err, tt.says)
			}
		})
	}
}

func TestOptionsInterruptDoesNotSpin(t *testing.T) {
	o, err := (&Options{Poll: PollInterrupt, SpinTime: time.Millisecond}).complete(1, 8)
	if err != nil || o.SpinTime != 0 {
		t.Errorf("spin %v, %v", o.SpinTime, err)
	}
}
