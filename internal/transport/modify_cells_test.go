package transport

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// TestModifyEveryCell makes every transition of every transport with real queue
// pairs: with what the table requires, with all that it allows, without each
// required attribute, and with each that it does not take. What is refused changes
// nothing.
func TestModifyEveryCell(t *testing.T) {
	conformance.Rule(t, "7.1-1", "7.1-2", "7.1-3", "7.1-4", "7.1-5", "7.1-6", "7.1-7", "7.1-8", "7.1-9", "7.1-10", "7.1-11", "7.1-12", "7.1-13", "7.1-14", "7.1-16")
	rows := parseStateTable(t)
	for _, ty := range allQPTypes {
		for _, from := range allQPStates {
			for _, to := range allQPStates {
				c := cell{t: t, rows: rows, ty: ty, from: from, to: to}
				set, valid := wantSet(rows, ty, from, to)
				if !valid {
					c.refused(0, ErrTransition)
					c.refused(connAttrs|rcRTS, ErrTransition)
					continue
				}
				c.made(set.required)
				c.made(set.required | set.optional)
				for i := range 32 {
					bit := ibv.AttrMask(1) << i
					switch {
					case bit == ibv.QPAttrState:
					case set.optional&bit != 0:
						c.made(set.required | bit)
					case set.required&bit != 0:
						c.refused(set.required&^bit, ErrAttrMask)
					default:
						c.refused(set.required|bit, ErrAttrMask)
					}
				}
			}
		}
	}
}

// cell is a transition to try.
type cell struct {
	t        *testing.T
	rows     map[string]attrSet
	ty       ibv.QPType
	from, to ibv.QPState
}

// try makes the transition with a new queue pair.
func (c *cell) try(mask ibv.AttrMask) (q *QP, before ibv.QPAttr, err error) {
	q = c.reach(c.from)
	before = q.Query()
	attr := goodAttr(c.to)
	attr.CurState, attr.QKey = c.from, 0x11
	return q, before, q.Modify(1, attr, mask|ibv.QPAttrState, modSelf, modPeer)
}

func (c *cell) made(mask ibv.AttrMask) {
	c.t.Helper()
	if q, _, err := c.try(mask); err != nil || q.State() != c.to {
		c.t.Errorf("%v: %v to %v with %v: in %v, %v", c.ty, c.from, c.to, mask, q.State(), err)
	}
}

func (c *cell) refused(mask ibv.AttrMask, want error) {
	c.t.Helper()
	q, before, err := c.try(mask)
	if !errors.Is(err, want) {
		c.t.Errorf("%v: %v to %v with %v: %v, want %v", c.ty, c.from, c.to, mask, err, want)
	}
	if diff := cmp.Diff(before, q.Query()); diff != "" {
		c.t.Errorf("%v: %v to %v with %v changed: %s", c.ty, c.from, c.to, mask, diff)
	}
}

// reach is a new queue pair in a state.
func (c *cell) reach(state ibv.QPState) *QP {
	q := modQP(c.t, c.ty)
	way := []ibv.QPState{ibv.QPStateInit, ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD}
	if state == ibv.QPStateErr {
		way = []ibv.QPState{ibv.QPStateInit, ibv.QPStateErr}
	}
	for _, next := range way {
		if q.State() == state {
			return q
		}
		if state == ibv.QPStateSQE && next == ibv.QPStateSQD {
			q.state = ibv.QPStateSQE // no transition leads there, a failed request does
			return q
		}
		attr := goodAttr(next)
		attr.QKey = 0x11
		mustModify(c.t, q, attr, ibv.QPAttrState|c.rows[fmt.Sprint(c.ty, " ", q.State(), " ", next)].required)
	}
	return q
}
