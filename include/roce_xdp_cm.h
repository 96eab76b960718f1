/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of connections: those whose names begin with CM.
 * docs/shm-abi.md describes how it is used. Numbers are little-endian; numbers of
 * operations, statuses, states, events and rights that are not here are those of
 * infiniband/verbs.h.
 *
 * Made by "go generate ./internal/abi". Do not edit.
 */
#ifndef ROCE_XDP_CM_H
#define ROCE_XDP_CM_H

#include "roce_xdp_abi.h"

#ifdef __cplusplus
extern "C" {
#endif


/* CMCreate asks for an id. */
struct roce_xdp_cm_create {
	uint32_t port_space; /* RDMA_PS_* */
	uint32_t type; /* of its queue pairs */
};

/* CMID names an id of the connection manager. */
struct roce_xdp_cm_id {
	uint64_t id;
};

/* CMOptions are cmfsm.Options. */
struct roce_xdp_cm_options {
	uint64_t id;
	uint8_t reuse_addr;
	uint8_t af_only;
	uint8_t tos;
	uint8_t ack_timeout;
	uint8_t min_rnr_timer;
	uint8_t pad[3];
};

/* AddrPort is an address and a port. */
struct roce_xdp_addr_port {
	uint8_t ip[16];
	uint8_t family;
	uint8_t pad;
	uint16_t port;
	uint32_t scope; /* as that of Addr */
};

/* CMBind binds an id; the reply is the address as bound. */
struct roce_xdp_cm_bind {
	uint64_t id;
	struct roce_xdp_addr_port addr;
};

/* CMListen has an id listen. */
struct roce_xdp_cm_listen {
	uint64_t id;
	uint32_t backlog;
	uint32_t pad;
};

/* CMResolve asks for the way to a destination. */
struct roce_xdp_cm_resolve {
	struct roce_xdp_addr src;
	struct roce_xdp_addr dst;
	uint8_t interface[32]; /* zone of either, if that is a name */
	uint64_t wait_ns; /* 0: as long as the device does */
	uint8_t tos;
	uint8_t pad[7];
};

/* CMResolved is the way. */
struct roce_xdp_cm_resolved {
	struct roce_xdp_addr src;
	struct roce_xdp_addr dst;
	uint32_t mtu; /* as ibv_mtu */
	uint8_t hop_limit;
	uint8_t pad;
	uint16_t vlan;
};

/* CMParam is cmfsm.ConnParam. */
struct roce_xdp_cm_param {
	uint32_t qpn;
	uint32_t qkey;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint16_t private_len;
	uint8_t private_data[224];
};

/* CMConnect connects an id along a route (cmfsm.Route). */
struct roce_xdp_cm_connect {
	uint64_t id;
	struct roce_xdp_addr_port local;
	struct roce_xdp_addr_port remote;
	uint32_t flow_label;
	uint8_t mtu;
	uint8_t hop_limit;
	uint8_t sl;
	uint8_t packet_life;
	uint16_t vlan;
	uint8_t pad[6];
	struct roce_xdp_cm_param param;
};

/* CMAccept accepts a request; CMQPAttr has the same form. */
struct roce_xdp_cm_accept {
	uint64_t id;
	struct roce_xdp_cm_param param;
};

/* CMReject rejects a request. */
struct roce_xdp_cm_reject {
	uint64_t id;
	uint32_t reason;
	uint32_t private_len;
	uint8_t private_data[224];
};

/* CMQPAttrReply is cmfsm.QPAttr. */
struct roce_xdp_cm_qp_attr_reply {
	struct roce_xdp_qp_attr attr;
	uint8_t local_gid[16];
	uint32_t scope; /* index of the interface that LocalGID is of; 0: any */
	uint16_t vlan;
	uint8_t pad[2];
};

/* CMInfo is cmfsm.Info. */
struct roce_xdp_cm_info {
	struct roce_xdp_addr_port local;
	struct roce_xdp_addr_port remote;
	uint32_t state;
	uint32_t port_space;
	uint32_t type;
	uint32_t qpn;
	uint32_t peer_qpn;
	uint32_t pad;
};

/* CMQPN names a queue pair number. */
struct roce_xdp_cm_qpn {
	uint32_t qpn;
	uint32_t pad;
};

/* CMHeld says whether a number is held. */
struct roce_xdp_cm_held {
	uint8_t held;
	uint8_t pad[7];
};

/* CMEvent is cmfsm.Event: a packet on the socket of OpCMOpen. */
struct roce_xdp_cm_event {
	uint64_t id;
	uint64_t listener;
	uint32_t type;
	int32_t status;
	struct roce_xdp_addr_port local;
	struct roce_xdp_addr_port remote;
	struct roce_xdp_address_vector av;
	struct roce_xdp_cm_param param;
};

#ifdef __cplusplus
}
#endif

#endif /* ROCE_XDP_CM_H */
