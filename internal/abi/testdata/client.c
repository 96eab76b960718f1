/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the daemon in C: it opens a device, sends one datagram from memory that
 * it shares with the daemon, and waits for the completion.
 *
 *	client SOCKET DEVICE GID-INDEX PEER-GID PEER-QPN QKEY TEXT
 *
 * PEER-GID is 32 hexadecimal digits.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "roce_xdp_abi.h"

/* Numbers of infiniband/verbs.h that are needed here. */
enum {
	QPT_UD = 4,
	QPS_INIT = 1,
	QPS_RTR = 2,
	QPS_RTS = 3,
	QP_STATE = 1 << 0,
	QP_PKEY_INDEX = 1 << 4,
	QP_PORT = 1 << 5,
	QP_QKEY = 1 << 6,
	QP_SQ_PSN = 1 << 16,
	ACCESS_LOCAL_WRITE = 1,
	WR_SEND = 2,
	SEND_SIGNALED = 1 << 1,
	WC_SUCCESS = 0,
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int sock;
static int fds[ROCE_XDP_MAX_FDS]; /* that came with the last reply */
static unsigned nfds;

/* call makes a request and waits for its reply, as nothing else is under way. */
static void call(uint16_t op, const void *req, size_t req_size, void *rep, size_t rep_size)
{
	static uint32_t seq;
	unsigned char packet[ROCE_XDP_MAX_MESSAGE];
	struct roce_xdp_header h = { .size = sizeof(h) + req_size, .op = op, .seq = ++seq };
	union {
		char buf[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { packet, sizeof(packet) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	ssize_t n;

	memcpy(packet, &h, sizeof(h));
	if (req_size)
		memcpy(packet + sizeof(h), req, req_size);
	if (send(sock, packet, h.size, MSG_NOSIGNAL) != (ssize_t)h.size)
		die("send");
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	if (n < (ssize_t)sizeof(h))
		die("recvmsg");
	memcpy(&h, packet, sizeof(h));
	if (h.status != ROCE_XDP_STATUS_OK) {
		fprintf(stderr, "request %u: status %u: %.240s\n", op, h.status, (char *)packet + sizeof(h));
		exit(1);
	}
	if ((size_t)n != sizeof(h) + rep_size || h.seq != seq || h.op != op) {
		fprintf(stderr, "request %u: an answer of %zd bytes, %zu are needed\n", op, n, sizeof(h) + rep_size);
		exit(1);
	}
	if (rep_size)
		memcpy(rep, packet + sizeof(h), rep_size);
	nfds = 0;
	for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), nfds * sizeof(int));
		}
}

#define CALL(op, req, rep) call(ROCE_XDP_OP_##op, &(req), sizeof(req), &(rep), sizeof(rep))
#define TELL(op, req) call(ROCE_XDP_OP_##op, &(req), sizeof(req), NULL, 0)

static void *map(int fd, int prot)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st))
		die("fstat");
	p = mmap(NULL, st.st_size, prot, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	close(fd);
	return p;
}

/* at is the memory of a span. A client with more segments would remember them all. */
static void *at(const struct roce_xdp_span *span)
{
	static unsigned char *segment[64];

	if (span->segment >= 64)
		exit(1);
	if (!segment[span->segment]) {
		struct roce_xdp_map_segment req = { .segment = span->segment };
		struct roce_xdp_map_segment_reply rep;

		CALL(MAP_SEGMENT, req, rep);
		segment[span->segment] = map(fds[0], PROT_READ | PROT_WRITE);
	}
	return segment[span->segment] + span->offset;
}

/* ring sets the doorbell's bits, and wakes the worker if it sleeps. */
static void ring(struct roce_xdp_bells *bells, unsigned slot, void *state, int eventfd)
{
	const uint64_t one = 1;
	unsigned leaf = slot / 64;

	atomic_fetch_or((_Atomic uint64_t *)&bells->leaf[leaf], one << slot % 64);
	atomic_fetch_or((_Atomic uint64_t *)&bells->summary[leaf / 64], one << leaf % 64);
	if (atomic_load((_Atomic uint32_t *)state) != ROCE_XDP_WORKER_AWAKE && write(eventfd, &one, sizeof(one)) != sizeof(one))
		die("write eventfd");
}

