package proto

import "bytes"

// PutText writes s into dst, cut to fit, with a NUL at the end.
func PutText(dst []byte, s string) {
	n := copy(dst[:len(dst)-1], s)
	clear(dst[n:])
}

// Text is the string in b, which ends at the first NUL.
func Text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}

// Bool is 1 for true.
func Bool(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
