package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrom(t *testing.T) {
	module := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.3.0"},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "vcs.revision", Value: "abc123"}},
	}
	tests := []struct {
		name            string
		linked          string
		bi              *debug.BuildInfo
		version, commit string
	}{
		{"linker's version wins", "v1.2.3-dirty", module, "v1.2.3-dirty", "abc123"},
		{"module version", "", module, "v0.3.0", "abc123"},
		{"no build information", "", nil, "(devel)", ""},
		{"empty build information", "", &debug.BuildInfo{}, "(devel)", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := Info{Version: tt.version, Commit: tt.commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if d := cmp.Diff(want, from(tt.linked, tt.bi)); d != "" {
				t.Error(d)
			}
		})
	}
}
