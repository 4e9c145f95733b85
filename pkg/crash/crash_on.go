//go:build crashpoints

package crash

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// At reports to the harness that this process is at a point, and returns when it may
// continue. Without a harness it returns at once.
func At(point string) {
	path := os.Getenv(EnvSocket)
	if path == "" {
		return
	}
	conn, err := net.Dial("unix", path) //nolint:gosec // the harness that started this process names its own socket
	if err != nil {
		return // the harness has ended
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s %d\n", point, os.Getpid()); err != nil {
		return
	}
	// Any answer, the end of the connection included, lets the process continue.
	_, _ = bufio.NewReaderSize(conn, 16).ReadSlice('\n')
}

// Planted reports whether a fault is planted in this process.
func Planted(name string) bool {
	return slices.Contains(strings.Split(os.Getenv(EnvPlant), ","), name)
}
