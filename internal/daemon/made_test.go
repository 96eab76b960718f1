package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestMakeDir(t *testing.T) {
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "a", "b")
	made, err := makeDir(b, 0o700)
	if err != nil || !slices.Equal(made, []string{b, a}) {
		t.Fatalf("made %q, %v", made, err)
	}
	if again, err := makeDir(b, 0o700); err != nil || len(again) != 0 {
		t.Errorf("what is there: made %q, %v", again, err)
	}
	if err := keepMade(made); err != nil {
		t.Fatal(err)
	}
	if got := takeMade(); !slices.Equal(got, made) {
		t.Errorf("handed on: %q", got)
	}
	if got := takeMade(); got != nil {
		t.Errorf("twice: %q", got)
	}
	diary := filepath.Join(a, "diary")
	if err := os.WriteFile(diary, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if made, err := makeDir(filepath.Join(diary, "c"), 0o700); err == nil || len(made) != 0 {
		t.Errorf("below a file: made %q, %v", made, err)
	}
	removeDirs(made)
	if _, err := os.Stat(b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty one: %v", err)
	}
	if _, err := os.Stat(diary); err != nil {
		t.Errorf("somebody's: %v", err)
	}
}

// A runtime directory that was there stays when a start fails, one that was made does not, and
// one that another daemon uses by then is left to that.
func TestUndoRunDir(t *testing.T) {
	there := t.TempDir()
	path := filepath.Join(there, "a", "run")
	for _, dir := range []string{there, path} {
		d, err := openRunDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openRunDir(dir); !errors.Is(err, ErrRunning) {
			t.Errorf("%s is not locked: %v", dir, err)
		}
		if err := d.undo(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(there); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	other, err := openRunDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := undoMade(path, []string{path}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a running daemon's: %v", err)
	}
	if err := other.close(); err != nil {
		t.Error(err)
	}
	if err := undoMade(path, []string{path, filepath.Dir(path)}); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(there); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
