// Command rxe proves the stack against Linux's software RoCE, rdma_rxe: it boots
// a small virtual machine with Debian's kernel, joins it by a bridge in a network
// namespace of its own to an interface that our stack owns, and runs operations,
// errors and losses in both roles, over IPv4 and IPv6, at two path MTUs.
//
// It prints one PASS or FAIL line for each row and ends with status 1 when a row
// failed. Guest, namespace and capture are removed however it ends. It needs root,
// and on first use Debian's package registry: guest/build downloads the kernel.
package main
