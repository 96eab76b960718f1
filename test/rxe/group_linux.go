package main

import (
	"os"
	"syscall"
)

// ownGroup keeps a child out of the terminal's process group, and ends it when
// we are killed.
var ownGroup = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}

// endGroup asks a child and all that it started to end.
func endGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }
