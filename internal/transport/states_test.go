package transport

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

var allQPTypes = []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD, ibv.QPTypeGSI, ibv.QPTypeXRCSend, ibv.QPTypeXRCRecv}

var allQPStates = []ibv.QPState{
	ibv.QPStateReset, ibv.QPStateInit, ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD, ibv.QPStateSQE, ibv.QPStateErr,
}

// The state table once more, one transition a line: type, from, to, required
// attributes, "/", optional ones. Going to RESET and ERR is not listed.
const stateTable = `
RC  RESET INIT  PKEY_INDEX PORT ACCESS_FLAGS /
RC  INIT  INIT  / PKEY_INDEX PORT ACCESS_FLAGS
RC  INIT  RTR   AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER / ACCESS_FLAGS PKEY_INDEX
RC  RTR   RTS   TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC / CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
RC  RTS   RTS   / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER
RC  RTS   SQD   / EN_SQD_ASYNC_NOTIFY
RC  SQD   SQD   / PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
RC  SQD   RTS   / CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
UC  RESET INIT  PKEY_INDEX PORT ACCESS_FLAGS /
UC  INIT  INIT  / PKEY_INDEX PORT ACCESS_FLAGS
UC  INIT  RTR   AV PATH_MTU DEST_QPN RQ_PSN / ACCESS_FLAGS PKEY_INDEX
UC  RTR   RTS   SQ_PSN / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE
UC  RTS   RTS   / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE
UC  RTS   SQD   / EN_SQD_ASYNC_NOTIFY
UC  SQD   SQD   / AV ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
UC  SQD   RTS   / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE
UC  SQE   RTS   / CUR_STATE ACCESS_FLAGS
UD  RESET INIT  PKEY_INDEX PORT QKEY /
UD  INIT  INIT  / PKEY_INDEX PORT QKEY
UD  INIT  RTR   / PKEY_INDEX QKEY
UD  RTR   RTS   SQ_PSN / CUR_STATE QKEY
UD  RTS   RTS   / CUR_STATE QKEY
UD  RTS   SQD   / EN_SQD_ASYNC_NOTIFY
UD  SQD   SQD   / PKEY_INDEX QKEY
UD  SQD   RTS   / CUR_STATE QKEY
UD  SQE   RTS   / CUR_STATE QKEY
GSI RESET INIT  PKEY_INDEX QKEY /
GSI INIT  INIT  / PKEY_INDEX QKEY
GSI INIT  RTR   / PKEY_INDEX QKEY
GSI RTR   RTS   SQ_PSN / CUR_STATE QKEY
GSI RTS   RTS   / CUR_STATE QKEY
GSI RTS   SQD   / EN_SQD_ASYNC_NOTIFY
GSI SQD   SQD   / PKEY_INDEX QKEY
GSI SQD   RTS   / CUR_STATE QKEY
GSI SQE   RTS   / CUR_STATE QKEY
XRC_SEND RESET INIT  PKEY_INDEX PORT ACCESS_FLAGS /
XRC_SEND INIT  INIT  / PKEY_INDEX PORT ACCESS_FLAGS
XRC_SEND INIT  RTR   AV PATH_MTU DEST_QPN RQ_PSN / ACCESS_FLAGS PKEY_INDEX
XRC_SEND RTR   RTS   TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE
XRC_SEND RTS   RTS   / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE
XRC_SEND RTS   SQD   / EN_SQD_ASYNC_NOTIFY
XRC_SEND SQD   SQD   / PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
XRC_SEND SQD   RTS   / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE
XRC_RECV RESET INIT  PKEY_INDEX PORT ACCESS_FLAGS /
XRC_RECV INIT  INIT  / PKEY_INDEX PORT ACCESS_FLAGS
XRC_RECV INIT  RTR   AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER / ACCESS_FLAGS PKEY_INDEX
XRC_RECV RTR   RTS   TIMEOUT SQ_PSN / CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
XRC_RECV RTS   RTS   / CUR_STATE ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER
XRC_RECV RTS   SQD   / EN_SQD_ASYNC_NOTIFY
XRC_RECV SQD   SQD   / PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
XRC_RECV SQD   RTS   / CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
`

// parseStateTable gives the rows by "RC INIT RTR".
func parseStateTable(t *testing.T) map[string]attrSet {
	t.Helper()
	bits := map[string]ibv.AttrMask{}
	for i := range 32 {
		m := ibv.AttrMask(1) << i
		bits[m.String()] = m
	}
	rows := map[string]attrSet{}
	for line := range strings.Lines(strings.TrimSpace(stateTable)) {
		f := strings.Fields(line)
		var set attrSet
		into := &set.required
		for _, name := range f[3:] {
			if name == "/" {
				into = &set.optional
				continue
			}
			bit, ok := bits[name]
			if !ok {
				t.Fatalf("no attribute is named %s", name)
			}
			*into |= bit
		}
		rows[strings.Join(f[:3], " ")] = set
	}
	return rows
}

