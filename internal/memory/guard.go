package memory

import "runtime/debug"

// Guard runs f and reports whether it ran to its end. A fault on memory that f
// touches, such as a page of a mapped file that was truncated, ends f and makes
// ok false; any other panic passes through. It costs some ten nanoseconds, so
// only accesses to revocable memory use it.
func Guard(f func()) (ok bool) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if ok {
			return
		}
		e := recover()
		if e == nil {
			return // runtime.Goexit in f
		}
		// The runtime's memory faults are the errors that know an address.
		if _, fault := e.(interface{ Addr() uintptr }); !fault {
			panic(e)
		}
	}()
	f()
	return true
}
