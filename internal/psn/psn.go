// Package psn has the 24-bit packet sequence number of the InfiniBand
// transport: serial-number arithmetic modulo 2^24 (IBTA vol. 1, 9.7.2).
package psn

// PSN is a packet sequence number, 0 to 2^24-1. The zero value is PSN 0.
type PSN uint32

// Mask has the 24 bits that a PSN, an MSN or a QPN occupies on the wire.
const Mask = 1<<24 - 1

// Half is the largest distance at which two PSNs can still be ordered.
const Half = 1 << 23

// Of takes the low 24 bits of v.
func Of(v uint32) PSN { return PSN(v & Mask) }

// Add is p plus n, modulo 2^24; n may be negative.
func (p PSN) Add(n int) PSN { return PSN(uint32(int64(p)+int64(n)) & Mask) }

// Next is the PSN after p.
func (p PSN) Next() PSN { return (p + 1) & Mask }

// Sub is the signed distance from q to p: positive when p comes after q.
// It lies in [-2^23, 2^23).
func (p PSN) Sub(q PSN) int { return int(int32((uint32(p)-uint32(q))<<8) >> 8) }

// Less reports whether p comes before q.
func (p PSN) Less(q PSN) bool { return p.Sub(q) < 0 }

// LessEq reports whether p is q or comes before it.
func (p PSN) LessEq(q PSN) bool { return p.Sub(q) <= 0 }

// In reports whether p lies in the n PSNs that start at first.
func (p PSN) In(first PSN, n int) bool { d := p.Sub(first); return d >= 0 && d < n }
