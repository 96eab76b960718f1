package shm

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// CPU is that of the calling thread, wherever it is put.
func TestCPU(t *testing.T) {
	done := make(chan struct{})
	go func() { // on a thread that ends with it
		defer close(done)
		runtime.LockOSThread()
		var allowed unix.CPUSet
		if err := unix.SchedGetaffinity(0, &allowed); err != nil {
			t.Error(err)
			return
		}
		for cpu := range 1024 {
			if !allowed.IsSet(cpu) {
				continue
			}
			var one unix.CPUSet
			one.Set(cpu)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
			}
			Yield()
			if got := CPU(); got != cpu {
				t.Errorf("on CPU %d it is %d", cpu, got)
			}
		}
	}()
	<-done
}
