package abi

// preamble is what each file begins with: what it is, what it includes, its guard.
const preamble = `/* SPDX-License-Identifier: Apache-2.0 */
/*
 * %[1]s
 * docs/shm-abi.md describes how it is used. Numbers are little-endian; numbers of
 * operations, statuses, states, events and rights that are not here are those of
 * infiniband/verbs.h.
 *
 * Made by "go generate ./internal/abi". Do not edit.
 */
#ifndef %[3]s
#define %[3]s

%[2]s

#ifdef __cplusplus
extern "C" {
#endif

`

// memory is the layout of what is not an array of structures.
const memory = `
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
`

const coda = `
#ifdef __cplusplus
}
#endif

#endif /* %s */
`
