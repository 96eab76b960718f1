// Package chaos has tests of what a daemon survives: programs and daemons that are
// killed at any moment, and programs that do with the sockets and the memory that
// they share with a daemon what they like. Daemons and programs are processes of
// their own, daemons in two network namespaces, programs those of an ordinary user.
//
// The short form runs with the other tests; ROCE_XDP_SOAK=1 asks for the long one.
// What is random comes from a seed, which a test that fails tells: -seed has it
// again. When processes meet is not in the seed.
package chaos
