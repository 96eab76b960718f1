//go:build ignore

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Steers RoCEv2 frames that are addressed to us into AF_XDP sockets and leaves
 * every other frame to the kernel. It decides by the outer headers alone: the
 * ICRC and all else is checked by the socket's owner.
 *
 * Every offset is a constant. The parser is inlined once for each number of
 * VLAN tags instead of adding tag sizes up, because the verifier refuses
 * variable offsets into a packet to a loader without CAP_PERFMON.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "roce.h"
#include "steer.h"

/* A header, in place where the frame's linear part holds it, else copied from
 * the buffers behind it. NULL when the frame is too short. */
static __always_inline const void *header(struct xdp_md *ctx, const __u32 offset, void *copy,
					  const __u32 size)
{
	const void *start = (void *)(long)ctx->data + offset;

	if (start + size <= (void *)(long)ctx->data_end)
		return start;
	if (bpf_xdp_load_bytes(ctx, offset, copy, size))
		return NULL;
	return copy;
}

/* Whether the frame has at least size bytes, in all its buffers together. */
static __always_inline int frame_holds(struct xdp_md *ctx, __u32 size)
{
	if (size <= ctx->data_end - ctx->data)
		return 1;
	return size <= bpf_xdp_get_buff_len(ctx);
}

/* An IPv4 address as a GID: ::ffff:a.b.c.d. */
static __always_inline struct gid ipv4_gid(__be32 address)
{
	return (struct gid){ { 0, 0, bpf_htonl(0xffff), address } };
}

static __always_inline int gid_is_multicast(const struct gid *gid)
{
	const __u32 last = bpf_ntohl(gid->word[3]);

	if (gid->word[0] == 0 && gid->word[1] == 0 && gid->word[2] == bpf_htonl(0xffff))
		return last >> 28 == 0xe;
	return bpf_ntohl(gid->word[0]) >> 24 == 0xff;
}

/* The verdict on a frame whose UDP header begins at offset. */
static __always_inline enum verdict steer_udp(struct xdp_md *ctx, const __u32 offset,
					      const struct gid *dst, __u32 ip_payload)
{
	struct udp udp_copy;
	struct bth bth_copy;
	const struct udp *udp = header(ctx, offset, &udp_copy, sizeof(*udp));
	const struct bth *bth;
	const struct config *conf;
	__u32 zero = 0, length, qpn;

	if (!udp)
		return VERDICT_PASS_TRUNCATED;
	if (udp->dst != bpf_htons(STEER_UDP_PORT))
		return VERDICT_PASS_PORT;
	if (!bpf_map_lookup_elem(&addresses, dst))
		return VERDICT_PASS_ADDRESS;

	/* Packets are whole words, BTH to ICRC (IBTA vol. 1, 9.2.4); Ethernet may
	 * pad behind them. */
	length = bpf_ntohs(udp->length);
	if (length != ip_payload || length % 4 ||
	    length < sizeof(*udp) + sizeof(*bth) + ICRC_SIZE || !frame_holds(ctx, offset + length))
		return VERDICT_DROP_LENGTH;
	bth = header(ctx, offset + sizeof(*udp), &bth_copy, sizeof(*bth));
	if (!bth)
		return VERDICT_DROP_LENGTH;
	if (bth->flags & BTH_TVER_MASK)
		return VERDICT_DROP_VERSION;

	conf = bpf_map_lookup_elem(&config, &zero);
	if (!conf)
		return VERDICT_DROP_QPN;
	qpn = bpf_ntohl(bth->dest_qp) & BTH_QPN_MASK;
	if (qpn == STEER_QPN_MULTICAST ? !gid_is_multicast(dst) : !qpn_is_known(qpn))
		return passes(conf->unknown_qpn) ? VERDICT_PASS_QPN : VERDICT_DROP_QPN;
	if (bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_DROP) == XDP_REDIRECT)
		return VERDICT_REDIRECT;
	return passes(conf->no_socket) ? VERDICT_PASS_NO_SOCKET : VERDICT_DROP_NO_SOCKET;
}

