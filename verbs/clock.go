package verbs

import "time"

// Clock is a reading of the device's clock, whose time WC.Timestamp is, and of the
// wall clock at the same moment (ibv_query_rt_values_ex).
type Clock struct {
	Raw  int64 // nanoseconds, monotonic, since a moment that the device has chosen
	Wall time.Time
}

// QueryClock reads both clocks.
func (c *Context) QueryClock() (Clock, error) {
	if err := c.alive(); err != nil {
		return Clock{}, opErr("query clock", c.Name(), err)
	}
	clock, err := c.p.QueryClock()
	return clock, opErr("query clock", c.Name(), err)
}

// Time is the wall clock's time at raw, a WC.Timestamp. It is as exact as the wall
// clock has been steady between the reading and raw: read the clock again every
// now and then.
func (c Clock) Time(raw int64) time.Time { return c.Wall.Add(time.Duration(raw - c.Raw)) }

// DefaultPKey is the P_Key of RoCE: full membership of the default partition (IBTA
// vol. 1, annex A17).
const DefaultPKey = 0xFFFF

// QueryPKey is the P_Key at an index of the port's table, which has
// PortAttr.PKeyTableLen entries.
func (c *Context) QueryPKey(index int) (uint16, error) {
	a, err := c.QueryPort()
	if err != nil {
		return 0, opErr("query pkey", c.Name(), err)
	}
	if index < 0 || index >= a.PKeyTableLen {
		return 0, opErr("query pkey", c.Name(), invalid("index %d: the table has %d entries", index, a.PKeyTableLen))
	}
	return DefaultPKey, nil
}
