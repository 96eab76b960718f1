// Package ibv has the numbers of libibverbs: states, opcodes, flags, statuses
// and attribute masks with their values and names, and the attribute records
// made of them. It is shared by the protocol engine, the public package verbs
// (which re-exports it) and the protocol between daemon and clients, so the
// values are part of an ABI.
package ibv
