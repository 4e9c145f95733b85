//go:build rehearsal

package worst

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg/pgserver"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// disk is the database's disk, with the folder to which WAL is archived and the base backup.
type disk struct {
	fleet               *fleet.Fleet
	data, archive, base string
	uid, gid            int
}

// query runs a statement as the administrator and reads the columns of one row.
func (d *disk) query(t *testing.T, sql string, into ...any) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.fleet.DatabaseURL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if len(into) == 0 {
		_, err = conn.Exec(t.Context(), sql)
		return err
	}
	return conn.QueryRow(t.Context(), sql).Scan(into...)
}

func (d *disk) must(t *testing.T, sql string, into ...any) {
	t.Helper()
	if err := d.query(t, sql, into...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// archiving turns archiving on, which needs a restart of PostgreSQL.
func archiving(t *testing.T, f *fleet.Fleet) *disk {
	t.Helper()
	d := &disk{fleet: f}
	d.must(t, `SHOW data_directory`, &d.data)
	home := filepath.Dir(d.data)
	d.archive, d.base = filepath.Join(home, "archive"), filepath.Join(home, "base")
	info, err := os.Stat(d.data)
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("the owner of %s is not known", d.data)
	}
	d.uid, d.gid = int(owner.Uid), int(owner.Gid)
	if err := os.Mkdir(d.archive, 0o700); err != nil {
		t.Fatal(err)
	}
	d.give(t, d.archive)
	d.must(t, `ALTER SYSTEM SET archive_mode = 'on'`)
	d.must(t, `ALTER SYSTEM SET archive_timeout = '60s'`)
	d.must(t, fmt.Sprintf(`ALTER SYSTEM SET archive_command = 'test ! -f "%[1]s/%%f" && cp "%%p" "%[1]s/%%f.part" && `+
		`mv "%[1]s/%%f.part" "%[1]s/%%f"'`, d.archive))
	if err := f.Restart(t.Context(), f.Replicas(fleet.Postgres)[0]); err != nil {
		t.Fatal(err)
	}
	return d
}

// give makes a folder the server's.
func (d *disk) give(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, d.uid, d.gid)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// backUp makes the base backup.
func (d *disk) backUp(t *testing.T) {
	t.Helper()
	bin, err := pgserver.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_basebackup"), "-d", d.fleet.DatabaseURL(), "-D", d.base,
		"-X", "none", "-c", "fast") //nolint:gosec // the server's own program
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
}

// point ends a segment of WAL and returns when it is archived.
func (d *disk) point(t *testing.T) {
	t.Helper()
	var segment string
	d.must(t, `SELECT pg_walfile_name(pg_switch_wal())`, &segment)
	trial.Until(t, "the segment is archived", func() bool {
		_, err := os.Stat(filepath.Join(d.archive, segment))
		return err == nil
	})
}

// restore puts the base backup in the place of the data, and has PostgreSQL recover to the end of
// the archive.
func (d *disk) restore(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(d.data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.base, d.data); err != nil {
		t.Fatal(err)
	}
	settings, err := os.OpenFile(filepath.Join(d.data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(settings, "restore_command = 'cp \"%s/%%f\" \"%%p\"'\n", d.archive); err != nil {
		t.Fatal(err)
	}
	if err := settings.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.data, "recovery.signal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.data, 0o700); err != nil { //nolint:gosec // PostgreSQL wants its folder so
		t.Fatal(err)
	}
	d.give(t, d.data)
	if err := d.fleet.Start(t.Context(), d.fleet.Replicas(fleet.Postgres)[0]); err != nil {
		t.Fatal(err)
	}
	trial.Until(t, "PostgreSQL has recovered", func() bool {
		var recovering bool
		return d.query(t, `SELECT pg_is_in_recovery()`, &recovering) == nil && !recovering
	})
}
