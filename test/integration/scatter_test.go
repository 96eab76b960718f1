package integration_test

import (
	"bytes"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestScatter moves messages that are gathered from, and scattered to, as many
// pieces as a work request takes, of lengths that fit neither packets nor words.
func TestScatter(t *testing.T) {
	r := newRig(t, netns.PairOptions{MTU: 9000}, nil)
	p := r.pair(t, verbstest.Options{SGE: verbs.MaxSGE})
	const stride = 4000
	// pieces names 32 pieces of 1 to n bytes of e, stride apart, and their sum.
	pieces := func(e *verbstest.End, n int) (list []verbs.SGE, sum int) {
		for i := range verbs.MaxSGE {
			size := 1 + i*(n-1)/(verbs.MaxSGE-1)
			list = append(list, e.MR.SGE(i*stride, size))
			sum += size
		}
		return list, sum
	}
	// bytesOf concatenates what pieces names.
	bytesOf := func(e *verbstest.End, list []verbs.SGE) (b []byte) {
		for _, s := range list {
			at := int(s.Addr - e.MR.Addr())
			b = append(b, e.Buf[at:at+int(s.Length)]...)
		}
		return b
	}
	for _, n := range []int{1, 7, 100, 3999} {
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead} {
			verbstest.Fill(p.A.Buf, uint64(n))
			verbstest.Fill(p.B.Buf, uint64(n)+1)
			near, sum := pieces(p.A, n)
			far := []verbs.SGE{p.B.MR.SGE(0, sum)}
			if op == verbs.OpSend {
				far, _ = pieces(p.B, n)
				must(t, p.B.QP.PostRecv(&verbs.RecvWR{SGList: far}))
			}
			want := bytesOf(p.A, near)
			if op == verbs.OpRDMARead {
				want = bytesOf(p.B, far)
			}
			must(t, p.A.Post(verbs.SendWR{Opcode: op, SGList: near, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
			expect(t, p.A, verbs.WCSuccess)
			if op == verbs.OpSend {
				if wc := expect(t, p.B, verbs.WCSuccess); int(wc.ByteLen) != sum {
					t.Errorf("%d bytes received, want %d", wc.ByteLen, sum)
				}
			}
			if !bytes.Equal(bytesOf(p.A, near), want) || !bytes.Equal(bytesOf(p.B, far), want) {
				t.Errorf("%v of pieces of up to %d bytes: memory differs", op, n)
			}
		}
	}
}

// TestInline posts batches of inline requests from memory that changes as soon
// as they are posted.
func TestInline(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	p := r.pair(t, verbstest.Options{Inline: verbs.MaxInline})
	var want []byte
	var batch []verbs.SendWR
	data := make([]byte, verbs.MaxInline)
	for i, n := range []int{0, 1, 3, 4, 63, 64, 65, verbs.MaxInline - 1, verbs.MaxInline} {
		verbstest.Fill(data[:n], uint64(i))
		batch = append(batch, verbs.SendWR{
			WRID: uint64(i), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendInline | verbs.SendSignaled, InlineData: bytes.Clone(data[:n]),
			RemoteAddr: p.B.MR.Addr() + uint64(len(want)), RKey: p.B.MR.RKey(),
		})
		want = append(want, data[:n]...)
	}
	n, err := p.A.QP.PostSendBatch(batch)
	must(t, err)
	for i := range batch {
		clear(batch[i].InlineData)
	}
	for i := range n {
		if _, err := p.A.Done(uint64(i), verbs.WCRDMAWrite); err != nil {
			t.Fatal(err)
		}
	}
	if n != len(batch) || !bytes.Equal(p.B.Buf[:len(want)], want) {
		t.Errorf("%d of %d posted; memory equal: %v", n, len(batch), bytes.Equal(p.B.Buf[:len(want)], want))
	}
}
