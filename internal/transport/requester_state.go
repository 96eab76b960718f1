package transport

// reqState says why the requester stopped sending.
type reqState uint8

const (
	reqSending reqState = iota // it has not stopped
	reqIdle                    // no work request is posted
	reqRoom                    // the batch is full
	reqWindow                  // as many packets as the window allows are unacknowledged
	reqBudget                  // as many are unacknowledged as all queue pairs of the worker may have together
	reqPaced                   // the rate of the queue pair allows for the next packet later
	reqCredit                  // as many READs and atomics as max_rd_atomic are outstanding
	reqFence                   // a fenced request waits for earlier READs and atomics
	reqOrder                   // an operation on keys waits for all earlier requests
	reqRNR                     // the responder's RNR NAK asked for a pause
	reqDrain                   // SQD: no new message may begin
	reqFailed                  // the next request failed locally; the ones before it complete first
	reqDead                    // the queue pair has left RTS and SQD
)

var reqStateNames = [...]string{
	"SENDING", "IDLE", "ROOM", "WINDOW", "BUDGET", "PACED", "RD_ATOMIC", "FENCE", "ORDER", "RNR", "DRAIN", "FAILED", "DEAD",
}

// String names the state for traces.
func (s reqState) String() string {
	if int(s) < len(reqStateNames) {
		return reqStateNames[s]
	}
	return "unknown state"
}
