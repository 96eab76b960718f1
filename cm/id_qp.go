package cm

import "github.com/roce-xdp/roce-xdp/verbs"

// CreateQP makes the id's queue pair (rdma_create_qp), which connecting then takes to RTS:
// before Connect or Accept, in a PD of the id's device. attr.Type may be 0. It is in INIT, so
// that receives can be posted; one of UD is in RTS, with Q_Key DefaultQKey. Destroy
// destroys it.
func (id *ID) CreateQP(pd *verbs.PD, attr *verbs.QPInitAttr) error {
	return id.run("create a queue pair for", func(e end) error {
		switch {
		case pd == nil || attr == nil || pd.Context() != e.d.dev:
			return invalid("a PD of the device %s and attributes are needed", e.d.dev.Name())
		case attr.Type != 0 && attr.Type != id.typ:
			return invalid("a queue pair of type %v, in port space %v it is %v", attr.Type, id.ps, id.typ)
		case id.qp != nil:
			return stateErr("it has a queue pair")
		}
		a := *attr
		a.Type = id.typ
		q, err := newQP(e.d, pd, &a)
		if err != nil {
			return err
		}
		if id.typ == verbs.UD {
			err = unconnected(q, DefaultQKey)
		} else {
			err = toInit(q, verbs.AccessRemoteWrite)
		}
		if err != nil {
			_ = q.Destroy()
			return err
		}
		id.qp = q
		id.mu.Lock()
		id.made = true
		id.mu.Unlock()
		return nil
	})
}

// unconnected takes a queue pair of UD to RTS.
func unconnected(q *verbs.QP, qkey uint32) error {
	err := q.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, QKey: qkey},
		verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrQKey)
	if err != nil {
		return err
	}
	if err := q.Modify(&verbs.QPAttr{State: verbs.QPStateRTR}, verbs.AttrState); err != nil {
		return err
	}
	return q.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState|verbs.AttrSQPSN)
}

// QP is the queue pair of CreateQP, or nil.
func (id *ID) QP() *verbs.QP {
	id.call.Lock()
	defer id.call.Unlock()
	return id.qp
}

// InitQPAttr are the attributes with which a program takes a queue pair of its own to
// a state (rdma_init_qp_attr): INIT at any time, RTR and RTS from
// CONNECT_REQUEST or CONNECT_RESPONSE on. Then Connect and Accept have its number in
// ConnParam.QPN. p is what will be accepted, on the passive side, else nil.
func (id *ID) InitQPAttr(state verbs.QPState, p *ConnParam) (attr verbs.QPAttr, mask verbs.AttrMask, err error) {
	err = id.run("attributes of", func(e end) error {
		switch {
		case id.typ == verbs.UD:
			return invalid("queue pairs of UD are not connected")
		case state == verbs.QPStateInit:
			attr = verbs.QPAttr{State: state, Port: 1, AccessFlags: verbs.AccessRemoteWrite}
			mask = verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccessFlags
			return nil
		case state != verbs.QPStateRTR && state != verbs.QPStateRTS:
			return invalid("state %v: INIT, RTR and RTS are possible", state)
		}
		in := id.filled(p)
		a, err := e.d.client.QPAttr(e.id, &in)
		if err != nil {
			return err
		}
		attr, mask, err = attributes(e.d.dev, state, &a)
		return err
	})
	return attr, mask, err
}
