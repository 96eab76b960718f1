package daemon

import (
	"fmt"
	"os"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/buildinfo"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// port is the number of a device's only port.
const port = 1

// identity begins the row of a device.
func (v *device) identity() control.Row {
	return control.Row{{Key: "ifindex", Value: v.index}, {Key: "ifname", Value: v.name}}
}

// living are the devices with what they are, nil for one that is not open.
func (d *Daemon) living(f func(v *device, dev *datapath.Device)) {
	for _, v := range d.list() {
		d.mu.Lock()
		dev := v.dev
		d.mu.Unlock()
		f(v, dev)
	}
}

// Links implements control.Source.
func (d *Daemon) Links() []control.Row {
	rows := []control.Row{}
	d.living(func(v *device, dev *datapath.Device) {
		rows = append(rows, linkRow(v, dev))
	})
	return rows
}

// linkRow has the keys of `rdma link show -j`, then ours.
func linkRow(v *device, dev *datapath.Device) control.Row {
	row := append(v.identity(), control.Field{Key: "port", Value: port})
	p, a, ok := query(dev)
	if !ok {
		return append(row, control.Row{{Key: "state", Value: verbs.PortDown.String()}, {Key: "physical_state", Value: "DISABLED"}}...)
	}
	physical := "POLLING"
	if p.State == verbs.PortActive {
		physical = "LINK_UP"
	}
	row = append(row, control.Row{
		{Key: "state", Value: p.State.String()}, {Key: "physical_state", Value: physical},
		{Key: "netdev", Value: dev.Name()}, {Key: "netdev_index", Value: p.IfIndex},
		{Key: "active_mtu", Value: p.ActiveMTU.Bytes()}, {Key: "link_mtu", Value: p.LinkMTU}, {Key: "speed_mbps", Value: p.SpeedMbps},
		{Key: "mac", Value: p.MAC.String()}, {Key: "xdp", Value: a.XDPMode}, {Key: "zero_copy", Value: a.ZeroCopy},
		{Key: "workers", Value: a.NumWorkers},
	}...)
	return append(row, control.Field{Key: "gids", Value: gids(dev)})
}

// query asks a device about itself; false if it is not open, or being closed.
func query(dev *datapath.Device) (p verbs.PortAttr, a verbs.DeviceAttr, ok bool) {
	if dev == nil {
		return p, a, false
	}
	p, err := dev.QueryPort()
	if err != nil {
		return p, a, false
	}
	a, err = dev.QueryDevice()
	return p, a, err == nil
}

// gids are the entries of the GID table that are in use, with their indices.
func gids(dev *datapath.Device) []string {
	list := []string{}
	table, err := dev.GIDs()
	if err != nil {
		return list
	}
	for i := range table {
		if table[i].Valid {
			list = append(list, fmt.Sprintf("%d=%v", table[i].Index, table[i].GID.Addr()))
		}
	}
	return list
}

// Statistics implements control.Source.
func (d *Daemon) Statistics() (rows []control.Row, err error) {
	rows = []control.Row{}
	d.living(func(v *device, dev *datapath.Device) {
		if dev == nil {
			return
		}
		counters, e := dev.Counters()
		if e != nil {
			err = fmt.Errorf("counters of %s: %w", v.name, e)
			return
		}
		row := append(v.identity(), control.Field{Key: "port", Value: port})
		for _, c := range counters {
			row = append(row, control.Field{Key: c.Name, Value: c.Value})
		}
		rows = append(rows, row)
	})
	return rows, err
}

// Resources implements control.Source.
func (d *Daemon) Resources(kind string) []control.Row {
	if kind == "" {
		return d.summary()
	}
	rows, of := []control.Row{}, d.resources(kind)
	for _, v := range d.list() {
		for _, r := range of[v.name] {
			rows = append(rows, append(v.identity(), r...))
		}
	}
	return rows
}

// resources are those of the kind, by the name of their device and without it.
func (d *Daemon) resources(kind string) map[string][]control.Row {
	of := map[string][]control.Row{}
	for _, r := range d.service.Resources(kind) {
		name := r.Text("ifname")
		of[name] = append(of[name], r[1:])
	}
	return of
}

// summary counts the objects of each kind, for each device.
func (d *Daemon) summary() []control.Row {
	rows, counts := []control.Row{}, d.service.Counts()
	for _, v := range d.list() {
		row := v.identity()
		for _, kind := range control.Kinds {
			row = append(row, control.Field{Key: kind, Value: counts[v.name][kind]})
		}
		rows = append(rows, row)
	}
	return rows
}

// Health implements control.Source.
func (d *Daemon) Health() control.Health {
	h := control.Health{
		Status: control.StatusOK, PID: os.Getpid(), Seconds: int64(time.Since(d.began).Seconds()),
		Devices: []control.DeviceHealth{}, Build: buildinfo.Get(),
	}
	for _, v := range d.list() {
		state := v.healthOf(d)
		if state.State != control.StateOpen {
			h.Status = control.StatusDegraded
		}
		h.Devices = append(h.Devices, state)
	}
	if h.Problems = d.service.Problems(); len(h.Problems) != 0 {
		h.Status = control.StatusDegraded
	}
	if d.stopping.Load() {
		h.Status = control.StatusStopping
	}
	return h
}