int main(int argc, char **argv)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct roce_xdp_hello hello = { .magic = ROCE_XDP_MAGIC, .min_version = ROCE_XDP_MIN_VERSION, .max_version = ROCE_XDP_VERSION };
	struct roce_xdp_hello_reply greeting;
	struct roce_xdp_open open_req = { 0 };
	struct roce_xdp_open_reply dev;
	struct roce_xdp_pd pd;
	struct roce_xdp_cq_reply cq;
	struct roce_xdp_qp_reply qp;
	struct roce_xdp_alloc_buffer_reply buf;
	struct roce_xdp_mr_reply mr;
	struct roce_xdp_ah ah;
	unsigned char *states, *bells, *text;
	int events, wake[64];
	unsigned i;

	if (argc != 8) {
		fprintf(stderr, "usage: %s SOCKET DEVICE GID-INDEX PEER-GID PEER-QPN QKEY TEXT\n", argv[0]);
		return 2;
	}
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", argv[1]);
	if (sock < 0 || connect(sock, (struct sockaddr *)&addr, sizeof(addr)))
		die(argv[1]);
	CALL(HELLO, hello, greeting);

	snprintf((char *)open_req.name, sizeof(open_req.name), "%s", argv[2]);
	CALL(OPEN, open_req, dev);
	if (nfds != 3 + dev.workers || dev.workers > 64)
		return 1;
	states = map(fds[1], PROT_READ);
	bells = map(fds[2], PROT_READ | PROT_WRITE);
	for (i = 0; i < dev.workers; i++)
		wake[i] = fds[3 + i];

	call(ROCE_XDP_OP_ALLOC_PD, NULL, 0, &pd, sizeof(pd));
	struct roce_xdp_create_cq cq_req = { .entries = 16 };
	CALL(CREATE_CQ, cq_req, cq);
	events = fds[0];

	struct roce_xdp_alloc_buffer buf_req = { .size = 4096 };
	CALL(ALLOC_BUFFER, buf_req, buf);
	text = at(&buf.span);
	struct roce_xdp_reg_mr mr_req = {
		.addr = (uintptr_t)text, .length = 4096, .segment = buf.span.segment, .offset = buf.span.offset,
		.pd = pd.pd, .access = ACCESS_LOCAL_WRITE, .memory = ROCE_XDP_MEMORY_SHARED,
	};
	CALL(REG_MR, mr_req, mr);

	struct roce_xdp_create_qp qp_req = {
		.send_cq = cq.handle, .recv_cq = cq.handle, .pd = pd.pd, .type = QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	CALL(CREATE_QP, qp_req, qp);
	struct roce_xdp_modify_qp mod = {
		.handle = qp.handle, .mask = QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_QKEY,
		.attr = { .state = QPS_INIT, .port = 1, .qkey = strtoul(argv[6], NULL, 0) },
	};
	TELL(MODIFY_QP, mod);
	mod.attr.state = QPS_RTR, mod.mask = QP_STATE;
	TELL(MODIFY_QP, mod);
	mod.attr.state = QPS_RTS, mod.mask = QP_STATE | QP_SQ_PSN;
	TELL(MODIFY_QP, mod);

	struct roce_xdp_create_ah ah_req = { .pd = pd.pd, .av = { .sgid_index = atoi(argv[3]), .hop_limit = 64, .port = 1 } };
	for (i = 0; i < 16; i++)
		if (sscanf(argv[4] + 2 * i, "%2hhx", &ah_req.av.dgid[i]) != 1)
			return 2;
	CALL(CREATE_AH, ah_req, ah);

	/* The work request: an element, the index, the doorbell. */
	struct roce_xdp_ring *sq = at(&qp.sq), *done = at(&cq.ring);
	struct roce_xdp_send_wqe wqe = {
		.wr_id = 4711, .opcode = WR_SEND, .flags = SEND_SIGNALED, .num_sge = 1, .length = strlen(argv[7]),
		.ah = ah.ah, .remote_qpn = strtoul(argv[5], NULL, 0), .remote_qkey = strtoul(argv[6], NULL, 0),
	};
	struct roce_xdp_sge sge = { .addr = mr.addr, .length = wqe.length, .lkey = mr.lkey };

	memcpy(text, argv[7], wqe.length);
	memcpy(sq->data, &wqe, sizeof(wqe));
	memcpy(sq->data + sizeof(wqe), &sge, sizeof(sge));
	atomic_store((_Atomic uint32_t *)&done->arm, ROCE_XDP_ARM_NEXT);
	atomic_store((_Atomic uint32_t *)&sq->producer, 1);
	ring((struct roce_xdp_bells *)(bells + (size_t)qp.worker * dev.bell_stride), qp.slot,
	     states + (size_t)qp.worker * dev.state_stride, wake[qp.worker]);

	struct pollfd p = { .fd = events, .events = POLLIN };
	if (poll(&p, 1, 10000) != 1)
		die("poll");
	if (atomic_load((_Atomic uint32_t *)&done->producer) != 1) {
		fprintf(stderr, "an event without a completion\n");
		return 1;
	}
	struct roce_xdp_cqe cqe;
	memcpy(&cqe, done->data, sizeof(cqe));
	atomic_store((_Atomic uint32_t *)&done->consumer, 1);
	printf("qp %#x wr_id %" PRIu64 " status %u bytes %u\n", cqe.qpn, cqe.wr_id, cqe.status, wqe.length);
	return cqe.status != WC_SUCCESS || cqe.wr_id != 4711;
}
