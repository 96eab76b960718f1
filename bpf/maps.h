/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The maps of the steering program, and the lookups that hide their layout. */
#ifndef ROCE_XDP_MAPS_H
#define ROCE_XDP_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "steer.h"

#define STEER_ENUM(name, text) VERDICT_##name,
enum verdict { STEER_VERDICTS(STEER_ENUM) VERDICT_COUNT };
#undef STEER_ENUM

struct gid {
	__be32 word[STEER_GID_SIZE / 4];
};

struct address {
	__u32 flags; /* STEER_ADDRESS_GROUP */
};

/* Both fields hold an XDP action: XDP_DROP or XDP_PASS. User space may change
 * them at any time with one 32-bit store. */
struct config {
	__u32 unknown_qpn;
	__u32 no_socket;
};

/* Slot q holds the socket that is bound to receive queue q. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, STEER_DEFAULT_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

/* A bit for each of the 2^24 queue pair numbers. An array of words in place of
 * a hash: the lookup is inlined to one load, 2 MiB hold the whole range, and
 * user space maps it and changes bits without a system call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STEER_QPN_WORDS);
	__type(key, __u32);
	__type(value, __u64);
} qpns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STEER_MAX_ADDRESSES);
	__type(key, struct gid);
	__type(value, struct address);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICT_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(enum verdict verdict)
{
	__u32 key = verdict;
	__u64 *counter = bpf_map_lookup_elem(&counters, &key);

	if (counter)
		(*counter)++;
}

static __always_inline int qpn_is_known(__u32 qpn)
{
	__u32 key = qpn >> 6;
	const __u64 *word = bpf_map_lookup_elem(&qpns, &key);

	return word && (*word >> (qpn & 63)) & 1;
}

/* An action outside DROP and PASS in the map counts as DROP. */
static __always_inline int passes(__u32 action)
{
	return action == XDP_PASS;
}

#endif
