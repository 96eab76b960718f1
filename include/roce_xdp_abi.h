/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a program and the daemon of roce-xdp.
 * docs/shm-abi.md describes how it is used. Numbers are little-endian; numbers of
 * operations, statuses, states, events and rights that are not here are those of
 * infiniband/verbs.h.
 *
 * Made by "go generate ./internal/abi". Do not edit.
 */
#ifndef ROCE_XDP_ABI_H
#define ROCE_XDP_ABI_H

#include "roce_xdp_queues.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROCE_XDP_VERSION                     1 /* of messages and shared memory */
#define ROCE_XDP_MIN_VERSION                 1
#define ROCE_XDP_MAGIC                       0x45434f52u /* first word of HELLO */
#define ROCE_XDP_MAX_MESSAGE                 8192 /* bytes of a packet */
#define ROCE_XDP_MAX_FDS                     72 /* descriptors of a packet */
#define ROCE_XDP_MAX_ADVISE                  64 /* entries of an ADVISE_MR */
#define ROCE_XDP_MAX_PRIVATE                 224 /* bytes of private data */
#define ROCE_XDP_MEMORY_SHARED               0 /* region of a buffer */
#define ROCE_XDP_MEMORY_INDIRECT             1 /* region of memory that SET_MEMORY has handed over */
#define ROCE_XDP_MEMORY_IMPLICIT             2 /* all of that */
#define ROCE_XDP_OBJECT_NONE                 0 /* event of the port or the device */
#define ROCE_XDP_OBJECT_QP                   1
#define ROCE_XDP_OBJECT_CQ                   2
#define ROCE_XDP_OBJECT_SRQ                  3

