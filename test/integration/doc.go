// Package integration shows the whole product at work: two devices on real
// interfaces of two network namespaces, joined by veth, with a real XDP program
// and real AF_XDP sockets between them. It has tests only.
//
// Everything runs in one process; what has to be another process (one without
// privileges, one that is killed) is the test binary again, see child_test.go.
// The tests need root; ROCE_XDP_REQUIRE turns a skip into a failure, as package
// netns describes, and ROCE_XDP_SOAK=1 runs the long variants.
package integration
