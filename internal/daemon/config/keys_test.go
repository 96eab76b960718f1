package config

import (
	"slices"
	"strings"
	"testing"
)

// The file of TestLoadFile has every key that there is.
func TestKeys(t *testing.T) {
	keys := Keys()
	for _, want := range []string{"runtime_dir", "defaults", "cnp_interval", "allow", "users", "max_qps"} {
		if !slices.Contains(keys, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, key := range keys {
		if !strings.Contains(everyKey, key) {
			t.Errorf("the file does not have %s", key)
		}
	}
}
