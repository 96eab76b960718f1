package privilege

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is the program by the file that runs, whatever has become of its name, and
// whether or not the new user may enter its directory.
const self = "/proc/self/exe"

// become changes this thread and executes the program again on it. It returns only
// with an error; the thread is not used for anything else then.
func become(id identity, now State) error {
	runtime.LockOSThread() // for good: the thread is not what the others are
	keep := now.Permitted & Kept
	if now.Effective&(1<<unix.CAP_SYS_RESOURCE) != 0 {
		// For packet memory where there is no CAP_IPC_LOCK. A container may forbid it: who
		// then has too little is told when an interface is opened.
		_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	}
	if err := dropBounding(now, keep); err != nil {
		return err
	}
	if id.change {
		if err := changeUser(id); err != nil {
			return err
		}
	} else if now.Effective&(1<<unix.CAP_SETGID) != 0 && len(id.groups) > 0 {
		if err := setGroups(id.groups); err != nil {
			return err
		}
	}
	if err := setCaps(keep); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), settledEnv+"=1"))
}

// dropBounding takes away what programs with file capabilities, and root, could
// get back.
func dropBounding(now State, keep Set) error {
	if now.Effective&setPCap == 0 {
		return nil // nor can anything that it executes
	}
	for n := 0; n < 64; n++ {
		if bit := Set(1) << n; now.Bounding&bit == 0 || keep&bit != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", n, err)
		}
	}
	return nil
}

// changeUser keeps the capabilities, which setCaps reduces. The calls are raw ones:
// those of package syscall would change the other threads as well.
func changeUser(id identity) error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	if err := setGroups(id.groups); err != nil {
		return err
	}
	gid, uid := uintptr(id.gid), uintptr(id.uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("become group %d: %w", id.gid, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("become user %d: %w", id.uid, errno)
	}
	return nil
}

// setCaps leaves the thread those of keep, which it also has after executing.
func setCaps(keep Set) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		half := uint32(keep >> (32 * i))
		data[i] = unix.CapUserData{Effective: half, Permitted: half, Inheritable: half}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	for n := 0; n < 64; n++ {
		if keep&(1<<n) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(n), 0, 0); err != nil {
			return fmt.Errorf("hand on capability %d: %w", n, err)
		}
	}
	return nil
}
