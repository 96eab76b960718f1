// Command gen writes include/roce_xdp_abi.h. It is run in internal/abi.
package main

import (
	"fmt"
	"os"

	"github.com/roce-xdp/roce-xdp/internal/abi"
)

func main() {
	text, err := abi.Header("../..")
	if err == nil {
		err = os.WriteFile("../../"+abi.Path, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
