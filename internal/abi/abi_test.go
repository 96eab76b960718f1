package abi

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

const root = "../.."

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHeaderIsUpToDate(t *testing.T) {
	headers, err := Headers(root)
	ok(t, err)
	there, err := os.ReadDir(filepath.Join(root, Dir))
	ok(t, err)
	if len(there) != len(headers) {
		t.Errorf("%d files in %s, want %d", len(there), Dir, len(headers))
	}
	for name, want := range headers {
		got, err := os.ReadFile(filepath.Join(root, Dir, name))
		ok(t, err)
		if string(got) != want {
			t.Errorf("%s is not what the sources give: run `go generate ./internal/abi`", name)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"MaxSendWR": "max_send_wr", "CreateQP": "create_qp", "QPReply": "qp_reply", "SendCQ": "send_cq", "RQPSN": "rq_psn", "PKeyIndex": "pkey_index",
		"GIDsReply": "gids_reply", "GIDEntry": "gid_entry", "AH": "ah", "CMQPAttrReply": "cm_qp_attr_reply", "Private": "private_data", "LKey": "lkey",
		"EnSQDAsyncNotify": "en_sqd_async_notify", "MaxSRQWR": "max_srq_wr", "WRID": "wr_id", "NumSGE": "num_sge",
	} {
		if got := snake(name); got != want {
			t.Errorf("%s became %s, want %s", name, got, want)
		}
	}
}

// Programs in C++ may include the header.
func TestNamesAreNoWordsOfCPlusPlus(t *testing.T) {
	words := strings.Fields("new delete this class private public protected operator template typename namespace using virtual friend explicit export try catch throw bool true false and or not xor")
	for name, typ := range structures(t) {
		for i := range typ.NumField() {
			if field := snake(typ.Field(i).Name); slices.Contains(words, field) {
				t.Errorf("%s of %s is a word of C++", field, structName(name))
			}
		}
	}
}

// structures are all that the header has of Go's, by name.
func structures(t *testing.T) map[string]reflect.Type {
	t.Helper()
	all := map[string]reflect.Type{}
	var add func(reflect.Type)
	add = func(typ reflect.Type) {
		all[typ.Name()] = typ
		for i := range typ.NumField() {
			if e := element(typ.Field(i).Type); e.Kind() == reflect.Struct {
				add(e)
			}
		}
	}
	for _, e := range elements {
		if typ := reflect.TypeOf(e.v); typ.Name() != "SGE" { // proto has one like it
			add(typ)
		}
	}
	for _, m := range append(messages, proto.CMEvent{}) {
		add(reflect.TypeOf(m))
	}
	for _, m := range proto.Messages {
		add(reflect.TypeOf(m.Request))
		add(reflect.TypeOf(m.Reply))
	}
	delete(all, "Empty")
	if len(all) < 60 {
		t.Fatalf("%d structures", len(all))
	}
	return all
}

// compilers are those of C that there are. Where clang is demanded, as by make test,
// there is one.
func compilers(t *testing.T) (found []string) {
	t.Helper()
	for _, name := range []string{"gcc", "clang", "clang-14", "cc"} {
		if path, err := exec.LookPath(name); err == nil && (name != "cc" || len(found) == 0) {
			found = append(found, path)
		}
	}
	if len(found) != 0 {
		return found
	}
	netns.Missing(t, "clang", "no C compiler is in PATH (gcc, clang, cc)")
	return nil
}

// A C compiler lays the structures out as Go does.
func TestCompilerAgrees(t *testing.T) {
	compilers := compilers(t)
	var b strings.Builder
	b.WriteString("#include <stddef.h>\n#include \"roce_xdp_cm.h\"\n")
	assert := func(format string, args ...any) {
		cond := fmt.Sprintf(format, args...)
		fmt.Fprintf(&b, "_Static_assert(%s, \"%s\");\n", cond, cond)
	}
	for name, typ := range structures(t) {
		size := int(typ.Size())
		for _, e := range elements {
			if reflect.TypeOf(e.v) == typ && e.size != 0 {
				size = e.size
			}
		}
		assert("sizeof(%s) == %d", structName(name), size)
		for i := range typ.NumField() {
			f := typ.Field(i)
			assert("offsetof(%s, %s) == %d", structName(name), snake(f.Name), f.Offset)
			assert("sizeof(((%s *)0)->%s) == %d", structName(name), snake(f.Name), f.Type.Size())
		}
	}
	for field, at := range map[string]int{"elem_size": 0, "mask": 4, "producer": 128, "consumer": 256, "arm": 260, "data": 384} {
		assert("offsetof(struct roce_xdp_ring, %s) == %d", field, at)
	}
	assert("offsetof(struct roce_xdp_bells, cpu) == 64 && offsetof(struct roce_xdp_bells, leaf) == 128")
	assert("ROCE_XDP_ARM_NONE == %d && ROCE_XDP_ARM_NEXT == %d && ROCE_XDP_ARM_SOLICITED == %d", queue.ArmNone, queue.ArmNext, queue.ArmSolicited)
	assert("ROCE_XDP_WORKER_AWAKE == %d && ROCE_XDP_WORKER_ASLEEP == %d", queue.WorkerAwake, queue.WorkerAsleep)
	assert("ROCE_XDP_OP_CM_COUNTERS == %d && ROCE_XDP_STATUS_OTHER == %d && ROCE_XDP_MAGIC == %du", proto.OpCMCounters, proto.StatusOther, proto.Magic)
	src := filepath.Join(t.TempDir(), "check.c")
	ok(t, os.WriteFile(src, []byte(b.String()), 0o600))
	for _, cc := range compilers {
		for _, std := range []string{"c11", "gnu17"} {
			out, err := exec.CommandContext(t.Context(), cc, "-std="+std, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I", filepath.Join(root, "include"), src).CombinedOutput()
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", cc, std, err, out)
			}
		}
	}
}

// at is a field's bytes of an element.
func at(t *testing.T, slot []byte, v any, field string) []byte {
	t.Helper()
	f, found := reflect.TypeOf(v).FieldByName(field)
	if !found {
		t.Fatalf("%T has no field %s", v, field)
	}
	return slot[f.Offset : f.Offset+f.Type.Size()]
}

// fill gives each field another value.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		n := uint64(i+1) * 0x0101010101010101
		if f.CanInt() {
			f.SetInt(int64(n))
			continue
		}
		f.SetUint(n & (1<<(8*f.Type().Size()) - 1))
	}
}

