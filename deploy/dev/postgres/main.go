// Command postgres downloads a build of PostgreSQL's server programs, for
// machines that have none and no package manager we know. It lives in a module
// of its own, so that what it needs stays out of the services.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

func main() {
	to := flag.String("to", "", "directory that receives bin, lib and share")
	flag.Parse()
	if err := run(*to); err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

// run unpacks the build by starting it once on a scratch directory, which also
// shows that it works on this machine, and stops it again.
func run(to string) error {
	if to == "" {
		return errors.New("-to is needed")
	}
	abs, err := filepath.Abs(to)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", to, err)
	}
	scratch, err := os.MkdirTemp("", "svc-postgres-")
	if err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	server := embedded.NewDatabase(embedded.DefaultConfig().
		Version(embedded.V17).
		BinariesPath(abs).
		CachePath(filepath.Join(scratch, "cache")).
		RuntimePath(filepath.Join(scratch, "runtime")).
		DataPath(filepath.Join(scratch, "data")).
		Port(54329).
		StartTimeout(time.Minute).
		Logger(os.Stderr))
	if err := server.Start(); err != nil {
		return fmt.Errorf("unpack and try the download: %w", err)
	}
	if err := server.Stop(); err != nil {
		return fmt.Errorf("stop the trial: %w", err)
	}
	return nil
}
