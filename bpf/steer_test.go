package bpf

import "testing"

// steerCases are frames and their verdicts with everything of loadForUs known,
// and with the default actions.
var steerCases = []struct {
	name  string
	frame []byte
	want  Verdict
}{
	// Frames for us.
	{"IPv4", roce(), VerdictRedirect},
	{"IPv6", roce6(), VerdictRedirect},
	{"IPv6 link-local", roce6(to("fe80::1")), VerdictRedirect},
	{"IPv6 class and flow label", roce6(versionByte(0x6f)), VerdictRedirect},
	{"no payload", roce(payload(0)), VerdictRedirect},
	{"no payload, IPv6", roce6(payload(0)), VerdictRedirect},
	{"Ethernet padding behind the ICRC", roce(payload(0), padding(2)), VerdictRedirect},
	{"much behind the ICRC", roce6(padding(100)), VerdictRedirect},
	{"payload of 4096", roce(payload(4096)), VerdictRedirect},
	{"payload of 4096, IPv6, two tags", roce6(payload(4096), tagged(0x88a8), tagged(0x8100)), VerdictRedirect},
	{"DF set", roce(fragment(0x4000)), VerdictRedirect},
	{"solicited event, M, pad count", roce(bthFlags(0xf0)), VerdictRedirect},
	{"FECN, BECN and reserved bits", roce(bthByte4(0xff)), VerdictRedirect},

	// VLAN tags.
	{"802.1Q", roce(tagged(0x8100)), VerdictRedirect},
	{"802.1Q, IPv6", roce6(tagged(0x8100)), VerdictRedirect},
	{"802.1ad", roce(tagged(0x88a8)), VerdictRedirect},
	{"802.1ad and 802.1Q", roce(tagged(0x88a8), tagged(0x8100)), VerdictRedirect},
	{"802.1Q twice, IPv6", roce6(tagged(0x8100), tagged(0x8100)), VerdictRedirect},
	{"three tags", roce(tagged(0x88a8), tagged(0x8100), tagged(0x8100)), VerdictPassEthertype},
	{"tag with unknown TPID", roce(tagged(0x9100)), VerdictPassEthertype},
	{"tagged ARP", roce(tagged(0x8100), etherType(0x0806)), VerdictPassEthertype},

	// Queue pair numbers.
	{"QPN 1", roce(qpn(1)), VerdictRedirect},
	{"QPN 63", roce(qpn(63)), VerdictRedirect},
	{"QPN 64", roce(qpn(64)), VerdictRedirect},
	{"QPN in the middle", roce(qpn(0x800000)), VerdictRedirect},
	{"last QPN", roce(qpn(0xfffffe)), VerdictRedirect},
	{"QPN 0", roce(qpn(0)), VerdictDropQPN},
	{"unknown QPN", roce(qpn(0x12)), VerdictDropQPN},
	{"unknown QPN, IPv6", roce6(qpn(0x12)), VerdictDropQPN},
	{"unknown QPN beside a known one", roce(qpn(62)), VerdictDropQPN},
	{"unknown QPN 64 above a known one", roce(qpn(ourQPN + 64)), VerdictDropQPN},
	{"known QPN but for its highest bit", roce(qpn(0x800000 | ourQPN)), VerdictDropQPN},
	{"unknown QPN with reserved bits", roce(qpn(0x12), bthByte4(0x11)), VerdictDropQPN},

	// Multicast.
	{"IPv4 group", roce(to("239.1.2.3"), qpn(0xffffff)), VerdictRedirect},
	{"IPv6 group", roce6(to("ff0e::1:2"), qpn(0xffffff)), VerdictRedirect},
	{"group with a queue pair's number", roce(to("239.1.2.3")), VerdictDropQPN},
	{"IPv6 group with a queue pair's number", roce6(to("ff0e::1:2")), VerdictDropQPN},
	{"group with an unknown queue pair's number", roce(to("239.1.2.3"), qpn(0x12)), VerdictDropQPN},
	{"group that is not ours", roce(to("239.1.2.4"), qpn(0xffffff)), VerdictPassAddress},
	{"IPv6 group that is not ours", roce6(to("ff0e::1:3"), qpn(0xffffff)), VerdictPassAddress},
	{"multicast QPN to our own address", roce(qpn(0xffffff)), VerdictDropQPN},
	{"multicast QPN to our own IPv6 address", roce6(qpn(0xffffff)), VerdictDropQPN},

	// Frames of others.
	{"Ethernet header alone", roce()[:14], VerdictPassTruncated},
	{"ends in the IPv4 header", roce()[:33], VerdictPassTruncated},
	{"ends in the IPv6 header", roce6()[:53], VerdictPassTruncated},
	{"ARP", roce(etherType(0x0806)), VerdictPassEthertype},
	{"RoCEv1", roce(etherType(0x8915)), VerdictPassEthertype},
	{"IPv6 EtherType on IPv4", roce(etherType(0x86dd)), VerdictPassIPHeader},
	{"IPv4 EtherType on IPv6", roce6(etherType(0x0800)), VerdictPassIPHeader},
	{"IPv4 version 5", roce(versionByte(0x55)), VerdictPassIPHeader},
	{"IPv4 version 0", roce(versionByte(0x05)), VerdictPassIPHeader},
	{"IPv4 header of four words", roce(versionByte(0x44)), VerdictPassIPHeader},
	{"IPv6 version 4", roce6(versionByte(0x40)), VerdictPassIPHeader},
	{"IPv6 version 7", roce6(versionByte(0x70)), VerdictPassIPHeader},
	{"IPv4 with one word of options", roce(versionByte(0x46)), VerdictPassIPOptions},
	{"IPv4 with ten words of options", roce(versionByte(0x4f)), VerdictPassIPOptions},
	{"first fragment", roce(fragment(0x2000)), VerdictPassFragment},
	{"middle fragment", roce(fragment(0x2001)), VerdictPassFragment},
	{"last fragment", roce(fragment(0x1fff)), VerdictPassFragment},
	{"last fragment, DF set", roce(fragment(0x4001)), VerdictPassFragment},
	{"TCP", roce(protocol(6)), VerdictPassProtocol},
	{"ICMPv6", roce6(protocol(58)), VerdictPassProtocol},
	{"IPv6 hop-by-hop options", roce6(protocol(0)), VerdictPassProtocol},
	{"IPv6 fragment", roce6(protocol(44)), VerdictPassProtocol},
	{"RoCEv1's GRH", roce6(protocol(0x1b)), VerdictPassProtocol},
	{"UDP port 4790", roce(port(4790)), VerdictPassPort},
	{"UDP port 4791 with swapped bytes", roce6(port(0xb712)), VerdictPassPort},
	{"other IPv4 address", roce(to("10.0.0.2")), VerdictPassAddress},
	{"IPv4 broadcast", roce(to("255.255.255.255")), VerdictPassAddress},
	{"other IPv6 address", roce6(to("2001:db8::2")), VerdictPassAddress},
	{"our IPv4 address, compatible not mapped", roce6(to("::a00:1")), VerdictPassAddress},

	// Broken frames for us.
	{"UDP length 0", roce(udpLength(0)), VerdictDropLength},
	{"UDP length less than IP's", roce(udpLength(36)), VerdictDropLength},
	{"UDP length more than IP's", roce(udpLength(44)), VerdictDropLength},
	{"IP length less than its header", roce(ipLength(19)), VerdictDropLength},
	{"IP length 0", roce(ipLength(0)), VerdictDropLength},
	{"IP and UDP agree on 0 bytes", roce(ipLength(20), udpLength(0)), VerdictDropLength},
	{"IPv6 payload length 0", roce6(ipLength(0)), VerdictDropLength},
	{"lengths beyond the frame", roce(ipLength(64), udpLength(44)), VerdictDropLength},
	{"lengths far beyond the frame", roce6(ipLength(0xfffc), udpLength(0xfffc)), VerdictDropLength},
	{"lengths within Ethernet's padding", roce(padding(4), ipLength(64), udpLength(44)), VerdictRedirect},
	{"no room for the ICRC", roce(ipLength(40), udpLength(20)), VerdictDropLength},
	{"BTH and ICRC only", roce(ipLength(44), udpLength(24)), VerdictRedirect},
	{"not whole words", roce(payload(17)), VerdictDropLength},
	{"not whole words, IPv6", roce6(payload(18)), VerdictDropLength},
	{"transport version 1", roce(bthFlags(0x01)), VerdictDropVersion},
	{"transport version 15", roce6(bthFlags(0x0f)), VerdictDropVersion},
	{"version before QPN", roce(bthFlags(0x08), qpn(0x12)), VerdictDropVersion},
}

