// Package buildinfo tells which build of the program runs.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker (see Makefile); empty otherwise.
var version string

// Info identifies a build.
type Info struct {
	Version string `json:"version"` // of the release, or of the module
	Commit  string `json:"commit"`  // empty when built outside a repository
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Get reads what the linker and the Go tool wrote into the binary.
func Get() Info {
	bi, _ := debug.ReadBuildInfo()
	return from(version, bi)
}

func from(linked string, bi *debug.BuildInfo) Info {
	info := Info{Version: linked, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if bi != nil {
		for _, s := range bi.Settings {
			if s.Key == "vcs.revision" {
				info.Commit = s.Value
			}
		}
		if info.Version == "" {
			info.Version = bi.Main.Version
		}
	}
	if info.Version == "" {
		info.Version = "(devel)"
	}
	return info
}
