package main

import (
	"context"
	"fmt"
	"time"
)

// encounters are the rows of the connection manager, each with a request of ours and
// with one of the guest's.
var encounters = []struct {
	name string
	run  func(*meeting) error
}{
	{"CONNECT", connectAndTransfer},
	{"DISCONNECT_OURS", disconnectHere},
	{"DISCONNECT_THEIRS", disconnectThere},
	{"NO_LISTENER", noListener},
	{"REJECT", reject},
	{"WITHDRAW", withdraw},
	{"KILLED", killed},
	{"DEVICE_CLOSED", deviceClosed},
	{"SEQUENCE_200", crowd(200, 1)},
	{"CROWD_16", crowd(16, 16)},
	{"UD", datagrams},
	{"UD_REFUSED", datagramsRefused},
}

// cmRows are all of them over both families.
func cmRows() []row {
	var all []row
	for _, f := range families {
		for _, e := range encounters {
			for _, dial := range []bool{true, false} {
				role := "passive"
				if dial {
					role = "active"
				}
				// A port of its own: the process of the row before may still be ending.
				m := meeting{family: f, dial: dial, port: uint16(7500 + len(all))}
				all = append(all, row{
					name: fmt.Sprintf("cm/%s/%s/%s", e.name, role, f.name), group: "cm", limit: 2 * time.Minute,
					run: func(ctx context.Context, b *bench) error { return b.meet(ctx, m, e.run) },
				})
			}
		}
	}
	return all
}
