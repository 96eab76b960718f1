// Package packaging has what is installed beside the program: the systemd unit. Tests
// verify it.
package packaging
