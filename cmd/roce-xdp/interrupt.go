package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how long after the first signal others are taken for that one:
// timeout(1) sends its signal to the command and at once to its process group too.
const sameSignal = 250 * time.Millisecond

// untilSignal is a context that SIGINT or SIGTERM ends. A signal later than
// sameSignal after it has its default effect again: who does not want to wait for
// the command to clean up sends it twice. stop must be called.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer signal.Stop(signals)
		select {
		case <-signals:
			cancel()
		case <-over:
			return
		}
		select {
		case <-time.After(sameSignal):
		case <-over:
		}
	}()
	return ctx, func() {
		close(over)
		<-done
		cancel()
	}
}