/* Requests, with the bodies of request and reply. */
#define ROCE_XDP_OP_HELLO                    1 /* hello, hello_reply */
#define ROCE_XDP_OP_DEVICES                  2 /* page, devices_reply */
#define ROCE_XDP_OP_OPEN                     3 /* open, open_reply; gets events, states, doorbells, an eventfd for each worker */
#define ROCE_XDP_OP_MAP_SEGMENT              4 /* map_segment, map_segment_reply; gets the segment */
#define ROCE_XDP_OP_CANCEL                   5 /* cancel, empty */
#define ROCE_XDP_OP_QUERY_DEVICE             6 /* empty, device_attr */
#define ROCE_XDP_OP_QUERY_PORT               7 /* empty, port_attr */
#define ROCE_XDP_OP_QUERY_CLOCK              8 /* empty, clock */
#define ROCE_XDP_OP_QUERY_GIDS               9 /* page, gids_reply */
#define ROCE_XDP_OP_RESOLVE                  10 /* resolve, resolution */
#define ROCE_XDP_OP_COUNTERS                 11 /* page, counters_reply */
#define ROCE_XDP_OP_SET_MEMORY               12 /* empty, empty; brings /proc/self/mem, open for reading and writing */
#define ROCE_XDP_OP_ALLOC_PD                 20 /* empty, pd */
#define ROCE_XDP_OP_DEALLOC_PD               21 /* pd, empty */
#define ROCE_XDP_OP_ALLOC_BUFFER             22 /* alloc_buffer, alloc_buffer_reply */
#define ROCE_XDP_OP_FREE_BUFFER              23 /* handle, empty */
#define ROCE_XDP_OP_REG_MR                   24 /* reg_mr, mr_reply */
#define ROCE_XDP_OP_REREG_MR                 25 /* rereg_mr, mr_reply */
#define ROCE_XDP_OP_ADVISE_MR                26 /* advise_mr, empty */
#define ROCE_XDP_OP_DEREG_MR                 27 /* handle, empty */
#define ROCE_XDP_OP_ALLOC_MW                 28 /* alloc_mw, mw_reply */
#define ROCE_XDP_OP_DEALLOC_MW               29 /* handle, empty */
#define ROCE_XDP_OP_ALLOC_FAST_MR            30 /* alloc_fast_mr, mr_reply */
#define ROCE_XDP_OP_DEALLOC_FAST_MR          31 /* handle, empty */
#define ROCE_XDP_OP_CREATE_CQ                40 /* create_cq, cq_reply; gets the stream of its events */
#define ROCE_XDP_OP_RESIZE_CQ                41 /* resize_cq, cq_reply */
#define ROCE_XDP_OP_MODIFY_CQ                42 /* modify_cq, empty */
#define ROCE_XDP_OP_QUERY_CQ                 43 /* handle, cq_attr */
#define ROCE_XDP_OP_DESTROY_CQ               44 /* handle, empty */
#define ROCE_XDP_OP_CREATE_SRQ               45 /* create_srq, srq_reply */
#define ROCE_XDP_OP_MODIFY_SRQ               46 /* modify_srq, srq_reply */
#define ROCE_XDP_OP_QUERY_SRQ                47 /* handle, srq_attr */
#define ROCE_XDP_OP_DESTROY_SRQ              48 /* handle, empty */
#define ROCE_XDP_OP_OPEN_XRCD                49 /* open_xrcd, xrcd */
#define ROCE_XDP_OP_CLOSE_XRCD               50 /* xrcd, empty */
#define ROCE_XDP_OP_CREATE_QP                60 /* create_qp, qp_reply */
#define ROCE_XDP_OP_OPEN_QP                  61 /* open_qp, qp_reply */
#define ROCE_XDP_OP_MODIFY_QP                62 /* modify_qp, empty */
#define ROCE_XDP_OP_QUERY_QP                 63 /* handle, qp_attr */
#define ROCE_XDP_OP_DESTROY_QP               64 /* handle, empty */
#define ROCE_XDP_OP_ATTACH_MCAST             65 /* mcast, empty */
#define ROCE_XDP_OP_DETACH_MCAST             66 /* mcast, empty */
#define ROCE_XDP_OP_CREATE_AH                67 /* create_ah, ah */
#define ROCE_XDP_OP_DESTROY_AH               68 /* ah, empty */
#define ROCE_XDP_OP_CM_OPEN                  80 /* empty, empty; gets the socket of events */
#define ROCE_XDP_OP_CM_CLOSE                 81 /* empty, empty */
#define ROCE_XDP_OP_CM_CREATE                82 /* cm_create, cm_id */
#define ROCE_XDP_OP_CM_SET_OPTIONS           83 /* cm_options, empty */
#define ROCE_XDP_OP_CM_BIND                  84 /* cm_bind, addr_port */
#define ROCE_XDP_OP_CM_LISTEN                85 /* cm_listen, empty */
#define ROCE_XDP_OP_CM_RESOLVE               86 /* cm_resolve, cm_resolved */
#define ROCE_XDP_OP_CM_CONNECT               87 /* cm_connect, empty */
#define ROCE_XDP_OP_CM_ACCEPT                88 /* cm_accept, empty */
#define ROCE_XDP_OP_CM_REJECT                89 /* cm_reject, empty */
#define ROCE_XDP_OP_CM_ESTABLISHED           90 /* cm_id, empty */
#define ROCE_XDP_OP_CM_DISCONNECT            91 /* cm_id, empty */
#define ROCE_XDP_OP_CM_DESTROY               92 /* cm_id, empty */
#define ROCE_XDP_OP_CM_QP_ATTR               93 /* cm_accept, cm_qp_attr_reply */
#define ROCE_XDP_OP_CM_INFO                  94 /* cm_id, cm_info */
#define ROCE_XDP_OP_CM_QPN_HELD              95 /* cm_qpn, cm_held */
#define ROCE_XDP_OP_CM_COUNTERS              96 /* page, counters_reply */

