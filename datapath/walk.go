package datapath

import "slices"

// Clients have objects by the ten thousands, and workers' and others' calls do not wait
// until somebody has looked at all of them. So the keys of a map are copied, which takes
// a moment, and what they stand for is looked at in parts: what comes or goes meanwhile
// is seen or not.

// walkStep is how many objects are looked at before the device's lock is given back.
const walkStep = 128

// keysOf are the keys of a map that the device's lock guards; it is not held.
func keysOf[K comparable, V any](d *Device, m map[K]V) []K {
	d.mu.Lock()
	n := len(m)
	d.mu.Unlock()
	list := make([]K, 0, n+n/16) // few come until they are copied
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range m {
		list = append(list, k)
	}
	return list
}

// walk calls f for each element of list with the device's lock held, which it gives back
// now and then.
func walk[T any](d *Device, list []T, f func(T)) {
	for part := range slices.Chunk(list, walkStep) {
		d.mu.Lock()
		for _, v := range part {
			f(v)
		}
		d.mu.Unlock()
	}
}
