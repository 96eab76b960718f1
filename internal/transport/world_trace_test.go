package transport_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// worldTrace logs what happens, a line each: what a replay of one seed shows.
type worldTrace struct{ t testing.TB }

// traceOf is the trace of a test that runs one simulation with -v, else nil.
func traceOf(t testing.TB) worldRecorder {
	if *pairSeed != 0 && testing.Verbose() {
		return worldTrace{t}
	}
	return nil
}

func (r worldTrace) frame(at mono.Time, host int, outbound bool, frame []byte) {
	way := "<-"
	if outbound {
		way = "->"
	}
	r.t.Logf("%10v %d %s %s", at.Sub(pairBegin), host, way, describeFrame(frame))
}

func (r worldTrace) note(at mono.Time, host int, text string) {
	r.t.Logf("%10v %d    %s", at.Sub(pairBegin), host, text)
}

// describeFrame is a frame in words.
func describeFrame(frame []byte) string {
	var p wire.Packet
	if r := p.Parse(frame); r != wire.Accept {
		return "damaged: " + r.String()
	}
	return describePacket(p.BTH, p.PayloadLen)
}