/* Statuses of replies. */
#define ROCE_XDP_STATUS_OK                   0
#define ROCE_XDP_STATUS_INVALID              1
#define ROCE_XDP_STATUS_STATE                2
#define ROCE_XDP_STATUS_BUSY                 3
#define ROCE_XDP_STATUS_CLOSED               4
#define ROCE_XDP_STATUS_PERMISSION           5
#define ROCE_XDP_STATUS_OVERFLOW             6
#define ROCE_XDP_STATUS_UNSUPPORTED          7
#define ROCE_XDP_STATUS_LIMIT                8
#define ROCE_XDP_STATUS_EXIST                9
#define ROCE_XDP_STATUS_NOT_EXIST            10
#define ROCE_XDP_STATUS_CANCELLED            11
#define ROCE_XDP_STATUS_DEADLINE             12
#define ROCE_XDP_STATUS_NO_MEMORY            13
#define ROCE_XDP_STATUS_NO_ROUTE             20
#define ROCE_XDP_STATUS_NO_NEIGHBOUR         21
#define ROCE_XDP_STATUS_NO_DEVICE            22
#define ROCE_XDP_STATUS_NO_SOURCE            23
#define ROCE_XDP_STATUS_NO_GID               24
#define ROCE_XDP_STATUS_MTU                  25
#define ROCE_XDP_STATUS_GROUP                26
#define ROCE_XDP_STATUS_TRANSITION           30
#define ROCE_XDP_STATUS_ATTR_MASK            31
#define ROCE_XDP_STATUS_ATTR_VALUE           32
#define ROCE_XDP_STATUS_DRAINING             33
#define ROCE_XDP_STATUS_CM_UNKNOWN_ID        40
#define ROCE_XDP_STATUS_CM_STATE             41
#define ROCE_XDP_STATUS_CM_INVALID           42
#define ROCE_XDP_STATUS_CM_PRIVATE_DATA      43
#define ROCE_XDP_STATUS_CM_ADDR_IN_USE       44
#define ROCE_XDP_STATUS_CM_NO_PORTS          45
#define ROCE_XDP_STATUS_CM_TOO_MANY_IDS      46
#define ROCE_XDP_STATUS_VERSION              60
#define ROCE_XDP_STATUS_PROTOCOL             61
#define ROCE_XDP_STATUS_OTHER                62

/* Messages. */

/* Header begins each message. A reply has the request's Op and Seq; one whose
 * Status is not StatusOK has the body Failure. */
struct roce_xdp_header {
	uint32_t size; /* of the whole message, in bytes */
	uint16_t op;
	uint16_t fds; /* descriptors that come with it */
	uint32_t seq; /* chosen by the client, not used by two requests at a time */
	uint32_t status; /* 0 in requests */
};

/* Failure is the body of a reply to a request that failed. */
struct roce_xdp_failure {
	uint8_t text[240]; /* what is wrong and what to do, UTF-8, ends at the first NUL */
};

/* Span is a piece of a segment. */
struct roce_xdp_span {
	uint32_t segment;
	uint32_t pad;
	uint64_t offset;
	uint64_t size;
};

/* AsyncEvent is an asynchronous event (ibv_async_event): a packet of 16 bytes. */
struct roce_xdp_async_event {
	uint32_t type; /* ibv_event_type */
	uint32_t object; /* which kind of object Handle is: ObjectNone and so on */
	uint64_t handle;
};

/* Hello is the first message of a client. */
struct roce_xdp_hello {
	uint32_t magic; /* Magic */
	uint32_t min_version;
	uint32_t max_version;
	uint32_t pad;
};

/* HelloReply says which version is spoken from now on. */
struct roce_xdp_hello_reply {
	uint32_t version;
	uint32_t devices; /* that this client may open */
	uint8_t daemon[32];
};

/* Page asks for entries of a list, from an index on. */
struct roce_xdp_page {
	uint32_t first;
	uint32_t pad;
};

/* DeviceEntry is a device in a list. */
struct roce_xdp_device_entry {
	uint8_t name[32];
	uint64_t node_guid;
	uint64_t net_ns; /* of the network namespace in which IfIndex counts, SO_NETNS_COOKIE */
	uint32_t if_index;
	uint32_t state; /* of the port, ibv_port_state */
};

/* DevicesReply is a part of the list of devices. */
struct roce_xdp_devices_reply {
	uint32_t total;
	uint32_t count; /* of Entries that are used */
	struct roce_xdp_device_entry entry[32];
};

/* Open opens a device. */
struct roce_xdp_open {
	uint8_t name[32];
};

/* OpenReply comes with 3+Workers descriptors: the socket of asynchronous events, the
 * page of the workers' states (read-only), the doorbells, and for each worker the
 * eventfd that wakes it. Worker i's doorbells begin at i*BellStride of their file, its
 * state is the 32-bit word at i*StateStride of the page. */
struct roce_xdp_open_reply {
	uint32_t workers;
	uint32_t bell_stride;
	uint32_t state_stride;
	uint32_t bell_slots; /* queue pairs of this client that a worker can have */
	uint64_t client_id; /* as the daemon's tools show it */
};

