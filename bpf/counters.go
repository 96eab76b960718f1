package bpf

import "strconv"

// Counter is how many frames got a verdict since [Load].
type Counter struct {
	Name  string // of the verdict, for example "drop_qpn"
	Help  string // what these frames are
	Value uint64 // frames
}

// String gives the verdict's name, which is its counter's.
func (v Verdict) String() string {
	if v >= VerdictCount {
		return "Verdict(" + strconv.FormatUint(uint64(v), 10) + ")"
	}
	return verdictTable[v].name
}

// Help says in a few words which frames get the verdict.
func (v Verdict) Help() string {
	if v >= VerdictCount {
		return ""
	}
	return verdictTable[v].help
}

// CounterNames gives the names in the order of [Steer.Counters].
func CounterNames() []string {
	names := make([]string, VerdictCount)
	for v := range Verdict(VerdictCount) {
		names[v] = v.String()
	}
	return names
}

// Counters reads all counters, in the order of the verdicts. Every frame is in
// exactly one of them. The values are summed over CPUs that count on meanwhile,
// so that they are exact only for what had arrived before the call.
func (s *Steer) Counters() ([]Counter, error) {
	counters := make([]Counter, VerdictCount)
	err := s.locked("read counters", nil, func() error {
		var each []uint64
		for v := range Verdict(VerdictCount) {
			if err := s.objects.Counters.Lookup(uint32(v), &each); err != nil {
				return err
			}
			c := Counter{Name: v.String(), Help: v.Help()}
			for _, n := range each {
				c.Value += n
			}
			counters[v] = c
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return counters, nil
}
