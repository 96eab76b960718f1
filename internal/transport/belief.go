package transport

// belief is what a requester thinks that its peer does beyond the specification. It
// begins by trying. When the peer turns out not to, it stops, and tries again ever
// more rarely, since what failed may have been lost; a peer that has done it is
// given more chances.
type belief struct {
	trust int8  // failures in a row that are borne
	wait  uint8 // occasions to pass before the next try
	span  uint8 // how many those were the last time
}

const (
	maxTrust = 2
	maxSpan  = 63
)

// try reports whether to try now.
func (b *belief) try() bool { return b.wait == 0 }

// pass counts an occasion on which it was not tried.
func (b *belief) pass() {
	if b.wait > 0 {
		b.wait--
	}
}

// yes notes that it works.
func (b *belief) yes() { b.trust, b.span = maxTrust, 0 }

// no notes that it did not.
func (b *belief) no() {
	if b.trust--; b.trust < 0 {
		b.trust = 0
		b.span = uint8(min(4*int(b.span)+7, maxSpan))
		b.wait = b.span
	}
}