/* MapSegment asks for a segment's descriptor, which comes with the reply. */
struct roce_xdp_map_segment {
	uint32_t segment;
	uint32_t pad;
};

/* MapSegmentReply is its size. */
struct roce_xdp_map_segment_reply {
	uint64_t size;
};

/* Cancel ends the request with number Seq, if it still waits. That is answered with
 * StatusCancelled and has then done nothing; what was done by then is answered as ever.
 * It has no effect of its own otherwise. */
struct roce_xdp_cancel {
	uint32_t seq;
	uint32_t pad;
};

/* DeviceAttr is verbs.DeviceAttr (ibv_device_attr). */
struct roce_xdp_device_attr {
	uint8_t name[32];
	uint8_t fw_version[64];
	uint8_t xdp_mode[16];
	uint64_t node_guid;
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t caps;
	uint64_t max_cq_period_ns;
	uint64_t completion_timestamp_mask;
	uint64_t hca_core_clock_khz;
	uint32_t vendor_id;
	uint32_t hw_version;
	uint32_t max_qp;
	uint32_t max_qp_wr;
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t max_cq;
	uint32_t max_cqe;
	uint32_t max_srq;
	uint32_t max_srq_wr;
	uint32_t max_srq_sge;
	uint32_t max_xrcd;
	uint32_t max_mr;
	uint32_t max_mw;
	uint32_t max_ah;
	uint32_t max_pd;
	uint32_t max_mcast_grp;
	uint32_t max_mcast_qp;
	uint32_t max_mcast_total;
	uint32_t max_qp_rd_atom;
	uint32_t max_qp_init_rd_atom;
	uint32_t num_ports;
	uint32_t num_workers;
	uint32_t max_cq_count;
	uint32_t odp_rc;
	uint32_t odp_uc;
	uint32_t odp_ud;
	uint8_t local_ca_ack_delay;
	uint8_t atomic_global;
	uint8_t zero_copy;
	uint8_t odp_supported;
	uint8_t odp_implicit;
	uint8_t pad[7];
};

/* PortAttr is verbs.PortAttr (ibv_port_attr). */
struct roce_xdp_port_attr {
	uint32_t state;
	uint32_t max_mtu; /* as ibv_mtu: 1 is 256, 5 is 4096 */
	uint32_t active_mtu;
	uint32_t link_mtu; /* bytes */
	uint32_t gid_table_len;
	uint32_t pkey_table_len;
	uint32_t max_msg_size;
	uint32_t speed_mbps;
	uint32_t active_speed;
	uint32_t active_width;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint32_t if_index;
	uint32_t mac_len;
	uint8_t mac[16];
	uint64_t net_ns; /* of the namespace in which IfIndex counts, SO_NETNS_COOKIE */
};

/* Clock is verbs.Clock: the device's clock and the wall clock at one moment. */
struct roce_xdp_clock {
	int64_t raw_ns;
	int64_t wall_sec; /* since 1970, UTC */
	uint32_t wall_n_sec;
	uint32_t pad;
};

/* GIDEntry is verbs.GIDEntry. */
struct roce_xdp_gid_entry {
	uint8_t gid[16];
	uint32_t index;
	uint32_t if_index;
	uint16_t vlan;
	uint8_t valid;
	uint8_t pad[5];
};

/* GIDsReply is a part of the GID table. */
struct roce_xdp_gids_reply {
	uint32_t total;
	uint32_t count;
	struct roce_xdp_gid_entry entry[64];
};

/* Addr is an address. */
struct roce_xdp_addr {
	uint8_t ip[16]; /* of an IPv4 address the first four */
	uint8_t family; /* 0: none; 4; 6 */
	uint8_t pad[3];
	uint32_t scope; /* of a link-local IPv6 address, index of the interface where the daemon is; 0: none */
};

/* Resolve is verbs.ResolveRequest. */
struct roce_xdp_resolve {
	struct roce_xdp_addr dst;
	struct roce_xdp_addr src;
	uint8_t interface[32]; /* by name or number, or a zone of Dst or Src that is a name */
	uint64_t wait_ns; /* how long to wait for the next hop; 0: as long as the device does */
	uint8_t tos;
	uint8_t partial; /* 1: what is known without an answer is a reply, too */
	uint8_t pad[6];
};

