// Package abi writes the C headers of what programs and daemons share: the messages of
// internal/proto, the queue elements and the layout of rings and doorbells of
// internal/queue. The structures are those of Go, read by reflection, and their
// comments are those of the sources, so that the header can say nothing else.
//
//	go generate ./internal/abi
package abi

//go:generate go run ./gen
