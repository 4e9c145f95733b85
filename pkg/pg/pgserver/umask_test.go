package pgserver_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/pg/pgserver"
)

// envUnder has the folder of TestUnderUmask077's database, in the process that
// starts it.
const envUnder = "PG_TEST_UNDER_UMASK"

func startAndStop(dir string) int {
	c, err := pgserver.Start(context.Background(), pgserver.Config{Dir: dir, Durable: true})
	if err == nil {
		err = c.Stop()
	}
	if errors.Is(err, pgserver.ErrNoBinaries) {
		return 3
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

// A fresh Debian's root may have a umask that closes every folder to others, among
// them the user as whom root's PostgreSQL runs.
func TestUnderUmask077TheDatabaseStarts(t *testing.T) {
	dir := filepath.Join(reachableDir(t), "made", "by", "us")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envUnder+"="+dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == 3 {
		t.Skip(pgserver.ErrNoBinaries)
	}
	if err != nil {
		t.Fatalf("got %v: %s", err, out)
	}
	for path, want := range map[string]os.FileMode{dir: 0o755, filepath.Dir(dir): 0o755, filepath.Join(dir, "data"): 0o700,
		filepath.Join(dir, "password"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v and %v, want mode %04o", path, info, err, want)
		}
	}
}

// Nobody waits for a server that has ended, and its last words are told.
func TestAServerThatEndsWhileStartingIsNotWaitedFor(t *testing.T) {
	bin := reachableDir(t)
	for name, script := range map[string]string{
		"initdb":   "#!/bin/sh\nexit 0\n",
		"postgres": "#!/bin/sh\necho 'FATAL:  the disk is made of cheese' >&2\nexit 7\n",
	} {
		path := filepath.Join(bin, name)
		if err := errors.Join(os.WriteFile(path, []byte(script), 0o600), os.Chmod(path, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: filepath.Join(reachableDir(t), "db"), Durable: true,
		Bin: bin})
	for _, want := range []string{"ended while starting", "exit status 7", "made of cheese"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
