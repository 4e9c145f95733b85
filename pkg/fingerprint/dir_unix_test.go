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
	socket, err := net.Listen("unix", filepath.Join(model, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	link(t, "pipe", filepath.Join(model, "link"))
	for _, name := range []string{"pipe", "link", "socket"} {
		if r := ask(t, open(t, model), name); !strings.HasSuffix(r.Error, errKind.Error()) {
			t.Errorf("%s: the error: got %q, want %q at its end", name, r.Error, errKind)
		}
	}
}