/* Resolution is verbs.Resolution. DstMAC is 0 in a partial one. */
struct roce_xdp_resolution {
	struct roce_xdp_addr dst;
	struct roce_xdp_addr src;
	struct roce_xdp_addr next_hop;
	uint8_t interface[32];
	uint8_t device[32];
	uint8_t neighbour[16];
	int32_t sgid_index;
	uint32_t if_index;
	uint32_t table;
	uint32_t link_mtu;
	uint32_t path_mtu;
	uint32_t mtu; /* as ibv_mtu */
	uint16_t vlan;
	uint8_t local;
	uint8_t hop_limit;
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
};

/* Counter is a named counter. */
struct roce_xdp_counter {
	uint64_t value;
	uint8_t name[56];
};

/* CountersReply is a part of a list of counters. */
struct roce_xdp_counters_reply {
	uint32_t total;
	uint32_t count;
	struct roce_xdp_counter entry[64];
};

/* PD names a protection domain: reply of AllocPD, request of DeallocPD. */
struct roce_xdp_pd {
	uint32_t pd;
	uint32_t pad;
};

/* AllocBuffer asks for memory that program and daemon share. */
struct roce_xdp_alloc_buffer {
	uint64_t size; /* bytes */
};

/* AllocBufferReply says where it is; FreeBuffer gives its handle back. */
struct roce_xdp_alloc_buffer_reply {
	uint64_t handle;
	struct roce_xdp_span span;
};

/* Handle names an object of the client; which kind, the request says. */
struct roce_xdp_handle {
	uint64_t handle;
};

/* RegMR registers a region. Addr and Length are the client's; with MemoryShared
 * they lie at Offset of Segment. */
struct roce_xdp_reg_mr {
	uint64_t addr;
	uint64_t length;
	uint64_t offset;
	uint32_t segment;
	uint32_t pd;
	uint32_t access;
	uint8_t memory;
	uint8_t pad[3];
};

/* MRReply is a region. */
struct roce_xdp_mr_reply {
	uint64_t handle;
	uint64_t addr;
	uint32_t lkey;
	uint32_t rkey;
};

/* ReregMR changes a region; Flags say which of New count. An error changes nothing. */
struct roce_xdp_rereg_mr {
	uint64_t handle;
	struct roce_xdp_reg_mr change;
	uint32_t flags; /* ibv_rereg_mr_flags */
	uint32_t pad;
};

/* AdviseMR has pages of regions made ready. */
struct roce_xdp_advise_mr {
	uint32_t pd;
	uint32_t count;
	uint32_t advice;
	uint32_t pad;
	struct roce_xdp_sge sge[64];
};

/* AllocMW asks for a memory window. */
struct roce_xdp_alloc_mw {
	uint32_t pd;
	uint32_t type;
};

/* MWReply is a memory window. */
struct roce_xdp_mw_reply {
	uint64_t handle;
	uint32_t rkey;
	uint32_t pad;
};

/* AllocFastMR asks for a region without memory, for work requests to fill. */
struct roce_xdp_alloc_fast_mr {
	uint64_t limit; /* bytes */
	uint32_t pd;
	uint32_t pad;
};

/* CreateCQ asks for a completion queue. The stream socket of its events comes with
 * the reply: it is readable when one was raised, and read until it is empty. */
struct roce_xdp_create_cq {
	uint32_t entries;
	uint32_t pad;
};

/* CQReply says where the ring of a completion queue is. */
struct roce_xdp_cq_reply {
	uint64_t handle;
	struct roce_xdp_span ring;
};

/* ResizeCQ moves the queue to another ring, which the reply (CQReply) names. The
 * client takes nothing from the old one between request and reply. */
struct roce_xdp_resize_cq {
	uint64_t handle;
	uint32_t entries;
	uint32_t pad;
};

/* ModifyCQ moderates events. */
struct roce_xdp_modify_cq {
	uint64_t handle;
	uint64_t period_ns;
	uint32_t count;
	uint32_t pad;
};

/* CQAttr is verbs.CQAttr. */
struct roce_xdp_cq_attr {
	uint64_t period_ns;
	uint32_t entries;
	uint32_t count;
	uint8_t overflowed;
	uint8_t pad[7];
};