static __always_inline enum verdict steer_ipv4(struct xdp_md *ctx, const __u32 offset)
{
	struct ipv4 copy;
	const struct ipv4 *ip = header(ctx, offset, &copy, sizeof(*ip));
	struct gid dst;

	if (!ip)
		return VERDICT_PASS_TRUNCATED;
	if (ip->version_ihl != IPV4_VERSION_IHL)
		return ip->version_ihl > IPV4_VERSION_IHL && ip->version_ihl >> 4 == 4 ?
			       VERDICT_PASS_IP_OPTIONS :
			       VERDICT_PASS_IP_HEADER;
	if (ip->fragment & bpf_htons(IPV4_FRAGMENT))
		return VERDICT_PASS_FRAGMENT;
	if (ip->protocol != IP_PROTOCOL_UDP)
		return VERDICT_PASS_PROTOCOL;
	dst = ipv4_gid(ip->dst);
	/* A total length below the header's wraps, and then disagrees with UDP's. */
	return steer_udp(ctx, offset + sizeof(*ip), &dst,
			 bpf_ntohs(ip->total_length) - (__u32)sizeof(*ip));
}

static __always_inline enum verdict steer_ipv6(struct xdp_md *ctx, const __u32 offset)
{
	struct ipv6 copy;
	const struct ipv6 *ip = header(ctx, offset, &copy, sizeof(*ip));
	struct gid dst;

	if (!ip)
		return VERDICT_PASS_TRUNCATED;
	if (bpf_ntohl(ip->version_class_flow) >> 28 != 6)
		return VERDICT_PASS_IP_HEADER;
	if (ip->next_header != IP_PROTOCOL_UDP)
		return VERDICT_PASS_PROTOCOL;
	__builtin_memcpy(&dst, ip->dst, sizeof(dst));
	return steer_udp(ctx, offset + sizeof(*ip), &dst, bpf_ntohs(ip->payload_length));
}

static __always_inline int is_vlan(__be16 type)
{
	return type == bpf_htons(ETHERTYPE_VLAN) || type == bpf_htons(ETHERTYPE_SVLAN);
}

static __always_inline enum verdict steer_network(struct xdp_md *ctx, const __u32 offset,
						  __be16 type)
{
	if (type == bpf_htons(ETHERTYPE_IPV4))
		return steer_ipv4(ctx, offset);
	if (type == bpf_htons(ETHERTYPE_IPV6))
		return steer_ipv6(ctx, offset);
	return VERDICT_PASS_ETHERTYPE;
}

/* The whole decision. Tags beyond the second are an EtherType as any other. */
static __always_inline enum verdict steer_frame(struct xdp_md *ctx)
{
	const __u32 first = sizeof(struct ethernet), second = first + sizeof(struct vlan);
	struct ethernet ethernet_copy;
	struct vlan copy;
	const struct ethernet *ethernet = header(ctx, 0, &ethernet_copy, sizeof(*ethernet));
	const struct vlan *vlan;

	if (!ethernet)
		return VERDICT_PASS_TRUNCATED;
	if (!is_vlan(ethernet->type))
		return steer_network(ctx, first, ethernet->type);
	vlan = header(ctx, first, &copy, sizeof(*vlan));
	if (!vlan)
		return VERDICT_PASS_TRUNCATED;
	if (!is_vlan(vlan->type))
		return steer_network(ctx, second, vlan->type);
	vlan = header(ctx, second, &copy, sizeof(*vlan));
	if (!vlan)
		return VERDICT_PASS_TRUNCATED;
	return steer_network(ctx, second + sizeof(*vlan), vlan->type);
}

SEC("xdp.frags")
int steer(struct xdp_md *ctx)
{
	const enum verdict verdict = steer_frame(ctx);

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
