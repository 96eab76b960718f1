package wire

import (
	"math/bits"
	"time"
)

// Syndrome is the first byte of an AETH (IBTA vol. 1, 9.7.5.1): the
// kind in bits 7 to 5 and a credit code, a timer code or a NAK code below.
type Syndrome uint8

// The NAK syndromes (IBTA vol. 1, 9.7.5.2). 0x65 to 0x7F are reserved codes.
const (
	NakPSNSeq         Syndrome = 0x60 // PSN sequence error: go back
	NakInvalidRequest Syndrome = 0x61
	NakRemoteAccess   Syndrome = 0x62
	NakRemoteOp       Syndrome = 0x63
	NakInvalidRD      Syndrome = 0x64 // reliable datagram only
)

// NoCredits is the credit code of a responder that gives no credit
// information; its requester must not limit itself.
const NoCredits = 31

// SynKind is the kind of an AETH.
type SynKind uint8

// Kinds of syndromes. KindReserved must be dropped.
const (
	KindACK SynKind = iota
	KindRNR
	KindNAK
	KindReserved
)

// SynACK is an ACK with a credit code, 0 to 31.
func SynACK(credit uint8) Syndrome { return Syndrome(credit & 0x1F) }

// SynRNR is a receiver-not-ready NAK with a timer code, 0 to 31.
func SynRNR(timer uint8) Syndrome { return 0x20 | Syndrome(timer&0x1F) }

// Kind is what the top three bits say.
func (s Syndrome) Kind() SynKind {
	switch s >> 5 {
	case 0:
		return KindACK
	case 1:
		return KindRNR
	case 3:
		return KindNAK
	default:
		return KindReserved
	}
}

// Code is the low five bits: the credit code of an ACK, the timer code of an
// RNR NAK, the error code of a NAK.
func (s Syndrome) Code() uint8 { return uint8(s) & 0x1F }

// Receive work requests by credit code (IBTA vol. 1, 9.7.7.2).
var creditTable = [31]int{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// CreditCode is the largest code that promises at most n receive work
// requests, 0 to 30; n below 0 counts as 0.
func CreditCode(n int) uint8 {
	if n < 2 {
		return uint8(max(n, 0))
	}
	// From 2 on the table has 2^k and 1.5 * 2^k at codes 2k and 2k+1.
	k := bits.Len(uint(n)) - 1
	code := 2 * k
	if n >= 3<<(k-1) {
		code++
	}
	return uint8(min(code, NoCredits-1))
}

// Credits is the number of receive work requests that a credit code promises,
// or -1 for NoCredits. Only the low five bits of code count.
func Credits(code uint8) int {
	if code &= 0x1F; code < NoCredits {
		return creditTable[code]
	}
	return -1
}

// Microseconds by RNR timer code (IBTA vol. 1, 9.7.5.2.8).
var rnrTable = [32]int32{
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
}

// RNRTimer is the shortest time that a requester waits after an RNR NAK with
// this timer code: 10 us to 655.36 ms, code 0 being the longest. Only the low
// five bits of code count.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTable[code&0x1F]) * time.Microsecond
}
