package pgserver_test

import (
	"os"
	"syscall"
	"testing"

	"svc.internal/pkg/pgtest"
)

// TestMain is also the process of TestUnderUmask077TheDatabaseStarts.
func TestMain(m *testing.M) {
	if dir := os.Getenv(envUnder); dir != "" {
		syscall.Umask(0o077)
		os.Exit(startAndStop(dir))
	}
	pgtest.Main(m)
}
