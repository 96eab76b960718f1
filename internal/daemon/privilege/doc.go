// Package privilege gives up what a daemon does not need: its user, its
// capabilities, and the ways to get others.
//
// Credentials belong to threads, of which a Go program has many before its main
// function begins. So they are changed on one thread, which then executes the program
// again: the kernel ends the others, and every thread of the new one begins with what that
// thread had. No thread is missed, with cgo and without.
package privilege
