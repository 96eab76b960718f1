/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues and doorbells in memory that a program and the daemon of roce-xdp share.
 * docs/shm-abi.md describes how it is used. Numbers are little-endian; numbers of
 * operations, statuses, states, events and rights that are not here are those of
 * infiniband/verbs.h.
 *
 * Made by "go generate ./internal/abi". Do not edit.
 */
#ifndef ROCE_XDP_QUEUES_H
#define ROCE_XDP_QUEUES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A ring: element size and mask are read once; producer, consumer and arm are accessed
 * atomically. Elements follow: element i of a ring is at data + (i & mask) * elem_size.
 */
struct roce_xdp_ring {
	uint32_t elem_size;
	uint32_t mask; /* number of elements, a power of two, minus 1 */
	uint8_t reserved0[120];
	uint32_t producer; /* written by the producer only; runs over 32 bits */
	uint8_t reserved1[124];
	uint32_t consumer; /* written by the consumer only */
	uint32_t arm;      /* ROCE_XDP_ARM_*, written by the consumer */
	uint8_t reserved2[120];
	uint8_t data[];
};

#define ROCE_XDP_ARM_NONE 0      /* no event; of a receive queue: no doorbell is wanted */
#define ROCE_XDP_ARM_NEXT 1      /* an event with the next completion; a doorbell for receives */
#define ROCE_XDP_ARM_SOLICITED 2 /* an event with the next solicited or failed one */

/* Doorbells that a client has with one worker: summary bits first. */
struct roce_xdp_bells {
	uint64_t summary[8]; /* a bit for each leaf word that may have a bit set */
	uint32_t cpu; /* number + 1 of the CPU on which the client polls; 0: it does not say */
	uint8_t reserved[60];
	uint64_t leaf[]; /* a bit for each slot */
};

#define ROCE_XDP_WORKER_AWAKE 0u  /* state word of a worker */
#define ROCE_XDP_WORKER_ASLEEP 1u /* who rings has to write its eventfd */

/* Elements of queues. */

/* CQE is a completion queue entry (ibv_wc). When Status is not WCSuccess only
 * WRID, Status, VendorErr and QPN are meaningful. */
struct roce_xdp_cqe {
	uint64_t wr_id;
	int64_t timestamp; /* monotonic nanoseconds at which the request completed */
	uint32_t byte_len;
	uint32_t imm; /* immediate data as a number, or the invalidated key */
	uint32_t qpn; /* local queue pair */
	uint32_t src_qp; /* UD */
	uint32_t vendor_err;
	uint8_t status;
	uint8_t opcode;
	uint8_t flags;
	uint8_t sl; /* priority that the message came with */
	uint16_t pkey_index;
	uint16_t vlan; /* that the message came from, 0 without a tag */
	uint64_t qp_context; /* what the creator of the queue pair attached to it */
	uint8_t reserved[8];
};

/* SendWQE is the header of a send work queue entry. Its 96 bytes are followed by
 * the scatter/gather entries, or by the data itself when Flags has SendInline. */
struct roce_xdp_send_wqe {
	uint64_t wr_id;
	uint8_t opcode;
	uint8_t flags;
	uint16_t num_sge;
	uint32_t imm; /* immediate data as a number, or the key to invalidate */
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t length; /* bytes of all entries, or of the inline data */
	uint64_t compare_add;
	uint64_t swap;
	uint32_t ah; /* address handle, UD */
	uint32_t remote_qpn; /* UD */
	uint32_t remote_qkey; /* UD */
	uint32_t srqn; /* XRC */
	uint64_t bind_addr; /* memory window: start */
	uint64_t bind_length; /* memory window: length */
	uint32_t bind_lkey; /* memory window: region */
	uint32_t bind_rkey; /* memory window: old and new key */
	uint32_t bind_access;
	uint16_t flush_type; /* placement type */
	uint16_t flush_level; /* selectivity */
};

/* RecvWQE is the header of a receive work queue entry: 16 bytes, followed by the
 * scatter/gather entries. */
struct roce_xdp_recv_wqe {
	uint64_t wr_id;
	uint32_t length; /* bytes of all entries */
	uint16_t num_sge;
	uint8_t reserved[2];
};

/* SGE is a scatter/gather entry: length bytes at addr in the region of lkey. It
 * occupies 16 bytes: addr u64, length u32, lkey u32. */
struct roce_xdp_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

#ifdef __cplusplus
}
#endif

#endif /* ROCE_XDP_QUEUES_H */
