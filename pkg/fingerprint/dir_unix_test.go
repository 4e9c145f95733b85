//go:build unix

package fingerprint

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A device cannot be made here; like one, a socket is recognised before it is opened.
func TestPipesAndSocketsAreNotOpened(t *testing.T) {
	t.Parallel()
	model, _ := folder(t)
	if err := syscall.Mkfifo(filepath.Join(model, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"pipe", "link"}
	// The address of a socket has at most 108 bytes, and the folder may have a long name.
	if socket, err := net.Listen("unix", filepath.Join(model, "socket")); err == nil {
		defer socket.Close()
		names = append(names, "socket")
	} else if len(filepath.Join(model, "socket")) < 100 {
		t.Fatal(err)
	}
	link(t, "pipe", filepath.Join(model, "link"))
	for _, name := range names {
		if r := ask(t, open(t, model), name); !strings.HasSuffix(r.Error, errKind.Error()) {
			t.Errorf("%s: the error: got %q, want %q at its end", name, r.Error, errKind)
		}
	}
}
