package show

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
)

// Format is how rows are printed.
type Format struct {
	JSON    bool
	Pretty  bool // JSON on many lines
	Details bool // also what rdma(8) does not have
}

// linkKeys are those that `rdma link show -j` has.
var linkKeys = []string{"ifindex", "ifname", "port", "state", "physical_state", "netdev", "netdev_index"}

// Links prints devices.
func (f Format) Links(w io.Writer, rows []control.Row) error {
	if f.JSON {
		if !f.Details {
			rows = only(rows, linkKeys)
		}
		return f.json(w, rows)
	}
	for _, r := range rows {
		line := "link " + linkName(r) + values(r, []string{"state", "physical_state", "netdev"})
		if f.Details {
			line += values(r, []string{"netdev_index"}) + "\n   " + values(without(r, linkKeys), nil)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Summary prints the numbers of resources.
func (f Format) Summary(w io.Writer, rows []control.Row) error {
	if f.JSON {
		return f.json(w, rows)
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(w, "%s: %s:%s\n", r.Text("ifindex"), r.Text("ifname"), values(without(r, identityKeys), nil)); err != nil {
			return err
		}
	}
	return nil
}

// identityKeys name the device of a row.
var identityKeys = []string{"ifindex", "ifname", "port"}

// Resources prints objects of a kind.
func (f Format) Resources(w io.Writer, kind string, rows []control.Row) error {
	if f.JSON {
		return f.json(w, rows)
	}
	for _, r := range rows {
		head := "dev " + r.Text("ifname")
		if kind == "qp" || kind == "cm_id" { // which rdma(8) knows by link
			head = "link " + linkName(r)
		}
		if _, err := fmt.Fprintln(w, head+values(without(r, identityKeys), nil)); err != nil {
			return err
		}
	}
	return nil
}

// Statistics prints counters.
func (f Format) Statistics(w io.Writer, rows []control.Row) error {
	if f.JSON {
		return f.json(w, rows)
	}
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, "link "+linkName(r)+values(without(r, identityKeys), nil)); err != nil {
			return err
		}
	}
	return nil
}

// linkName is DEV/PORT.
func linkName(r control.Row) string {
	if port := r.Text("port"); port != "" {
		return r.Text("ifname") + "/" + port
	}
	return r.Text("ifname") + "/-"
}

// values are " key value" for the keys that r has, nil for all of its own.
func values(r control.Row, keys []string) string {
	if keys == nil {
		for _, f := range r {
			keys = append(keys, f.Key)
		}
	}
	var b strings.Builder
	for _, k := range keys {
		if r.Get(k) != nil {
			b.WriteString(" " + k + " " + r.Text(k))
		}
	}
	return b.String()
}

func without(r control.Row, keys []string) control.Row {
	var rest control.Row
	for _, f := range r {
		if !slices.Contains(keys, f.Key) {
			rest = append(rest, f)
		}
	}
	return rest
}

func only(rows []control.Row, keys []string) []control.Row {
	list := make([]control.Row, len(rows))
	for i, r := range rows {
		for _, f := range r {
			if slices.Contains(keys, f.Key) {
				list[i] = append(list[i], f)
			}
		}
	}
	return list
}

func (f Format) json(w io.Writer, rows []control.Row) error {
	e := json.NewEncoder(w)
	if f.Pretty {
		e.SetIndent("", "    ")
	}
	return e.Encode(rows)
}
