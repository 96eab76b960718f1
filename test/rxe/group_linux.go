package main

import "syscall"

// ownGroup keeps a child out of the terminal's process group.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}
