//go:build ignore

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Steers RoCEv2 frames that are addressed to us into AF_XDP sockets and leaves
 * every other frame to the kernel. It decides by the outer headers alone: the
 * ICRC and all else is checked by the socket's owner.
 *
 * A loader without CAP_PERFMON must be able to load this. The verifier then
 * refuses variable offsets into a packet, and arithmetic between and comparison
 * of pointers. That is why the parser is inlined once for each number of VLAN
 * tags with constant offsets, and why header() never returns NULL.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "roce.h"
#include "steer.h"

struct frame {
	struct xdp_md *ctx;
	__u32 size; /* of all buffers together */
};

/*
 * A header that the caller knows to be within the frame: in place where the
 * linear part holds it, else copied from the buffers behind that.
 */
static __always_inline const void *header(const struct frame *frame, const __u32 offset, void *copy,
					  const __u32 size)
{
	const void *start = (void *)(long)frame->ctx->data + offset;

	if (start + size <= (void *)(long)frame->ctx->data_end)
		return start;
	bpf_xdp_load_bytes(frame->ctx, offset, copy, size);
	return copy;
}

/* An IPv4 address as a GID: ::ffff:a.b.c.d. */
static __always_inline struct gid ipv4_gid(__be32 address)
{
	return (struct gid){ { 0, 0, bpf_htonl(0xffff), address } };
}

/* A multicast group is known by its address: all frames to it have the same QPN,
 * which nothing else has. */
static __always_inline int is_known(__u32 qpn, const struct address *dst)
{
	if (dst->flags & STEER_ADDRESS_GROUP)
		return qpn == STEER_QPN_MULTICAST;
	return qpn_is_known(qpn);
}

/* The verdict on a frame whose UDP header begins at offset. */
static __always_inline enum verdict steer_udp(const struct frame *frame, const __u32 offset,
					      const struct gid *dst, __u32 ip_payload)
{
	struct udp udp_copy;
	struct bth bth_copy;
	const struct udp *udp;
	const struct bth *bth;
	const struct address *address;
	const struct config *conf;
	__u32 zero = 0, length;

	if (offset + sizeof(*udp) > frame->size)
		return VERDICT_PASS_TRUNCATED;
	udp = header(frame, offset, &udp_copy, sizeof(*udp));
	if (udp->dst != bpf_htons(STEER_UDP_PORT))
		return VERDICT_PASS_PORT;
	address = bpf_map_lookup_elem(&addresses, dst);
	if (!address)
		return VERDICT_PASS_ADDRESS;

	/* Packets are whole words from BTH to ICRC (IBTA annex A17); Ethernet may pad
	 * behind them. */
	length = bpf_ntohs(udp->length);
	if (length != ip_payload || length % 4 ||
	    length < sizeof(*udp) + sizeof(*bth) + ICRC_SIZE || offset + length > frame->size)
		return VERDICT_DROP_LENGTH;
	bth = header(frame, offset + sizeof(*udp), &bth_copy, sizeof(*bth));
	if (bth->flags & BTH_TVER_MASK)
		return VERDICT_DROP_VERSION;

	conf = bpf_map_lookup_elem(&config, &zero);
	if (!conf) /* cannot be: the array has this element */
		return VERDICT_DROP_QPN;
	if (!is_known(bpf_ntohl(bth->dest_qp) & BTH_QPN_MASK, address))
		return passes(conf->unknown_qpn) ? VERDICT_PASS_QPN : VERDICT_DROP_QPN;
	if (bpf_redirect_map(&xsks, frame->ctx->rx_queue_index, XDP_DROP) == XDP_REDIRECT)
		return VERDICT_REDIRECT;
	return passes(conf->no_socket) ? VERDICT_PASS_NO_SOCKET : VERDICT_DROP_NO_SOCKET;
}

static __always_inline enum verdict steer_ipv4(const struct frame *frame, const __u32 offset)
{
	struct ipv4 copy;
	const struct ipv4 *ip;
	struct gid dst;

	if (offset + sizeof(*ip) > frame->size)
		return VERDICT_PASS_TRUNCATED;
	ip = header(frame, offset, &copy, sizeof(*ip));
	if (ip->version_ihl != IPV4_VERSION_IHL) {
		if (ip->version_ihl >> 4 == 4 && ip->version_ihl > IPV4_VERSION_IHL)
			return VERDICT_PASS_IP_OPTIONS;
		return VERDICT_PASS_IP_HEADER;
	}
	if (ip->fragment & bpf_htons(IPV4_FRAGMENT))
		return VERDICT_PASS_FRAGMENT;
	if (ip->protocol != IP_PROTOCOL_UDP)
		return VERDICT_PASS_PROTOCOL;
	dst = ipv4_gid(ip->dst);
	/* A total length below the header's wraps, and then disagrees with UDP's. */
	return steer_udp(frame, offset + sizeof(*ip), &dst,
			 bpf_ntohs(ip->total_length) - (__u32)sizeof(*ip));
}

static __always_inline enum verdict steer_ipv6(const struct frame *frame, const __u32 offset)
{
	struct ipv6 copy;
	const struct ipv6 *ip;
	struct gid dst;

	if (offset + sizeof(*ip) > frame->size)
		return VERDICT_PASS_TRUNCATED;
	ip = header(frame, offset, &copy, sizeof(*ip));
	if (bpf_ntohl(ip->version_class_flow) >> 28 != 6)
		return VERDICT_PASS_IP_HEADER;
	if (ip->next_header != IP_PROTOCOL_UDP)
		return VERDICT_PASS_PROTOCOL;
	__builtin_memcpy(&dst, ip->dst, sizeof(dst));
	return steer_udp(frame, offset + sizeof(*ip), &dst, bpf_ntohs(ip->payload_length));
}

static __always_inline int is_vlan(__be16 type)
{
	return type == bpf_htons(ETHERTYPE_VLAN) || type == bpf_htons(ETHERTYPE_SVLAN);
}

/* The verdict on a frame whose network header begins at offset. */
static __always_inline enum verdict steer_network(const struct frame *frame, const __u32 offset,
						  __be16 type)
{
	if (type == bpf_htons(ETHERTYPE_IPV4))
		return steer_ipv4(frame, offset);
	if (type == bpf_htons(ETHERTYPE_IPV6))
		return steer_ipv6(frame, offset);
	return VERDICT_PASS_ETHERTYPE;
}

/* The verdict on any frame. Tags beyond the second are an EtherType as any other. */
static __always_inline enum verdict steer_frame(const struct frame *frame)
{
	const __u32 first = sizeof(struct ethernet), second = first + sizeof(struct vlan);
	const __u32 third = second + sizeof(struct vlan);
	struct ethernet ethernet_copy;
	struct vlan copy;
	const struct ethernet *ethernet;
	const struct vlan *vlan;

	if (first > frame->size)
		return VERDICT_PASS_TRUNCATED;
	ethernet = header(frame, 0, &ethernet_copy, sizeof(*ethernet));
	if (!is_vlan(ethernet->type))
		return steer_network(frame, first, ethernet->type);
	if (second > frame->size)
		return VERDICT_PASS_TRUNCATED;
	vlan = header(frame, first, &copy, sizeof(*vlan));
	if (!is_vlan(vlan->type))
		return steer_network(frame, second, vlan->type);
	if (third > frame->size)
		return VERDICT_PASS_TRUNCATED;
	vlan = header(frame, second, &copy, sizeof(*vlan));
	return steer_network(frame, third, vlan->type);
}

SEC("xdp.frags")
int steer(struct xdp_md *ctx)
{
	const struct frame frame = { .ctx = ctx, .size = bpf_xdp_get_buff_len(ctx) };
	const enum verdict verdict = steer_frame(&frame);

	count(verdict);
	switch (verdict) {
	case VERDICT_DROP_LENGTH:
	case VERDICT_DROP_VERSION:
	case VERDICT_DROP_QPN:
	case VERDICT_DROP_NO_SOCKET:
		return XDP_DROP;
	case VERDICT_REDIRECT:
		return XDP_REDIRECT;
	default:
		return XDP_PASS;
	}
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
