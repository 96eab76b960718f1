/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the steering program and user space agree on. This header is the one
 * source: cmd/bpf2go-gen writes constants_gen.go from the macros whose names
 * begin with STEER_, so it wants plain numbers and the X(NAME, "text") form.
 */
#ifndef ROCE_XDP_STEER_H
#define ROCE_XDP_STEER_H

/* RoCEv2's UDP destination port (IBTA annex A17). */
#define STEER_UDP_PORT 4791

/* The queue pair number that multicast frames carry (IBTA vol. 1, 10.5.2). */
#define STEER_QPN_MULTICAST 0xffffff

/* Bytes of a GID: an IPv6 address, or ::ffff:a.b.c.d for IPv4. */
#define STEER_GID_SIZE 16

/* Addresses that the program can know: rxe's 1024 GIDs and 8192 groups. */
#define STEER_MAX_ADDRESSES 9216

/* Bit of an address's flags: it is a multicast group. */
#define STEER_ADDRESS_GROUP 1

/* One bit for each 24-bit queue pair number, in 64-bit words. */
#define STEER_QPN_WORDS 262144

/* Slots of the socket map unless user space asks for another number. */
#define STEER_DEFAULT_QUEUES 64

/*
 * Each verdict has a counter of the same name in lower case. The first word of
 * the name is what became of the frame. New verdicts go to the end: the numbers
 * are keys of a map that other programs may read.
 */
#define STEER_VERDICTS(X) \
	X(PASS_TRUNCATED, "ends inside its Ethernet, VLAN, IP or UDP header") \
	X(PASS_ETHERTYPE, "neither IPv4 nor IPv6 behind at most two VLAN tags") \
	X(PASS_IP_HEADER, "IP header whose version or header length is wrong") \
	X(PASS_IP_OPTIONS, "IPv4 with options, which RoCEv2 does not allow") \
	X(PASS_FRAGMENT, "IPv4 fragment") \
	X(PASS_PROTOCOL, "not UDP, or IPv6 with extension headers") \
	X(PASS_PORT, "UDP to another port than 4791") \
	X(PASS_ADDRESS, "RoCEv2 to an address that is not registered") \
	X(DROP_LENGTH, "RoCEv2 for us whose IP, UDP and frame lengths disagree") \
	X(DROP_VERSION, "RoCEv2 for us with another transport version than 0") \
	X(PASS_QPN, "RoCEv2 for us to an unknown queue pair, passed as configured") \
	X(DROP_QPN, "RoCEv2 for us to an unknown queue pair, dropped as configured") \
	X(PASS_NO_SOCKET, "no socket on this receive queue, passed as configured") \
	X(DROP_NO_SOCKET, "no socket on this receive queue, dropped as configured") \
	X(REDIRECT, "handed to the AF_XDP socket of the receive queue")

#endif
