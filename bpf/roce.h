/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The headers in front of a RoCEv2 payload. The kernel's own iphdr and ipv6hdr
 * are not used: their bit fields follow the byte order of the build machine's
 * headers, which is the wrong one for one of the two objects that are built.
 */
#ifndef ROCE_XDP_ROCE_H
#define ROCE_XDP_ROCE_H

#include <linux/types.h>

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_VLAN 0x8100 /* IEEE 802.1Q customer tag */
#define ETHERTYPE_SVLAN 0x88a8 /* IEEE 802.1ad service tag */

#define IP_PROTOCOL_UDP 17

#define IPV4_VERSION_IHL 0x45 /* version 4, five words: no options */
#define IPV4_FRAGMENT 0x3fff /* more fragments, or an offset */
#define IPV4_HEADER_SIZE 20

struct ethernet {
	__u8 dst[6];
	__u8 src[6];
	__be16 type;
};

struct vlan {
	__be16 tci;
	__be16 type;
};

struct ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 total_length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__sum16 checksum;
	__be32 src;
	__be32 dst;
};

struct ipv6 {
	__be32 version_class_flow;
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__be32 src[4];
	__be32 dst[4];
};

struct udp {
	__be16 src;
	__be16 dst;
	__be16 length;
	__sum16 checksum;
};

/* Base transport header (IBTA vol. 1, 9.2). */
struct bth {
	__u8 opcode;
	__u8 flags; /* SE, M, PadCnt, and TVer in the low four bits */
	__be16 pkey;
	__be32 dest_qp; /* the high byte holds FECN, BECN and reserved bits */
	__be32 psn; /* the high byte holds AckReq and reserved bits */
};

#define BTH_TVER_MASK 0x0f
#define BTH_QPN_MASK 0x00ffffff

/* The ICRC that ends every packet (IBTA annex A17). */
#define ICRC_SIZE 4

#endif
