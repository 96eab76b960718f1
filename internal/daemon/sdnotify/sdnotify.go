// Package sdnotify tells a service manager what state the program is in: the
// protocol of sd_notify(3), a datagram to a unix socket. The library of that name
// has much more and was not needed for this.
package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Environment variables of the protocol.
const (
	envSocket       = "NOTIFY_SOCKET"
	envWatchdog     = "WATCHDOG_USEC"
	envWatchdogPID  = "WATCHDOG_PID"
	watchdogPerTime = 2 // messages in the time that the manager allows
)

// Notifier sends states. The zero value, of a program that no manager started,
// sends nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// New reads the environment; getenv is os.Getenv.
func New(getenv func(string) string) (*Notifier, error) {
	n := &Notifier{socket: getenv(envSocket)}
	if n.socket == "" {
		return n, nil
	}
	if n.socket[0] != '/' && n.socket[0] != '@' {
		return nil, fmt.Errorf("%s is %q: a path or an abstract socket is needed", envSocket, n.socket)
	}
	pid := getenv(envWatchdogPID)
	if text := getenv(envWatchdog); text != "" && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil || us <= 0 {
			return nil, fmt.Errorf("%s is %q: a number of microseconds is needed", envWatchdog, text)
		}
		n.watchdog = time.Duration(us) * time.Microsecond
	}
	return n, nil
}

// Interval is how often Watchdog has to be called, 0 for never.
func (n *Notifier) Interval() time.Duration { return n.watchdog / watchdogPerTime }

// Ready says that the program does its work, and shows status.
func (n *Notifier) Ready(status string) error {
	return n.send("READY=1", "STATUS="+line(status))
}

// Reloading says that the configuration is being read; Ready ends it.
func (n *Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	return n.send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(now.Nano()/1000, 10))
}

// Stopping says that the program ends.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Watchdog says that the program is alive.
func (n *Notifier) Watchdog() error { return n.send("WATCHDOG=1") }

// line keeps text from beginning another assignment.
func line(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

func (n *Notifier) send(assignments ...string) error {
	if n.socket == "" {
		return nil
	}
	// A name that begins with @ is abstract for package net as for the manager.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	_, err = c.Write([]byte(strings.Join(assignments, "\n")))
	return errors.Join(err, c.Close())
}
