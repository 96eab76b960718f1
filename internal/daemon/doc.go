// Package daemon is `roce-xdp run`: it opens network interfaces as devices, gives them
// to other programs through a Service, answers at a control socket, follows changes of its
// configuration, and ends without leaving anything behind.
package daemon
