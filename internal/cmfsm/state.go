package cmfsm

import "strconv"

// State is that of an id. The names are ib_cm's.
type State uint8

// States.
const (
	StateIdle        State = iota // created, perhaps bound
	StateListen                   // takes requests
	StateREQSent                  // active: waits for REP
	StateMRAREQRcvd               // active: waits longer for REP
	StateREPRcvd                  // active: the application decides
	StateREQRcvd                  // passive: the application decides
	StateREPSent                  // passive: waits for RTU
	StateMRAREPRcvd               // passive: waits longer for RTU
	StateEstablished              //
	StateDREQSent                 // waits for DREP
	StateDREQRcvd                 // the application is to disconnect
	StateTimewait                 // ids and QPN are held
	StateSIDRREQSent              // UD client: waits for SIDR_REP
	StateSIDRREQRcvd              // UD server: the application decides
	StateSIDRDone                 // UD: answered with success
	StateClosed                   // over; only Destroy is left
	numStates
)

var stateNames = [numStates]string{
	"IDLE", "LISTEN", "REQ_SENT", "MRA_REQ_RCVD", "REP_RCVD", "REQ_RCVD", "REP_SENT", "MRA_REP_RCVD", "ESTABLISHED",
	"DREQ_SENT", "DREQ_RCVD", "TIMEWAIT", "SIDR_REQ_SENT", "SIDR_REQ_RCVD", "SIDR_DONE", "CLOSED",
}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "STATE(" + strconv.Itoa(int(s)) + ")"
}
