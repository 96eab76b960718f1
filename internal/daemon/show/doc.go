// Package show prints what a daemon tells, in the words of rdma(8): the same columns,
// the same JSON keys, the same way to select.
package show
