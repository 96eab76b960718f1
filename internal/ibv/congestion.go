package ibv

// Congestion is what a queue pair does when its peer reports congestion on the way
// there. libibverbs has nothing like it: adapters are configured as a whole.
type Congestion uint8

// Reactions to congestion.
const (
	CongestionDefault Congestion = iota // what the device is configured to
	CongestionNone                      // none: as many packets as the window allows
	CongestionDCQCN                     // DCQCN lowers the rate, and packets carry ECT(0)
)

var congestionNames = []string{CongestionDefault: "DEFAULT", CongestionNone: "NONE", CongestionDCQCN: "DCQCN"}

// String is the name of the reaction: "DCQCN".
func (c Congestion) String() string { return enumString("CONGESTION", int(c), congestionNames) }

// Valid reports whether c is one of the reactions.
func (c Congestion) Valid() bool { return c <= CongestionDCQCN }
