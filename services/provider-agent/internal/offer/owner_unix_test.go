//go:build unix

package offer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// An owner who edits the file by sudo must not take it from the user whose service reads it.
func TestAnEditByRootKeepsTheFilesOwnerAndGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
	path := filepath.Join(t.TempDir(), "models.json")
	if err := errors.Join(os.WriteFile(path, []byte(entries), 0o600), os.Chown(path, 4321, 1234),
		os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err) // a mode that no umask has changed
	}
	if err := Edit(path, func(b []byte) ([]byte, error) {
		return Add(b, Model{ModelID: "new", EngineURL: "http://h"})
	}); err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("got %T, want what the system says of a file", info.Sys())
	}
	if got := fmt.Sprintf("%d:%d %o", stat.Uid, stat.Gid, info.Mode().Perm()); got != "4321:1234 640" {
		t.Errorf("owner, group and mode: got %s, want 4321:1234 640", got)
	}
}
