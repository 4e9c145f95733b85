package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/pg/pgserver"
)

// server makes and drops databases on one PostgreSQL server.
type server struct {
	url     string
	cluster *pgserver.Server // nil when the server is not ours
	// strategy ends CREATE DATABASE. Copying files takes a quarter of the time of pages
	// in the write-ahead log, which is the default since version 15 and unknown before.
	strategy string

	mu        sync.Mutex
	templates map[string]*template
}

// template is one migrated database that tests are cloned from.
type template struct {
	once  sync.Once
	name  string
	state *state
	err   error

	idle []string // databases of tests that have ended, reset; guarded by server.mu
}

// learn asks the server for its version.
func (s *server) learn(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	var version int
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer`).Scan(&version)
	if version >= 15_00_00 {
		s.strategy = " STRATEGY FILE_COPY"
	}
	return errors.Join(err, conn.Close(ctx))
}

// create makes a database from the one named from, and returns its URL. The database is
// dropped when t ends.
func (s *server) create(t testing.TB, from string) string {
	t.Helper()
	name, err := s.clone(from)
	if err != nil {
		t.Fatalf("create the test database: %v", err)
	}
	t.Cleanup(func() {
		if err := s.drop(name); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return s.urlOf(name)
}

// lend gives t a database of the template, and takes it back when t ends.
func (s *server) lend(t testing.TB, tpl *template) string {
	t.Helper()
	name, err := s.take(tpl)
	if err != nil {
		t.Fatalf("create the test database: %v", err)
	}
	t.Cleanup(func() {
		if os.Getenv(EnvFresh) != "1" {
			kept, err := s.reset(tpl, name)
			if err == nil {
				return
			}
			name = kept
			t.Logf("the test database is not used again: %v", err)
		}
		if err := s.drop(name); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return s.urlOf(name)
}

func (s *server) take(tpl *template) (string, error) {
	s.mu.Lock()
	if last := len(tpl.idle) - 1; last >= 0 {
		name := tpl.idle[last]
		tpl.idle = tpl.idle[:last]
		s.mu.Unlock()
		return name, nil
	}
	s.mu.Unlock()
	return s.clone(tpl.name)
}

// reset closes the connections to a database, gives the database another name, so that
// nothing of its test finds it again, restores it and keeps it for the next test. It
// returns the new name.
func (s *server) reset(tpl *template, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	renamed := randomName("t_")
	if err := s.rename(ctx, name, renamed); err != nil {
		return name, err
	}
	if err := tpl.state.restore(ctx, s.urlOf(renamed)); err != nil {
		return renamed, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tpl.idle = append(tpl.idle, renamed)
	return renamed, nil
}

// rename waits itself for connections that are closing, because the server looks for them
// only ten times a second.
func (s *server) rename(ctx context.Context, name, renamed string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`SET statement_timeout = %d; DO $$ BEGIN
		WHILE (SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '%s') > 0 LOOP
			PERFORM pg_sleep(0.001);
			PERFORM pg_stat_clear_snapshot();
		END LOOP; END $$`, resetTimeout.Milliseconds(), name))
	if err == nil {
		_, err = conn.Exec(ctx, "ALTER DATABASE "+name+" RENAME TO "+renamed)
	}
	if err != nil {
		err = fmt.Errorf("end what is connected to the database: %w", err)
	}
	return errors.Join(err, conn.Close(ctx))
}

func (s *server) clone(from string) (string, error) {
	name := randomName("t_")
	return name, s.exec("CREATE DATABASE " + name + " TEMPLATE " + from + s.strategy)
}

func (s *server) drop(name string) error {
	return s.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
}

// template returns a database with the migrations applied. Templates are distinguished by
// content, so that callers need not share one fs.FS value.
func (s *server) template(want Template) (*template, error) {
	key, err := fingerprint(want)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	tpl := s.templates[key]
	if tpl == nil {
		tpl = &template{}
		s.templates[key] = tpl
	}
	s.mu.Unlock()
	tpl.once.Do(func() { tpl.name, tpl.state, tpl.err = s.migrated(want) })
	return tpl, tpl.err
}

func (s *server) migrated(want Template) (string, *state, error) {
	name := randomName("tpl_")
	if err := s.exec("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	url := s.urlOf(name)
	var err error
	if want.Migrations != nil {
		err = pg.Migrate(ctx, url, want.Schema, want.Role, want.Migrations)
	}
	if err == nil && want.Prepare != nil {
		err = want.Prepare(ctx, url)
	}
	var st *state
	if err == nil {
		st, err = learnState(ctx, url)
	}
	if err != nil {
		return "", nil, errors.Join(err, s.drop(name))
	}
	return name, st, nil
}

// close leaves a foreign server as it was found, except for the roles, which other test
// binaries may be using.
func (s *server) close() error {
	if s.cluster != nil {
		return s.cluster.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, tpl := range s.templates {
		if tpl.name != "" {
			err = errors.Join(err, s.drop(tpl.name))
		}
		for _, name := range tpl.idle {
			err = errors.Join(err, s.drop(name))
		}
	}
	return err
}

// exec repeats a statement that finds connections still closing: the server itself waits
// for them for five seconds, and a busy machine may take longer.
func (s *server) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	_, err = conn.Exec(ctx, sql)
	for inUse(err) {
		_, err = conn.Exec(ctx, sql)
	}
	return errors.Join(err, conn.Close(ctx))
}

func inUse(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "55006" // object_in_use
}

// urlOf returns the server's URL with another database. In a key=value string the last
// value counts.
func (s *server) urlOf(database string) string {
	u, err := url.Parse(s.url)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return s.url + " dbname=" + database
	}
	u.Path = "/" + database
	return u.String()
}

func randomName(prefix string) string {
	return prefix + strings.ToLower(rand.Text())
}

// fingerprint distinguishes functions by their code. A Prepare with variables of its own
// must not be used twice with other values.
func fingerprint(want Template) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %x\n", want.Schema, want.Role, reflect.ValueOf(want.Prepare).Pointer())
	if want.Migrations == nil {
		return string(h.Sum(nil)), nil
	}
	err := fs.WalkDir(want.Migrations, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(want.Migrations, path)
		fmt.Fprintf(h, "%q %q\n", path, text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	return string(h.Sum(nil)), nil
}
