package main

import (
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// large are rows of one message of 16 MiB, thousands of packets.
var large = []struct {
	name string
	run  func(t *trial, n int, seed string)
}{
	{"SEND", send(verbs.OpSend)},
	{"RDMA_WRITE", write(verbs.OpRDMAWrite)},
	{"RDMA_READ", read},
}

// largeTime is how long an emulated guest may take for such a message.
const largeTime = 2 * time.Minute

func largeRows() []row {
	var all []row
	for _, f := range families {
		for _, mtu := range mtus {
			for _, op := range large {
				for _, ours := range []bool{true, false} {
					p := usual(f, mtu)
					p.size, p.wait = largeRegion, largeTime
					r := trialRow("large", op.name, ours, p, func(t *trial) {
						t.from, t.to = largeArea, largeArea
						op.run(t, largeSize, "large")
					})
					r.limit = largeTime + rowTime
					all = append(all, r)
				}
			}
		}
	}
	return all
}
