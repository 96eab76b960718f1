// Package pingpong speaks the protocol of libibverbs' example programs, so that
// ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong on a host with an HCA or
// with Linux's rdma_rxe can be either end: one TCP connection on which each side
// sends a message of 52 characters, then SENDs in turns.
package pingpong
