// Command gen writes the headers in include. It is run in internal/abi.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/roce-xdp/roce-xdp/internal/abi"
)

func main() {
	if err := write("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	headers, err := abi.Headers(root)
	if err != nil {
		return err
	}
	for name, text := range headers {
		if err := os.WriteFile(filepath.Join(root, abi.Dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
