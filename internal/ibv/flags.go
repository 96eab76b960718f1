package ibv

import "strconv"

// flagName is the name of one bit.
type flagName struct {
	bit  uint32
	name string
}

// flagString joins the names of the bits of v by "|". Bits without a name are
// one hexadecimal number at the end; no bits are "0".
func flagString(v uint32, names []flagName) string {
	if v == 0 {
		return "0"
	}
	s := ""
	for _, n := range names {
		if v&n.bit == 0 {
			continue
		}
		v &^= n.bit
		if s != "" {
			s += "|"
		}
		s += n.name
	}
	if v == 0 {
		return s
	}
	if s != "" {
		s += "|"
	}
	return s + "0x" + strconv.FormatUint(uint64(v), 16)
}

// enumString is names[v], or kind and number when v has no name.
func enumString(kind string, v int, names []string) string {
	if v < len(names) && names[v] != "" {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(v) + ")"
}
