package daemon

import (
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Rows have the keys of rdma(8) in its order, then what that does not have.

// Resources implements Service.
func (c clients) Resources(kind string) []control.Row {
	var rows []control.Row
	for _, client := range c.Snapshot(kind) {
		if client.Device != "" {
			rows = append(rows, rowsOf(kind, &client)...)
		}
	}
	return rows
}

// Counts implements Service.
func (c clients) Counts() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, client := range c.Snapshot("client") {
		if client.Device == "" {
			continue
		}
		sum := all[client.Device]
		if sum == nil {
			sum = map[string]int{}
			all[client.Device] = sum
		}
		n := &client.Counts
		for kind, n := range map[string]int{
			"pd": n.PDs, "cq": n.CQs, "qp": n.QPs, "cm_id": n.IDs, "mr": n.MRs, "ctx": 1, "srq": n.SRQs, "client": 1,
		} {
			sum[kind] += n
		}
	}
	return all
}

// rowsOf are what a client has of a kind.
func rowsOf(kind string, c *serve.Client) []control.Row {
	switch kind {
	case "qp":
		return each(c, c.QPs, qpRow)
	case "cq":
		return each(c, c.CQs, cqRow)
	case "mr":
		return each(c, c.MRs, mrRow)
	case "pd":
		return each(c, c.PDs, pdRow)
	case "srq":
		return each(c, c.SRQs, srqRow)
	case "cm_id":
		return each(c, c.IDs, idRow)
	case "ctx":
		return each(c, []serve.Client{*c}, func(*serve.Client) control.Row { return nil })
	case "client":
		return each(c, []serve.Client{*c}, clientRow)
	}
	return nil
}

// each makes rows: the device, what row says, whose it is.
func each[T any](c *serve.Client, list []T, row func(*T) control.Row) []control.Row {
	rows := make([]control.Row, 0, len(list))
	for i := range list {
		r := control.Row{{Key: "ifname", Value: c.Device}}
		r = append(r, row(&list[i])...)
		r = append(r, control.Row{{Key: "ctxn", Value: c.ID}, {Key: "pid", Value: c.PID}, {Key: "comm", Value: c.Comm}}...)
		rows = append(rows, r)
	}
	return rows
}

// number is the part of a handle that is not its kind.
func number(handle uint64) uint32 { return uint32(handle) }

func hex[T uint32 | uint64](v T) string { return fmt.Sprintf("%#x", v) }

// qpTypes are the names of rdma(8) where they are not ours.
var qpTypes = map[verbs.QPType]string{verbs.XRCSend: "XRC_INI", verbs.XRCRecv: "XRC_TGT"}

func typeName(t verbs.QPType) string {
	if name := qpTypes[t]; name != "" {
		return name
	}
	return t.String()
}

func qpRow(q *serve.QP) control.Row {
	var r control.Row
	if q.Attr.Port != 0 {
		r = append(r, control.Field{Key: "port", Value: q.Attr.Port})
	}
	r = append(r, control.Field{Key: "lqpn", Value: q.QPN})
	connected := !q.Type.Datagram()
	if connected {
		r = append(r, control.Field{Key: "rqpn", Value: q.Attr.DestQPN})
	}
	r = append(r, control.Row{{Key: "type", Value: typeName(q.Type)}, {Key: "state", Value: q.Attr.State.String()}}...)
	if connected {
		r = append(r, control.Field{Key: "rq-psn", Value: q.Attr.RQPSN})
	}
	r = append(r, control.Field{Key: "sq-psn", Value: q.Attr.SQPSN})
	if connected {
		r = append(r, control.Field{Key: "path-mig-state", Value: "MIGRATED"})
	}
	return append(r, control.Field{Key: "pdn", Value: q.PD})
}

func cqRow(c *serve.CQ) control.Row {
	return control.Row{{Key: "cqn", Value: number(c.Handle)}, {Key: "cqe", Value: c.Entries}, {Key: "users", Value: c.Users}}
}

func mrRow(m *serve.MR) control.Row {
	return control.Row{
		{Key: "mrn", Value: number(m.Handle)}, {Key: "rkey", Value: hex(m.RKey)}, {Key: "lkey", Value: hex(m.LKey)},
		{Key: "iova", Value: hex(m.Addr)}, {Key: "mrlen", Value: m.Length}, {Key: "pdn", Value: m.PD},
	}
}

func pdRow(p *datapath.PDUse) control.Row {
	return control.Row{{Key: "pdn", Value: p.PD}, {Key: "users", Value: p.Objects}}
}

func srqRow(s *serve.SRQ) control.Row {
	kind := "BASIC"
	if s.XRCD != 0 {
		kind = "XRC"
	}
	return control.Row{{Key: "srqn", Value: number(s.Handle)}, {Key: "type", Value: kind}, {Key: "pdn", Value: s.PD}}
}

// idStates are rdma_cm's states of an id, by ib_cm's.
var idStates = map[cmfsm.State]string{
	cmfsm.StateIdle: "IDLE", cmfsm.StateListen: "LISTEN", cmfsm.StateDREQSent: "DISCONNECT", cmfsm.StateDREQRcvd: "DISCONNECT",
	cmfsm.StateTimewait: "DISCONNECT", cmfsm.StateClosed: "DISCONNECT",
}

func idRow(m *serve.CMID) control.Row {
	i := &m.Info
	state := idStates[i.State]
	switch {
	case state == "":
		state = "CONNECT"
	case state == "IDLE" && i.Local.IsValid():
		state = "ADDR_BOUND"
	}
	r := control.Row{{Key: "cm-idn", Value: uint32(m.ID)}}
	if i.QPN != 0 {
		r = append(r, control.Field{Key: "lqpn", Value: i.QPN})
	}
	r = append(r, control.Row{{Key: "qp-type", Value: typeName(i.Type)}, {Key: "state", Value: state}, {Key: "ps", Value: i.PortSpace.String()}}...)
	for _, a := range []struct {
		key   string
		valid bool
		text  string
	}{{"src-addr", i.Local.IsValid(), i.Local.String()}, {"dst-addr", i.Remote.IsValid(), i.Remote.String()}} {
		if a.valid {
			r = append(r, control.Field{Key: a.key, Value: a.text})
		}
	}
	return r
}

func clientRow(c *serve.Client) control.Row {
	return control.Row{
		{Key: "uid", Value: c.UID}, {Key: "gid", Value: c.GID}, {Key: "seconds", Value: int64(time.Since(c.Since).Seconds())},
		{Key: "qps", Value: c.Usage.QPs}, {Key: "cqs", Value: c.Usage.CQs}, {Key: "srqs", Value: c.Usage.SRQs}, {Key: "mrs", Value: c.Usage.MRs},
		{Key: "pds", Value: c.Usage.PDs}, {Key: "ahs", Value: c.Usage.AHs}, {Key: "cm_ids", Value: c.Counts.IDs},
		{Key: "shared_bytes", Value: c.Shared}, {Key: "registered_bytes", Value: c.Usage.Bytes},
	}
}
