//go:build unix

package weights

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAPipeInAStoreIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	pipe := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ollama, snapshots, entries := t.TempDir(), t.TempDir(), t.TempDir()
	pipe(filepath.Join(ollama, "blobs", "sha256-"+hashOf(tensors)))
	pipe(filepath.Join(snapshots, "models--Own--Local", "snapshots"))
	pipe(filepath.Join(entries, "models--a--b"))
	stores := Stores{Ollama: []string{ollama}, Caches: []string{snapshots, entries}}
	wantUnproven(t, "pipes", seeking(t, stores, listed(modelFiles)), "model.safetensors")
}
