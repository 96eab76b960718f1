package memory

import (
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

func BenchmarkAccess(b *testing.B) {
	tab := newTable(1024)
	var keys [1024]uint32
	for i := range keys {
		keys[i] = mustRegister(b, tab, uint64(i)<<12, make([]byte, 4096), allRemote).RKey()
	}
	for i := 0; b.Loop(); i++ {
		k := i & 1023
		if _, ok := tab.Access(keys[k], 1, ibv.AccessRemoteWrite, uint64(k)<<12, 1024); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	mem := alignedBytes(8192)
	tab := newTable(2)
	direct := mustRegister(b, tab, 0, mem, allRemote)
	guarded, err := tab.RegisterRevocable(1, 0, mem, allRemote)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{8, 64, 1024, 4096} {
		src := make([]byte, n)
		for _, bc := range []struct {
			name  string
			write func() bool
		}{
			{"plain", func() bool { return direct.Write(0, src) }},
			{"final", func() bool { return direct.WriteFinal(0, src) }},
			{"final_odd", func() bool { return direct.WriteFinal(3, src) }},
			{"guarded", func() bool { return guarded.Write(0, src) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", bc.name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					if !bc.write() {
						b.Fatal("refused")
					}
				}
			})
		}
	}
}
