// Package verbstest helps tests of programs that use verbs: queue pairs of each
// type between two devices, one call for each operation with its completions,
// and patterns to compare memory with. It works with every provider.
package verbstest