func TestSteer(t *testing.T) {
	s := loadForUs(t)
	for _, c := range steerCases {
		t.Run(c.name, func(t *testing.T) {
			if got := verdictOf(t, s, c.frame, nil); got != c.want {
				t.Errorf("verdict %v, want %v", got, c.want)
			}
		})
	}
}

// TestEveryVerdictHasACase keeps the tables complete when verdicts are added.
func TestEveryVerdictHasACase(t *testing.T) {
	seen := map[Verdict]bool{}
	for _, c := range steerCases {
		seen[c.want] = true
	}
	for _, c := range actionCases {
		seen[c.want] = true
	}
	for v := range Verdict(VerdictCount) {
		if !seen[v] {
			t.Errorf("no case for %v", v)
		}
	}
}

// actionCases are frames that cannot be delivered, and what is configured for them.
var actionCases = []struct {
	name                 string
	unknownQPN, noSocket Action
	frame                []byte
	socket               bool
	want                 Verdict
}{
	{"unknown queue pair, drop", ActionDrop, ActionPass, roce(qpn(0x12)), true, VerdictDropQPN},
	{"unknown queue pair, pass", ActionPass, ActionDrop, roce(qpn(0x12)), true, VerdictPassQPN},
	{"QPN 0, pass", ActionPass, ActionDrop, roce6(qpn(0)), true, VerdictPassQPN},
	{"no socket, drop", ActionPass, ActionDrop, roce(), false, VerdictDropNoSocket},
	{"no socket, pass", ActionDrop, ActionPass, roce6(), false, VerdictPassNoSocket},
	{"no socket for a group, pass", ActionDrop, ActionPass, roce(to("239.1.2.3"), qpn(0xffffff)), false, VerdictPassNoSocket},
	{"both unknown: the queue pair decides", ActionPass, ActionDrop, roce(qpn(0x12)), false, VerdictPassQPN},
	{"deliverable, whatever is configured", ActionPass, ActionPass, roce(), true, VerdictRedirect},
	{"broken frames are not passed", ActionPass, ActionPass, roce(payload(17)), true, VerdictDropLength},
}

