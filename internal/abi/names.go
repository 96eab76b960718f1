package abi

import (
	"strings"
	"unicode"
)

// words are names whose words cannot be told by their capitals.
var words = strings.NewReplacer(
	"PKey", "Pkey", "QKey", "Qkey", "LKey", "Lkey", "RKey", "Rkey", "RQPSN", "RqPsn", "SQPSN", "SqPsn", "ODPRC", "OdpRc", "ODPUC", "OdpUc", "ODPUD", "OdpUd",
	"QPRD", "QpRd", "KHz", "Khz", "CMQPN", "CmQpn", "CMQP", "CmQp", "GIDs", "Gids", "FDs", "Fds", "WRID", "WrId", "CMID", "CmId", "FWVersion", "FwVersion",
	"HWVersion", "HwVersion", "SQDAsync", "SqdAsync",
	"QPWR", "QpWr", "SRQWR", "SrqWr", "SRQSGE", "SrqSge",
)

// snake is the name of C for a name of Go: "MaxSendWR" is "max_send_wr".
func snake(name string) string {
	switch name { // words of C++
	case "Private":
		return "private_data"
	case "New":
		return "change"
	}
	r := []rune(words.Replace(name))
	var b strings.Builder
	for i, c := range r {
		if i > 0 && unicode.IsUpper(c) && (!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

const prefix = "roce_xdp_"

func structName(name string) string { return "struct " + prefix + snake(name) }
