package config

import (
	"path/filepath"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

// Interface are the settings of an interface, or defaults for many. What is nil
// was not given. datapath.Options has what the values mean.
type Interface struct {
	Mode          *bpf.Mode   `toml:"mode"`
	Socket        *Socket     `toml:"socket"`
	Queues        *int        `toml:"queues"`
	Frames        *int        `toml:"frames"`
	FrameSize     *int        `toml:"frame_size"`
	RingSize      *int        `toml:"ring_size"`
	HugePages     *bool       `toml:"huge_pages"`
	BusyPollUsecs *int        `toml:"busy_poll_usecs"`
	BusyPollCount *int        `toml:"busy_poll_budget"`
	UnknownQPN    *bpf.Action `toml:"unknown_qpn"`
	NoSocket      *bpf.Action `toml:"no_socket"`
	Pin           *bool       `toml:"pin"`
	Poll          *Poll       `toml:"poll"`
	SpinTime      *Duration   `toml:"spin_time"`
	Window        *int        `toml:"window"`
	KeepBudget    *int        `toml:"keep_budget"`
	Congestion    *Congestion `toml:"congestion"`
	LineRate      *Rate       `toml:"line_rate"`
	CNPInterval   *Duration   `toml:"cnp_interval"`
}

// over is i, with what it does not give taken from below.
func (i Interface) over(below Interface) Interface {
	fill(&i, below)
	return i
}

// value is what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// orNone is a setting whose 0 turns something off, for an option of which that is
// a negative value and 0 the default.
func orNone[T int | Duration](p *T) T {
	if p != nil && *p == 0 {
		return -1
	}
	return value(p)
}

// Options are those with which the named interface is opened.
func (c *Config) Options(name string) *datapath.Options {
	i := c.Interface(name)
	o := &datapath.Options{
		Mode:        value(i.Mode),
		Socket:      xsk.Mode(value(i.Socket)),
		Queues:      value(i.Queues),
		Frames:      value(i.Frames),
		FrameSize:   value(i.FrameSize),
		RingSize:    value(i.RingSize),
		HugePages:   value(i.HugePages),
		BusyPoll:    xsk.BusyPoll{Usecs: value(i.BusyPollUsecs), Budget: value(i.BusyPollCount)},
		UnknownQPN:  value(i.UnknownQPN),
		NoSocket:    value(i.NoSocket),
		Poll:        datapath.PollPolicy(value(i.Poll)),
		SpinTime:    value(i.SpinTime).Std(),
		OwnThreads:  true,
		Window:      value(i.Window),
		KeepBudget:  orNone(i.KeepBudget),
		Congestion:  value(i.Congestion).verbs(),
		LineRate:    int64(value(i.LineRate)),
		CNPInterval: orNone(i.CNPInterval).Std(),
	}
	if value(i.Pin) {
		o.PinDir = c.PinsOf(name)
	}
	return o
}

// PinsOf is the directory that an interface's pins have, if it is pinned. BPF file
// systems have no dots in names, which PinPath knows.
func (c *Config) PinsOf(name string) string {
	return filepath.Join(c.PinDir, filepath.Base(bpf.PinPath(name)))
}
