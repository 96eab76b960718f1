// Package impair makes the link between two hosts of package netns a bad one:
// RoCE frames are dropped, duplicated and corrupted by chance, each direction
// with probabilities of its own, while the hosts run. A program on the ports of
// the bridge between them decides, so that neither end's XDP program has a part
// in it. What becomes of the n-th frame of a direction depends on the seed alone.
package impair
