package localdata

import (
	"errors"
	"io/fs"
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

func TestADataDirectoryThatWasDeletedLeavesNoDatabaseToTheNext(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the PostgreSQL of root stands elsewhere")
	}
	path := filepath.Join(t.TempDir(), "run") // which has the mode 0700
	first := openHome(t, path)
	t.Cleanup(func() { _ = errors.Join(os.RemoveAll(first), os.RemoveAll(first+".before")) })
	written := filepath.Join(first, "written")
	if err := os.WriteFile(written, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if second := openHome(t, path); second != first {
		t.Errorf("the folder at the second start: got %s, want %s", second, first)
	}
	if _, err := os.Lstat(written); err != nil {
		t.Errorf("what was written before the second start: got %v, want it", err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if third := openHome(t, path); third != first {
		t.Errorf("the folder of the next data directory: got %s, want %s", third, first)
	}
	if _, err := os.Lstat(written); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the deleted data directory had written: got %v, want it moved away", err)
	}
}

// openHome opens a data directory as a process does, and returns where its PostgreSQL is.
func openHome(t *testing.T, path string) string {
	t.Helper()
	dir, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	home, err := dir.PostgresHome()
	if err != nil {
		t.Fatal(err)
	}
	return home
}