// wantSet is the expected row; valid is false when the transition must fail.
func wantSet(rows map[string]attrSet, ty ibv.QPType, from, to ibv.QPState) (set attrSet, valid bool) {
	switch to {
	case ibv.QPStateReset:
		return attrSet{}, true
	case ibv.QPStateErr:
		return attrSet{}, from != ibv.QPStateReset
	default: // the table has the others
	}
	set, valid = rows[fmt.Sprint(ty, " ", from, " ", to)]
	return set, valid
}

func TestEveryTransition(t *testing.T) {
	conformance.Rule(t, "7.1-12")
	rows := parseStateTable(t)
	used := 0
	for _, ty := range allQPTypes {
		for _, from := range allQPStates {
			for _, to := range allQPStates {
				set, valid := wantSet(rows, ty, from, to)
				if !valid {
					if err := CheckTransition(ty, from, to, 0); !errors.Is(err, ErrTransition) {
						t.Errorf("%v %v to %v: %v, want ErrTransition", ty, from, to, err)
					}
					continue
				}
				used++
				t.Run(fmt.Sprintf("%v_%v_to_%v", ty, from, to), func(t *testing.T) { checkRow(t, ty, from, to, set) })
			}
		}
	}
	// Besides the rows: 7 transitions to RESET and 6 to ERR of each type.
	if want := len(rows) + 13*len(allQPTypes); used != want {
		t.Errorf("%d transitions are valid, want %d", used, want)
	}
}

// checkRow takes each bit away from, and adds each bit to, what the row needs.
func checkRow(t *testing.T, ty ibv.QPType, from, to ibv.QPState, set attrSet) {
	for _, mask := range []ibv.AttrMask{
		set.required, set.required | ibv.QPAttrState, set.required | set.optional, set.required | set.optional | ibv.QPAttrState,
	} {
		if err := CheckTransition(ty, from, to, mask); err != nil {
			t.Errorf("with %v: %v", mask, err)
		}
	}
	for i := range 32 {
		bit := ibv.AttrMask(1) << i
		err := CheckTransition(ty, from, to, set.required^bit)
		legal := bit == ibv.QPAttrState || set.optional&bit != 0
		switch {
		case legal && err != nil:
			t.Errorf("%v is optional: %v", bit, err)
		case !legal && !errors.Is(err, ErrAttrMask):
			t.Errorf("with %v: %v, want ErrAttrMask", set.required^bit, err)
		case !legal && !strings.Contains(err.Error(), bit.String()):
			t.Errorf("%q does not name %v", err, bit)
		}
	}
}

func TestUnknownTypesAndStates(t *testing.T) {
	for _, tc := range []struct {
		ty       ibv.QPType
		from, to ibv.QPState
	}{
		{0, ibv.QPStateReset, ibv.QPStateInit},
		{5, ibv.QPStateReset, ibv.QPStateReset},
		{8, ibv.QPStateRTS, ibv.QPStateErr},
		{11, ibv.QPStateReset, ibv.QPStateInit},
		{ibv.QPTypeRC, 7, ibv.QPStateReset},
		{ibv.QPTypeRC, ibv.QPStateRTS, 7},
		{ibv.QPTypeRC, ibv.QPStateRTS, 255},
	} {
		if err := CheckTransition(tc.ty, tc.from, tc.to, 0); !errors.Is(err, ErrTransition) {
			t.Errorf("%v %v to %v: %v, want ErrTransition", tc.ty, tc.from, tc.to, err)
		}
	}
}

func TestTransitionErrorsSayWhatIsWrong(t *testing.T) {
	conformance.Rule(t, "7.1-12", "7.1-16")
	rtr := connAttrs | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer
	for _, tc := range []struct {
		name     string
		from, to ibv.QPState
		mask     ibv.AttrMask
		want     string
	}{
		{"no way", ibv.QPStateInit, ibv.QPStateRTS, 0, "invalid state transition: INIT to RTS of a RC QP"},
		{"one missing", ibv.QPStateInit, ibv.QPStateRTR, rtr &^ ibv.QPAttrDestQPN,
			"wrong set of attributes: INIT to RTR of a RC QP needs DEST_QPN"},
		{"two missing", ibv.QPStateInit, ibv.QPStateRTR, rtr &^ (ibv.QPAttrDestQPN | ibv.QPAttrPathMTU),
			"wrong set of attributes: INIT to RTR of a RC QP needs PATH_MTU and DEST_QPN"},
		{"three missing", ibv.QPStateReset, ibv.QPStateInit, 0,
			"wrong set of attributes: RESET to INIT of a RC QP needs ACCESS_FLAGS, PKEY_INDEX and PORT"},
		{"extra", ibv.QPStateRTS, ibv.QPStateSQD, ibv.QPAttrTimeout | ibv.QPAttrQKey,
			"wrong set of attributes: RTS to SQD of a RC QP takes no QKEY and TIMEOUT"},
		{"alternate path", ibv.QPStateInit, ibv.QPStateRTR, rtr | ibv.QPAttrAltPath,
			"wrong set of attributes: ALT_PATH: RoCE has no alternate path"},
		{"capacities", ibv.QPStateRTS, ibv.QPStateRTS, ibv.QPAttrCap,
			"wrong set of attributes: CAP: the queues of a QP cannot be resized"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := CheckTransition(ibv.QPTypeRC, tc.from, tc.to, tc.mask)
			if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
