package transport

import (
	"fmt"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// Errors of Modify.
var (
	// ErrTransition says that a queue pair cannot go from one state to the other.
	ErrTransition = ibv.ErrTransition
	// ErrAttrMask says that a transition lacks an attribute or takes none such.
	ErrAttrMask = ibv.ErrAttrMask
	// ErrAttrValue says that an attribute has a value outside its range.
	ErrAttrValue = ibv.ErrAttrValue
	// ErrDraining says that the send queue has not drained yet.
	ErrDraining = ibv.ErrDraining
)

// attrSet is what a transition takes besides STATE.
type attrSet struct{ required, optional ibv.AttrMask }

// transition is a row of the state table; a transport that has no entry in
// sets cannot make it.
type transition struct {
	from, to ibv.QPState
	sets     map[ibv.QPType]attrSet
}

// Attributes that several rows share. The alternate path is not here: RoCE has
// no automatic path migration. PATH_MIG_STATE is taken and changes nothing.
const (
	connAttrs = ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN
	connOpt   = ibv.QPAttrAccessFlags | ibv.QPAttrPKeyIndex
	rtsOpt    = ibv.QPAttrCurState | ibv.QPAttrAccessFlags | ibv.QPAttrPathMigState
	dgramOpt  = ibv.QPAttrCurState | ibv.QPAttrQKey
	dgramInit = ibv.QPAttrPKeyIndex | ibv.QPAttrQKey
	connInit  = ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags
	xrcSend   = ibv.QPTypeXRCSend // asks as RC does, answers nothing
	xrcRecv   = ibv.QPTypeXRCRecv // and the other way round
	rcRTS     = ibv.QPAttrTimeout | ibv.QPAttrRetryCnt | ibv.QPAttrRNRRetry | ibv.QPAttrMaxQPRDAtomic
)

// transitions are the rows of IBTA vol. 1, 10.3.1 and table 91 (modify queue
// pair), as Linux checks them. Going to RESET or ERR is not here; see lookup.
var transitions = []transition{
	{ibv.QPStateReset, ibv.QPStateInit, map[ibv.QPType]attrSet{
		ibv.QPTypeRC:  {required: connInit},
		ibv.QPTypeUC:  {required: connInit},
		xrcSend:       {required: connInit},
		xrcRecv:       {required: connInit},
		ibv.QPTypeUD:  {required: dgramInit | ibv.QPAttrPort},
		ibv.QPTypeGSI: {required: dgramInit},
	}},
	{ibv.QPStateInit, ibv.QPStateInit, map[ibv.QPType]attrSet{
		ibv.QPTypeRC:  {optional: connInit},
		ibv.QPTypeUC:  {optional: connInit},
		xrcSend:       {optional: connInit},
		xrcRecv:       {optional: connInit},
		ibv.QPTypeUD:  {optional: dgramInit | ibv.QPAttrPort},
		ibv.QPTypeGSI: {optional: dgramInit},
	}},
	{ibv.QPStateInit, ibv.QPStateRTR, map[ibv.QPType]attrSet{
		ibv.QPTypeRC:  {connAttrs | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer, connOpt},
		ibv.QPTypeUC:  {connAttrs, connOpt},
		xrcSend:       {connAttrs, connOpt},
		xrcRecv:       {connAttrs | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer, connOpt},
		ibv.QPTypeUD:  {optional: dgramInit},
		ibv.QPTypeGSI: {optional: dgramInit},
	}},
	{ibv.QPStateRTR, ibv.QPStateRTS, map[ibv.QPType]attrSet{
		ibv.QPTypeRC:  {ibv.QPAttrSQPSN | rcRTS, rtsOpt | ibv.QPAttrMinRNRTimer},
		ibv.QPTypeUC:  {ibv.QPAttrSQPSN, rtsOpt},
		xrcSend:       {ibv.QPAttrSQPSN | rcRTS, rtsOpt},
		xrcRecv:       {ibv.QPAttrSQPSN | ibv.QPAttrTimeout, rtsOpt | ibv.QPAttrMinRNRTimer},
		ibv.QPTypeUD:  {ibv.QPAttrSQPSN, dgramOpt},
		ibv.QPTypeGSI: {ibv.QPAttrSQPSN, dgramOpt},
	}},
	{ibv.QPStateRTS, ibv.QPStateRTS, map[ibv.QPType]attrSet{
		ibv.QPTypeRC:  {optional: rtsOpt | ibv.QPAttrMinRNRTimer},
		ibv.QPTypeUC:  {optional: rtsOpt},
		xrcSend:       {optional: rtsOpt},
		xrcRecv:       {optional: rtsOpt | ibv.QPAttrMinRNRTimer},
		ibv.QPTypeUD:  {optional: dgramOpt},
		ibv.QPTypeGSI: {optional: dgramOpt},
	}},
	{ibv.QPStateRTS, ibv.QPStateSQD, map[ibv.QPType]attrSet{
		ibv.QPTypeRC:  {optional: ibv.QPAttrEnSQDAsyncNotify},
		ibv.QPTypeUC:  {optional: ibv.QPAttrEnSQDAsyncNotify},
		xrcSend:       {optional: ibv.QPAttrEnSQDAsyncNotify},
		xrcRecv:       {optional: ibv.QPAttrEnSQDAsyncNotify},
		ibv.QPTypeUD:  {optional: ibv.QPAttrEnSQDAsyncNotify},
		ibv.QPTypeGSI: {optional: ibv.QPAttrEnSQDAsyncNotify},
	}},
	{ibv.QPStateSQD, ibv.QPStateSQD, map[ibv.QPType]attrSet{
		ibv.QPTypeRC: {optional: connOpt | rcRTS | ibv.QPAttrPort | ibv.QPAttrAV | ibv.QPAttrMaxDestRDAtomic |
			ibv.QPAttrMinRNRTimer | ibv.QPAttrPathMigState},
		ibv.QPTypeUC: {optional: connOpt | ibv.QPAttrAV | ibv.QPAttrPathMigState},
		xrcSend:      {optional: connOpt | rcRTS | ibv.QPAttrPort | ibv.QPAttrAV | ibv.QPAttrPathMigState},
		xrcRecv: {optional: connOpt | ibv.QPAttrPort | ibv.QPAttrAV | ibv.QPAttrTimeout | ibv.QPAttrMaxDestRDAtomic |
			ibv.QPAttrMinRNRTimer | ibv.QPAttrPathMigState},
		ibv.QPTypeUD:  {optional: dgramInit},
		ibv.QPTypeGSI: {optional: dgramInit},
	}},
	{ibv.QPStateSQD, ibv.QPStateRTS, map[ibv.QPType]attrSet{
		ibv.QPTypeRC:  {optional: rtsOpt | ibv.QPAttrMinRNRTimer},
		ibv.QPTypeUC:  {optional: rtsOpt},
		xrcSend:       {optional: rtsOpt},
		xrcRecv:       {optional: rtsOpt | ibv.QPAttrMinRNRTimer},
		ibv.QPTypeUD:  {optional: dgramOpt},
		ibv.QPTypeGSI: {optional: dgramOpt},
	}},
	// A reliable connection has no SQE: its send errors are errors of the pair.
	{ibv.QPStateSQE, ibv.QPStateRTS, map[ibv.QPType]attrSet{
		ibv.QPTypeUC:  {optional: ibv.QPAttrCurState | ibv.QPAttrAccessFlags},
		ibv.QPTypeUD:  {optional: dgramOpt},
		ibv.QPTypeGSI: {optional: dgramOpt},
	}},
}

// lookup is what a queue pair of type t takes to go from one state to another.
func lookup(t ibv.QPType, from, to ibv.QPState) (attrSet, bool) {
	if serviceOf(t) == noService || from > ibv.QPStateErr {
		return attrSet{}, false
	}
	switch to {
	case ibv.QPStateReset:
		return attrSet{}, true
	case ibv.QPStateErr:
		return attrSet{}, from != ibv.QPStateReset
	default: // the table has the others
	}
	for i := range transitions {
		if r := &transitions[i]; r.from == from && r.to == to {
			s, ok := r.sets[t]
			return s, ok
		}
	}
	return attrSet{}, false
}

// CheckTransition reports whether a queue pair of type t may go from state cur
// to next with the attributes of mask: all that are required and no others than
// these and the optional ones. STATE itself never counts. Errors: ErrTransition,
// ErrAttrMask; the text names the attributes.
func CheckTransition(t ibv.QPType, cur, next ibv.QPState, mask ibv.AttrMask) error {
	set, ok := lookup(t, cur, next)
	if !ok {
		return fmt.Errorf("%w: %v to %v of a %v QP", ErrTransition, cur, next, t)
	}
	mask &^= ibv.QPAttrState
	if missing := set.required &^ mask; missing != 0 {
		return fmt.Errorf("%w: %v to %v of a %v QP needs %s", ErrAttrMask, cur, next, t, listAttrs(missing))
	}
	extra := mask &^ (set.required | set.optional)
	switch {
	case extra == 0:
		return nil
	case extra&(ibv.QPAttrAltPath) != 0:
		return fmt.Errorf("%w: ALT_PATH: RoCE has no alternate path", ErrAttrMask)
	case extra&ibv.QPAttrCap != 0:
		return fmt.Errorf("%w: CAP: the queues of a QP cannot be resized", ErrAttrMask)
	}
	return fmt.Errorf("%w: %v to %v of a %v QP takes no %s", ErrAttrMask, cur, next, t, listAttrs(extra))
}

// listAttrs is "PATH_MTU, TIMEOUT and DEST_QPN".
func listAttrs(m ibv.AttrMask) string {
	s := strings.Split(m.String(), "|")
	if len(s) == 1 {
		return s[0]
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}