/* SRQAttr are the attributes of a shared receive queue (ibv_srq_attr). */
struct roce_xdp_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t limit;
	uint32_t pad;
};

/* CreateSRQ asks for a shared receive queue. */
struct roce_xdp_create_srq {
	uint64_t cq; /* handle of one of an XRC domain, else 0 */
	uint32_t pd;
	uint32_t xrcd; /* 0: of none */
	struct roce_xdp_srq_attr attr;
};

/* SRQReply says where the ring of a shared receive queue is. */
struct roce_xdp_srq_reply {
	uint64_t handle;
	struct roce_xdp_span ring;
	uint32_t num; /* its number in its XRC domain */
	uint32_t pad;
};

/* ModifySRQ sets what Mask names. With MAX_WR the client posts nothing between
 * request and reply (SRQReply), which names another ring. */
struct roce_xdp_modify_srq {
	uint64_t handle;
	struct roce_xdp_srq_attr attr;
	uint32_t mask;
	uint32_t pad;
};

/* OpenXRCD opens an XRC domain. */
struct roce_xdp_open_xrcd {
	uint8_t name[256]; /* empty: a new one */
	uint8_t create;
	uint8_t exclusive;
	uint8_t pad[6];
};

/* XRCD names an XRC domain: reply of OpenXRCD, request of CloseXRCD. */
struct roce_xdp_xrcd {
	uint32_t xrcd;
	uint32_t pad;
};

/* QPCap are the capacities of a queue pair (ibv_qp_cap). */
struct roce_xdp_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	uint32_t pad;
};

/* CreateQP asks for a queue pair. */
struct roce_xdp_create_qp {
	uint64_t send_cq; /* handles, 0: none */
	uint64_t recv_cq; /* handles, 0: none */
	uint64_t srq; /* handle, 0: a receive queue of its own */
	uint64_t context;
	uint32_t pd;
	uint32_t xrcd;
	struct roce_xdp_qp_cap cap;
	uint8_t type;
	uint8_t sig_all;
	uint8_t congestion;
	uint8_t pad[5];
};

/* QPReply is a queue pair. SQ or RQ of size 0: it has none. */
struct roce_xdp_qp_reply {
	uint64_t handle;
	struct roce_xdp_span sq;
	struct roce_xdp_span rq;
	uint32_t qpn;
	uint32_t worker; /* whose doorbells */
	uint32_t slot; /* which of them */
	uint32_t pad;
	struct roce_xdp_qp_cap cap; /* as made */
};

/* OpenQP opens a target of an XRC domain that somebody else has made. */
struct roce_xdp_open_qp {
	uint32_t xrcd;
	uint32_t qpn;
};

/* AddressVector is the path to a peer (ibv_ah_attr). */
struct roce_xdp_address_vector {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint32_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t sl;
	uint8_t port;
	uint8_t pad[4];
};

/* QPAttr are the attributes of a queue pair (ibv_qp_attr). */
struct roce_xdp_qp_attr {
	struct roce_xdp_address_vector av;
	struct roce_xdp_qp_cap cap;
	uint32_t state;
	uint32_t cur_state;
	uint32_t path_mtu;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qpn;
	uint32_t access_flags;
	uint16_t pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t pad[5];
};

/* ModifyQP sets the attributes that Mask names. With those of a path it waits for the
 * next hop to answer, which OpCancel ends. */
struct roce_xdp_modify_qp {
	uint64_t handle;
	uint64_t wait_ns; /* how long to wait for the next hop; 0: as long as the device does */
	struct roce_xdp_qp_attr attr;
	uint32_t mask;
	uint32_t pad;
};

/* Mcast attaches a queue pair to a multicast group, or detaches it. */
struct roce_xdp_mcast {
	uint64_t handle;
	uint8_t group[16];
};

/* CreateAH asks for an address handle. It waits as ModifyQP does. */
struct roce_xdp_create_ah {
	struct roce_xdp_address_vector av;
	uint64_t wait_ns; /* how long to wait for the next hop; 0: as long as the device does */
	uint32_t pd;
	uint32_t pad;
};

/* AH names an address handle: reply of CreateAH, request of DestroyAH. */
struct roce_xdp_ah {
	uint32_t ah;
	uint32_t pad;
};

#ifdef __cplusplus
}
#endif

#endif /* ROCE_XDP_ABI_H */
