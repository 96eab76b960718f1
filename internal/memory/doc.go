// Package memory has memory regions, their keys, and the checks that stand
// between a key on the wire and a byte of memory.
//
// A [Table] maps keys to regions. Registering and deregistering take a lock;
// [Table.Access] is one atomic load and a few comparisons, so that every packet
// can afford it. A region is one of three kinds:
//
//   - direct: a slice of bytes that stays mapped until the region is
//     deregistered. Payload is copied straight into it, and it takes atomics.
//   - revocable: a slice whose pages another process can take away (a mapped
//     file that may be truncated). Every access runs under [Guard]; a fault
//     revokes the region instead of ending the process.
//   - indirect: memory that only an [Indirect] can reach, by address. An error
//     revokes the region. It takes no atomics.
//
// Regions of the second kind that are on demand, and of the third that are
// implicit, last: a fault fails the access that meets it and no other.
//
// An [Alias] is a key for a range of a region, which work requests set, take away
// and set again: a memory window or a fast-registered region. Binding takes the
// lock for a moment and makes one small object; accesses through the key cost what
// those to a region cost.
//
// An access that is refused touches no byte. Virtual addresses are those that
// work requests and peers name; they need not be addresses of this process.
//
// Copies into and out of a region are not synchronized with a program that uses
// the memory at the same time, as with any adapter's DMA; only [Region.WriteFinal]
// and the 64-bit atomics are ordered.
package memory