// TestActions changes the configuration of one loaded program as it runs.
func TestActions(t *testing.T) {
	s := loadForUs(t)
	fd := receiver(t)
	for _, c := range actionCases {
		t.Run(c.name, func(t *testing.T) {
			check(t, s.SetUnknownQPN(c.unknownQPN))
			check(t, s.SetNoSocket(c.noSocket))
			if c.socket {
				check(t, s.Register(0, fd))
			} else {
				check(t, s.Unregister(0))
			}
			if got := verdictOf(t, s, c.frame, nil); got != c.want {
				t.Errorf("verdict %v, want %v", got, c.want)
			}
		})
	}
}

// TestActionsFromOptions loads with the actions instead.
func TestActionsFromOptions(t *testing.T) {
	require(t, ProbeFrags())
	for _, a := range []Action{ActionDrop, ActionPass} {
		t.Run(a.String(), func(t *testing.T) {
			s := load(t, &Options{UnknownQPN: a, NoSocket: a})
			check(t, s.AddAddress(ours4))
			check(t, s.AddQPN(ourQPN))
			wantQPN, wantSocket := VerdictDropQPN, VerdictDropNoSocket
			if a == ActionPass {
				wantQPN, wantSocket = VerdictPassQPN, VerdictPassNoSocket
			}
			if got := verdictOf(t, s, roce(qpn(0x12)), nil); got != wantQPN {
				t.Errorf("unknown queue pair: verdict %v, want %v", got, wantQPN)
			}
			if got := verdictOf(t, s, roce(), nil); got != wantSocket {
				t.Errorf("no socket: verdict %v, want %v", got, wantSocket)
			}
		})
	}
}

// TestUnknownAction writes into the configuration what no Action stands for, as
// another program that has the pinned map could.
func TestUnknownAction(t *testing.T) {
	s := loadForUs(t)
	check(t, s.Unregister(0))
	for _, action := range []uint32{0, 3, xdpRedirect, 5, 1 << 31} {
		s.config.words[configUnknownQPN].Store(action)
		s.config.words[configNoSocket].Store(action)
		if got := verdictOf(t, s, roce(qpn(0x12)), nil); got != VerdictDropQPN {
			t.Errorf("action %d for an unknown queue pair: verdict %v", action, got)
		}
		if got := verdictOf(t, s, roce(), nil); got != VerdictDropNoSocket {
			t.Errorf("action %d without a socket: verdict %v", action, got)
		}
	}
}