// Elements are in queues where the structures have them.
func TestElementsAreStructures(t *testing.T) {
	var c queue.CQE
	var s queue.SendWQE
	var r queue.RecvWQE
	e := queue.SGE{}
	cqe, send, recv := make([]byte, queue.CQESize), make([]byte, queue.SendElemSize(1, 0)), make([]byte, queue.RecvElemSize(1))
	for _, v := range []any{&c, &s, &r, &e} {
		fill(reflect.ValueOf(v).Elem())
	}
	queue.PutCQE(cqe, &c)
	queue.PutSend(send, &s)
	queue.PutRecv(recv, &r)
	queue.PutSendSGE(send, 0, e)
	for _, tc := range []struct {
		v    any
		slot []byte
	}{{c, cqe}, {s, send}, {r, recv}, {e, send[96:]}} {
		v := reflect.ValueOf(tc.v)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			b := at(t, tc.slot, tc.v, name)
			for _, got := range b {
				if got != byte(i+1) {
					t.Errorf("%T.%s is %x in the queue", tc.v, name, b)
					break
				}
			}
		}
	}
}

// A ring has its words where the header says.
func TestRingIsTheStructure(t *testing.T) {
	mem := make([]byte, 8192)
	r, err := queue.Format(mem, 4, 64)
	ok(t, err)
	p, c := queue.NewProducer(r), queue.NewConsumer(r)
	p.Slot(1)[0] = 42
	p.Publish(3)
	c.Release(2)
	r.Arm().Store(queue.ArmSolicited)
	for name, w := range map[string]struct{ off, want int }{
		"elem_size": {0, 64}, "mask": {4, 3}, "producer": {128, 3}, "consumer": {256, 2}, "arm": {260, queue.ArmSolicited}, "data[1]": {384 + 64, 42},
	} {
		if got := binary.LittleEndian.Uint32(mem[w.off:]); got != uint32(w.want) {
			t.Errorf("%s at %d is %d, want %d", name, w.off, got, w.want)
		}
	}
}
