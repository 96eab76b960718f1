package session

import (
	"os"
	"path/filepath"
)

// DefaultDir is where daemons have their sockets unless DirVariable says otherwise.
const DefaultDir = "/run/roce-xdp"

// DirVariable is the environment variable that names another directory.
const DirVariable = "ROCE_XDP_RUNTIME_DIR"

// SocketName is the name of the socket in the runtime directory.
const SocketName = "verbs.sock"

// Dir is the runtime directory of the daemon that this process's programs use.
func Dir() string {
	if d := os.Getenv(DirVariable); d != "" {
		return d
	}
	return DefaultDir
}

// SocketPath is the socket in a runtime directory.
func SocketPath(dir string) string { return filepath.Join(dir, SocketName) }
