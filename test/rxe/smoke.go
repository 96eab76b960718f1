package main

// smoke are the rows of -smoke, which `make test` runs: one of each group, both roles
// of rping among them, over both families and path MTUs. They share one capture.
var smoke = []string{
	"pingpong/client/IPv4/mtu1024/64B",
	"rping/client/IPv4/mtu4096/4096B",
	"rping/server/IPv6/mtu1024/4096B",
	"daemon/pingpong/client/IPv4/mtu1024/65536B/-c-e",
	"cm/CONNECT/active/IPv6",
	"cm/REJECT/passive/IPv4",
	"ops/MIXED/requester/IPv4/mtu4096",
	"ops/SEND/responder/IPv6/mtu1024",
	"large/RDMA_WRITE/requester/IPv4/mtu4096",
	"impaired/RDMA_READ/requester/IPv6/mtu1024",
	"errors/WRITE_BAD_RKEY/responder/IPv4/mtu1024",
	"loss/READ_RESPONSE_MIDDLE/requester/IPv6/mtu4096",
	"vlan/SEND/requester/IPv4/mtu1024",
}

// smokeRows are those of all, as one group.
func smokeRows(all []row) []row {
	want := map[string]bool{}
	for _, name := range smoke {
		want[name] = true
	}
	var chosen []row
	for _, r := range all {
		if want[r.name] {
			r.group = "smoke"
			chosen = append(chosen, r)
		}
	}
	return chosen
}
