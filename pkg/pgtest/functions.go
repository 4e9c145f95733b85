package pgtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// CheckFunctions fails when a text in the folders functions and views of a store changed
// without a migration: see pg.Migrate. The file migrations/functions.sum has a line for
// each migration that came with a change, with the sum of all texts since then.
func CheckFunctions(t testing.TB, store fs.FS) {
	t.Helper()
	if err := checkFunctions(store); err != nil {
		t.Error(err)
	}
}

func checkFunctions(store fs.FS) error {
	h := sha256.New()
	for _, pattern := range []string{"functions/*.sql", "views/*.sql"} {
		names, err := fs.Glob(store, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := fs.ReadFile(store, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%q %q\n", name, text)
		}
	}
	migrations, err := fs.Glob(store, "migrations/*.sql")
	if err != nil || len(migrations) == 0 {
		return fmt.Errorf("no migrations: %w", err)
	}
	slices.Sort(migrations)
	newest, _, _ := strings.Cut(path.Base(migrations[len(migrations)-1]), "_")
	want := fmt.Sprintf("%s %x", newest, h.Sum(nil))
	text, err := fs.ReadFile(store, "migrations/functions.sum")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	version, sum, _ := strings.Cut(lines[len(lines)-1], " ")
	switch {
	case version+" "+sum == want:
		return nil
	case strings.HasSuffix(want, " "+sum) && slices.ContainsFunc(migrations, func(name string) bool {
		return strings.HasPrefix(path.Base(name), version+"_")
	}):
		return nil // later migrations came without a change
	case version == newest:
		return fmt.Errorf("functions or views changed: add a migration, be it empty, because no program replaces them "+
			"otherwise, and its line to migrations/functions.sum. Of a migration that nobody has run, the line is %s", want)
	default:
		return fmt.Errorf("functions or views changed: add to migrations/functions.sum the line %s", want)
	}
}
