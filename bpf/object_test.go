package bpf

import (
	"bytes"
	"embed"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// objects are both committed objects: only one of them is part of the package.
//
//go:embed steer_bpfel.o steer_bpfeb.o
var objects embed.FS

func eachObject(t *testing.T, f func(t *testing.T, raw []byte, spec *ebpf.CollectionSpec)) {
	for _, name := range []string{"steer_bpfel.o", "steer_bpfeb.o"} {
		t.Run(name, func(t *testing.T) {
			raw, err := objects.ReadFile(name)
			check(t, err)
			spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(raw))
			check(t, err)
			f(t, raw, spec)
		})
	}
}

func TestMapsOfObjects(t *testing.T) {
	type shape struct {
		Type             ebpf.MapType
		Key, Value, Size uint32
		Flags            uint32
	}
	const mmapable = 1 << 10
	want := map[string]shape{
		"xsks":      {ebpf.XSKMap, 4, 4, DefaultQueues, 0},
		"qpns":      {ebpf.Array, 4, 8, QPNWords, mmapable},
		"addresses": {ebpf.Hash, GIDSize, 4, MaxAddresses, 0},
		"config":    {ebpf.Array, 4, 4 * configWords, 1, mmapable},
		"counters":  {ebpf.PerCPUArray, 4, 8, VerdictCount, 0},
	}
	if QPNWords*64 != QPNMulticast+1 {
		t.Errorf("%d words do not hold the 24-bit queue pair numbers", QPNWords)
	}
	eachObject(t, func(t *testing.T, _ []byte, spec *ebpf.CollectionSpec) {
		got := map[string]shape{}
		for name, m := range spec.Maps {
			got[name] = shape{m.Type, m.KeySize, m.ValueSize, m.MaxEntries, m.Flags}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

// TestNamesOfObjects: the kernel keeps 15 bytes of a name, and bpftool shows them.
func TestNamesOfObjects(t *testing.T) {
	eachObject(t, func(t *testing.T, _ []byte, spec *ebpf.CollectionSpec) {
		names := []string{}
		for name := range spec.Maps {
			names = append(names, name)
		}
		for name, p := range spec.Programs {
			names = append(names, name)
			if p.Type != ebpf.XDP || p.SectionName != "xdp.frags" || p.License != "Dual BSD/GPL" {
				t.Errorf("program %s: type %v, section %s, license %q", name, p.Type, p.SectionName, p.License)
			}
		}
		for _, name := range names {
			if len(name) > 15 {
				t.Errorf("name %s has %d bytes", name, len(name))
			}
		}
	})
}

// TestObjectsAreRelocatable looks for paths of the machine that built them.
func TestObjectsAreRelocatable(t *testing.T) {
	eachObject(t, func(t *testing.T, raw []byte, spec *ebpf.CollectionSpec) {
		for _, path := range []string{"/home/", "/root/", "/work/", "/tmp/", "/usr/", "clang version"} {
			if bytes.Contains(raw, []byte(path)) {
				t.Errorf("contains %q", path)
			}
		}
		var line *btf.Line
		for _, ins := range spec.Programs["steer"].Instructions {
			if l, ok := ins.Source().(*btf.Line); ok {
				line = l
				if strings.HasPrefix(l.FileName(), "/") {
					t.Fatalf("absolute path %s", l.FileName())
				}
			}
		}
		if line == nil {
			t.Error("no line information: the verifier's log would not name the source")
		}
	})
}
