package cm

// Option is a property of an id (rdma_set_option).
type Option uint8

// Options.
const (
	OptionTOS        Option = iota // 0 to 255: TOS or traffic class byte of all packets
	OptionAckTimeout               // 0 to 31: 4.096 us * 2^n to wait for an acknowledgement; 0: computed
	OptionReuseAddr                // 0 or 1: share an address and port with others that say so, as long as nobody listens
	OptionAFOnly                   // 0 or 1: a listener on [::] takes no IPv4
)

// SetOption sets a property, before the id is bound, ReuseAddr and AFOnly, or is
// connected or listens, the others.
func (id *ID) SetOption(o Option, value int) error {
	id.call.Lock()
	defer id.call.Unlock()
	return opErr("set an option of", id.name(), id.setOption(o, value))
}

var optionLimits = map[Option]int{OptionTOS: 255, OptionAckTimeout: 31, OptionReuseAddr: 1, OptionAFOnly: 1}

func (id *ID) setOption(o Option, value int) error {
	limit, ok := optionLimits[o]
	if !ok || value < 0 || value > limit {
		return invalid("option %d with value %d", o, value)
	}
	opt := id.opt
	switch o {
	case OptionTOS:
		opt.TOS = uint8(value)
	case OptionAckTimeout:
		opt.AckTimeout = uint8(value)
	case OptionReuseAddr:
		opt.ReuseAddr = value != 0
	case OptionAFOnly:
		opt.AFOnly = value != 0
	}
	id.mu.Lock()
	ends := id.ends
	id.mu.Unlock()
	for _, e := range ends {
		if err := e.d.client.SetOptions(e.id, opt); err != nil {
			return err
		}
	}
	id.opt = opt
	return nil
}
