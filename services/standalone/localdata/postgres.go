package localdata

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"svc.internal/pkg/pg/pgserver"
)

// apart is the folder of root's databases whose data directory PostgreSQL cannot reach.
const apart = "/var/lib/svc-marketplace"

// PostgresHome is the folder of a private PostgreSQL: in the data directory or, where
// root's PostgreSQL, which runs as another user, cannot enter it (a home of mode 0700),
// below /var/lib, in a folder of this data directory with a link in its place. Without
// the link, what stands there is of an earlier data directory of this path, whose secrets
// are gone with it. It is moved to a folder beside it, over what was moved there before.
func (d *Dir) PostgresHome() (string, error) {
	inside := d.Path("postgres")
	if err := pgserver.CheckReach(d.path); err == nil {
		return inside, nil
	}
	sum := sha256.Sum256([]byte(d.path))
	outside := filepath.Join(apart, hex.EncodeToString(sum[:6]))
	if _, err := os.Lstat(inside); errors.Is(err, fs.ErrNotExist) { //nolint:gosec // the data directory is ours
		if err := moveAway(outside); err != nil {
			return "", err
		}
	}
	if err := pgserver.MakeReachable(outside); err != nil {
		return "", err
	}
	// An earlier version, started under umask 077, has closed them.
	for _, dir := range []string{apart, outside} {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // what is inside is closed to others
			return "", fmt.Errorf("make a folder that PostgreSQL can reach: %w", err)
		}
	}
	if err := os.Symlink(outside, inside); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("link to PostgreSQL's folder: %w", err)
	}
	return outside, nil
}

// moveAway renames a folder, if there is one, over the folder that was renamed
// before.
func moveAway(dir string) error {
	before := dir + ".before"
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) { //nolint:gosec // its name is a digest
		return nil
	}
	if err := errors.Join(os.RemoveAll(before), os.Rename(dir, before)); err != nil { //nolint:gosec // as above
		return fmt.Errorf("move an earlier PostgreSQL away: %w", err)
	}
	return nil
}

// RemovePostgres removes the private PostgreSQL of a data directory that is not in use,
// wherever it is.
func RemovePostgres(path string) error {
	inside := filepath.Join(path, "postgres")
	target, err := os.Readlink(inside)
	if err == nil {
		err = os.RemoveAll(target)
	} else if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) {
		err = nil // there is none, or it is no link
	}
	if err := errors.Join(err, os.RemoveAll(inside)); err != nil {
		return fmt.Errorf("remove the private PostgreSQL: %w", err)
	}
	return nil
}
