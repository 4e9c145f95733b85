package localdata

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"svc.internal/pkg/pg/pgserver"
)

// envOpen names the directory that the process of TestUnderUmask077 opens.
const envOpen = "LOCALDATA_TEST_OPEN"

// TestMain is also that process, because a umask belongs to the whole process.
func TestMain(m *testing.M) {
	if path := os.Getenv(envOpen); path != "" {
		syscall.Umask(0o077)
		dir, err := Open(path)
		if err == nil {
			_, err = dir.PostgresHome()
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestUnderUmask077PostgresReachesItsFolder(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "localdata-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(base, "run", "bench")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envOpen+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("got %v: %s", err, out)
	}
	if err := pgserver.CheckReach(path); err != nil {
		t.Errorf("got %v, want PostgreSQL to reach the data directory", err)
	}
	if info, err := os.Lstat(filepath.Join(path, "postgres")); err == nil {
		t.Errorf("got %v, want no link to a folder elsewhere", info.Mode())
	}
}
