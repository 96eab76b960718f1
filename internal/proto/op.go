package proto

import "fmt"

// Version is the version of the messages and of the layout of shared memory that
// this package speaks. Both ends offer the range that they know in [Hello].
const (
	Version    = 1
	MinVersion = 1
)

// Magic is the first word of Hello: "ROCE" as a number.
const Magic uint32 = 0x45434F52

// MaxMessage is how many bytes a packet has at most.
const MaxMessage = 8192

// MaxFDs is how many descriptors a packet carries at most.
const MaxFDs = 72

// Op says what a message asks for. Numbers are never used again.
type Op uint16

// Requests.
const (
	OpHello       Op = 1 // versions
	OpDevices     Op = 2 // the devices that this client may open
	OpOpen        Op = 3 // opens one
	OpMapSegment  Op = 4 // the descriptor of a segment
	OpCancel      Op = 5 // ends another request early, which is answered as cancelled
	OpQueryDevice Op = 6
	OpQueryPort   Op = 7
	OpQueryClock  Op = 8
	OpQueryGIDs   Op = 9
	OpResolve     Op = 10
	OpCounters    Op = 11
	OpSetMemory   Op = 12 // hands over the descriptor of /proc/self/mem

	OpAllocPD     Op = 20
	OpDeallocPD   Op = 21
	OpAllocBuffer Op = 22
	OpFreeBuffer  Op = 23
	OpRegMR       Op = 24
	OpReregMR     Op = 25
	OpAdviseMR    Op = 26
	OpDeregMR     Op = 27
	OpAllocMW     Op = 28
	OpDeallocMW   Op = 29
	OpAllocFastMR Op = 30
	OpDeallocFast Op = 31

	OpCreateCQ   Op = 40
	OpResizeCQ   Op = 41
	OpModifyCQ   Op = 42
	OpQueryCQ    Op = 43
	OpDestroyCQ  Op = 44
	OpCreateSRQ  Op = 45
	OpModifySRQ  Op = 46
	OpQuerySRQ   Op = 47
	OpDestroySRQ Op = 48
	OpOpenXRCD   Op = 49
	OpCloseXRCD  Op = 50

	OpCreateQP    Op = 60
	OpOpenQP      Op = 61
	OpModifyQP    Op = 62
	OpQueryQP     Op = 63
	OpDestroyQP   Op = 64
	OpAttachMcast Op = 65
	OpDetachMcast Op = 66
	OpCreateAH    Op = 67
	OpDestroyAH   Op = 68

	OpCMOpen        Op = 80 // the socket of connection events
	OpCMClose       Op = 81
	OpCMCreate      Op = 82
	OpCMSetOptions  Op = 83
	OpCMBind        Op = 84
	OpCMListen      Op = 85
	OpCMResolve     Op = 86
	OpCMConnect     Op = 87
	OpCMAccept      Op = 88
	OpCMReject      Op = 89
	OpCMEstablished Op = 90
	OpCMDisconnect  Op = 91
	OpCMDestroy     Op = 92
	OpCMQPAttr      Op = 93
	OpCMInfo        Op = 94
	OpCMQPNHeld     Op = 95
	OpCMCounters    Op = 96
)

// String is the name of the request, "CREATE_QP".
func (o Op) String() string {
	for i := range Messages {
		if Messages[i].Op == o {
			return Messages[i].Name
		}
	}
	return fmt.Sprintf("OP_%d", uint16(o))
}
