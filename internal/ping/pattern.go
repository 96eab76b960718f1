package ping

import (
	"bytes"
	"strconv"
)

// The bytes that follow the text of a round run from first to last, over and over.
const (
	firstByte = 'A'
	lastByte  = 'z'
)

// fill makes b the data of round k, from 0: a text with its number, a run of bytes that
// begins one further each round, and a NUL.
func fill(b []byte, k int) {
	text := strconv.AppendInt([]byte("rdma-ping-"), int64(k), 10)
	n := copy(b, append(text, ": "...))
	c := byte(firstByte + k%(lastByte-firstByte+1))
	for i := n; i < len(b); i++ {
		b[i] = c
		if c++; c > lastByte {
			c = firstByte
		}
	}
	b[len(b)-1] = 0
}

// text is what is printed of data: what comes before the first NUL.
func text(b []byte) []byte {
	head, _, _ := bytes.Cut(b, []byte{0})
	return head
}
