// The objects and constants are built by cmd/bpf2go-gen from steer.bpf.c and its
// headers, and committed. "bpf2go-gen -check" tells whether they are up to date.

package bpf

//go:generate go run ../cmd/bpf2go-gen
