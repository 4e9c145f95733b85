package pgserver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoBinaries is returned by FindBinaries when the machine has no PostgreSQL
// server installed.
var ErrNoBinaries = errors.New("no PostgreSQL server binaries found: set DATABASE_URL to a running server, " +
	"or PGBIN to a folder with initdb and postgres, or install them (apt-get install postgresql; " +
	"brew install postgresql@17)")

// FindBinaries returns the folder that holds initdb and postgres: PGBIN, else
// the real place of the initdb on PATH, else the newest Debian or Homebrew
// installation, else the first usable of extra, for a build downloaded by the
// caller. A PGBIN that is set but unusable is an error, never skipped.
func FindBinaries(extra ...string) (string, error) {
	if dir := os.Getenv("PGBIN"); dir != "" {
		if !hasServer(dir) {
			return "", errors.New("PGBIN holds no executable initdb and postgres")
		}
		return dir, nil
	}
	for _, dir := range candidates(extra) {
		if hasServer(dir) {
			return dir, nil
		}
	}
	return "", ErrNoBinaries
}

func candidates(extra []string) []string {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		// A link such as /usr/local/bin/initdb does not lead to the folder of postgres
		// and its libraries.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	return append(dirs, extra...)
}

func newestFirst(pattern string) []string {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return nil // the patterns are constants: only a malformed one fails
	}
	slices.SortFunc(dirs, func(a, b string) int { return majorOf(b) - majorOf(a) })
	return dirs
}

// majorOf reads 17 out of /usr/lib/postgresql/17/bin and .../postgresql@17/bin.
func majorOf(bin string) int {
	name := filepath.Base(filepath.Dir(bin))
	major, err := strconv.Atoi(name[strings.LastIndexByte(name, '@')+1:])
	if err != nil {
		return 0
	}
	return major
}

func hasServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name)) //nolint:gosec // PGBIN is the operator's own choice
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}
