package pg

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pressly/goose/v3"
)

// sqlRoot returns the folder with the *.sql files: the root, or "migrations", so that no
// caller needs the fs.Sub of a //go:embed migrations/*.sql.
func sqlRoot(migrations fs.FS) (fs.FS, error) {
	for _, dir := range []string{".", "migrations"} {
		names, err := fs.Glob(migrations, pathJoin(dir, "*.sql"))
		if err != nil {
			return nil, fmt.Errorf("list migrations: %w", err)
		}
		if len(names) > 0 {
			return fs.Sub(migrations, dir)
		}
	}
	return nil, errors.New("no *.sql migrations at the root or in the folder migrations")
}

func pathJoin(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// versions returns the versions of the migrations, in order.
func versions(migrations fs.FS) ([]int64, error) {
	files, err := sqlRoot(migrations)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	found := make([]int64, len(names))
	for i, name := range names {
		if found[i], err = goose.NumericComponent(name); err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
	}
	slices.Sort(found)
	return found, nil
}
