package stage_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// opRow is a row of the opcode table in docs/rules.md, cells by column.
type opRow struct {
	id, name string
	cell     map[string]string
}

func opRows(t *testing.T) (rows []opRow) {
	t.Helper()
	rules, err := conformance.LoadRules()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range rules.Sections {
		if s.Title != "2.1 The table" {
			continue
		}
		for _, r := range s.Rules {
			cells := strings.Split(r.Text, "; ")
			if len(cells) < 4 {
				continue // a sentence
			}
			row := opRow{r.ID, cells[0], map[string]string{}}
			for _, c := range cells[1:] {
				head, value, _ := strings.Cut(c, ": ")
				row.cell[head] = value
			}
			rows = append(rows, row)
		}
	}
	if len(rows) != 28 {
		t.Fatalf("%d rows, want 28", len(rows))
	}
	return rows
}

var positions = map[string]wire.Position{"first": wire.First, "middle": wire.Middle, "last": wire.Last, "only": wire.Only}

// headers are the extension headers by name: their size, and where an opcode has
// them.
var headers = []struct {
	name string
	size int
	at   func(*wire.OpInfo) int
}{
	{"DETH", wire.DETHLen, func(i *wire.OpInfo) int { return i.DETH }},
	{"FETH", wire.FETHLen, func(i *wire.OpInfo) int { return i.FETH }},
	{"RETH", wire.RETHLen, func(i *wire.OpInfo) int { return i.RETH }},
	{"AtomicETH", wire.AtomicETHLen, func(i *wire.OpInfo) int { return i.AtomicETH }},
	{"AETH", wire.AETHLen, func(i *wire.OpInfo) int { return i.AETH }},
	{"AtomicAckETH", wire.AtomicAckETHLen, func(i *wire.OpInfo) int { return i.AtomicAckETH }},
	{"ImmDt", wire.ImmDtLen, func(i *wire.OpInfo) int { return i.ImmDt }},
	{"IETH", wire.IETHLen, func(i *wire.OpInfo) int { return i.IETH }},
}

// holds compares the table of the program with a row, for the opcode op whose
// request headers begin skip bytes later.
func (r *opRow) holds(t *testing.T, op wire.Opcode, skip int) {
	t.Helper()
	in := op.Info()
	if in == nil {
		t.Fatalf("opcode %#02x is not there", uint8(op))
	}
	bytes, err := strconv.Atoi(r.cell["Bytes"])
	if err != nil {
		t.Fatal(err)
	}
	receive := r.cell["Receive"]
	if in.HeaderLen != bytes+skip || in.Pos != positions[r.cell["Position"]] || in.Payload != (r.cell["Payload"] != "none") ||
		in.Consumes != strings.Contains(receive, "takes") || in.Completes != strings.Contains(receive, "completes") {
		t.Errorf("%+v, want %+v", *in, *r)
	}
	at, listed := wire.BTHLen+skip, strings.Split(r.cell["Headers after BTH"], ", ")
	for _, name := range listed {
		for _, h := range headers {
			if h.name == name {
				if got := h.at(in); got != at {
					t.Errorf("%s at %d, want %d", name, got, at)
				}
				at += h.size
			}
		}
	}
	for _, h := range headers {
		if h.at(in) != 0 && !strings.Contains(" "+strings.Join(listed, " ")+" ", " "+h.name+" ") {
			t.Errorf("%s at %d, want none", h.name, h.at(in))
		}
	}
}

// TestOpcodeTable holds that the opcodes are those of the document's table, and
// no others.
func TestOpcodeTable(t *testing.T) {
	rows := opRows(t)
	known := map[wire.Opcode]bool{}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			conformance.Rule(t, r.id)
			for _, service := range []string{"RC", "UC", "XRC"} {
				n, err := strconv.ParseUint(r.cell[service], 16, 8)
				if r.cell[service] == "" {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				op, skip := wire.Opcode(n), 0
				if info := op.Info(); service == "XRC" && info != nil && !info.Response {
					skip = wire.XRCETHLen
				}
				known[op] = true
				r.holds(t, op, skip)
			}
		})
	}
	for op := range 256 {
		if info := wire.Opcode(op).Info(); (info != nil) != known[wire.Opcode(op)] {
			t.Errorf("opcode %#02x: %+v, which the document does not say", op, info)
		}
	}
}

func TestXRCETHIsFirst(t *testing.T) {
	conformance.Rule(t, "2.1-29")
	for op := wire.XRC; op < wire.XRC+0x20; op++ {
		if in := op.Info(); in != nil {
			want := wire.BTHLen
			if in.Response {
				want = 0
			}
			if in.XRCETH != want {
				t.Errorf("%s: XRCETH at %d, want %d", in.Name, in.XRCETH, want)
			}
		}
	}
}
