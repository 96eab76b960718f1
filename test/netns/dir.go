package netns

import "os"

// ShortTempDir is a directory that ends with the test. Its name leaves room for that of
// a socket, and every user may enter it.
func ShortTempDir(t TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "roce-xdp-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	return dir
}
