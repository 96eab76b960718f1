// Package control is how the command line talks to a daemon: HTTP and JSON over a
// unix socket, for those whom the daemon lets.
//
//	GET  /v1/link              the devices, as `rdma link show -j` has them, and more
//	GET  /v1/resource          how many objects there are
//	GET  /v1/resource/KIND     the objects: qp, cq, mr, pd, srq, ctx, client, cm_id
//	GET  /v1/statistic         the counters
//	GET  /v1/health            Health; 200 while the daemon runs
//	GET  /v1/ready             the same; 503 while a device is missing
//	GET  /v1/version           the build
//	POST /v1/reload            Reloaded, once the configuration has been read again
//
// An error is {"error": "..."} with another status.
package control
