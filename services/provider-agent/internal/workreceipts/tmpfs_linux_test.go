package workreceipts

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"svc.internal/pkg/clock"
)

// small mounts a file system of so many bytes.
func small(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("no small file system can be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// As above, with a kernel's own idea of a full disk.
func TestAFullFileSystemTearsNoRecord(t *testing.T) {
	dir, log := small(t, "64k"), &bytes.Buffer{}
	s := open(t, dir, clock.NewManual(began), log)
	add(s, began, 0)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a file system of 64 KiB takes a megabyte: got the error %v, want %v", err, syscall.ENOSPC)
	}
	last := 0
	for n := 1; !s.behind; n++ { // a page of the file is there to be filled
		add(s, began, n, n+1000, n+2000)
		last = n
	}
	kept := 3*(last-1) + 1
	if got := s.Status().Kept; got != kept+3 {
		t.Errorf("got %d in memory, want %d", got, kept+3)
	}
	kill(s)
	var out bytes.Buffer
	again := open(t, dir, clock.NewManual(began), &out)
	if got := again.Due(maxKept); len(got) != kept {
		t.Errorf("found: len(got): got %d, want %d, with %s", len(got), kept, out.String())
	} else if strings.Contains(out.String(), "not whole") {
		t.Errorf(`found: out: got %q, want it without "not whole"`, out.String())
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.catchUp()
	if found, _ := after(t, s); len(found) != min(kept+3, 100) {
		t.Errorf("got %d found when there is room again, want %d", len(found), kept+3)
	}
	if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
