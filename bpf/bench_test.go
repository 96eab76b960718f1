package bpf

import (
	"testing"

	"github.com/cilium/ebpf"
)

// BenchmarkSteer is the time of the program alone, without driver or redirect,
// as BPF_PROG_TEST_RUN measures it over many runs on one CPU.
func BenchmarkSteer(b *testing.B) {
	s := loadForUs(b)
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"redirect-IPv4", roce()},
		{"redirect-IPv6", roce6()},
		{"redirect-IPv6-two-tags", roce6(tagged(0x88a8), tagged(0x8100))},
		{"drop-unknown-QPN", roce(qpn(0x12))},
		{"pass-TCP", roce(protocol(6))},
		{"pass-other-address", roce(to("10.0.0.2"))},
		{"pass-ARP", roce(etherType(0x0806))},
	} {
		b.Run(c.name, func(b *testing.B) {
			var nanos int64
			for b.Loop() {
				_, each, err := s.objects.Steer.Benchmark(c.frame, 1000, nil)
				check(b, err)
				nanos += int64(each)
			}
			b.ReportMetric(float64(nanos)/float64(b.N), "ns/frame")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkEmpty is the same for a program that does nothing: the cost of the
// measurement, to be taken off the results above.
func BenchmarkEmpty(b *testing.B) {
	prog, err := ebpf.NewProgram(emptyProgram("empty"))
	require(b, err)
	defer prog.Close()
	frame := roce()
	var nanos int64
	for b.Loop() {
		_, each, err := prog.Benchmark(frame, 1000, nil)
		check(b, err)
		nanos += int64(each)
	}
	b.ReportMetric(float64(nanos)/float64(b.N), "ns/frame")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkAddQPN(b *testing.B) {
	s := load(b, nil)
	for b.Loop() {
		check(b, s.AddQPN(ourQPN))
	}
}
