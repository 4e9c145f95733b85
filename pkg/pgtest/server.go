package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
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
	// strategy ends CREATE DATABASE: files that are copied take a quarter of the
	// time that pages in the write-ahead log do, which is the default since
	// version 15 and unknown before.
	strategy string

	mu        sync.Mutex
	templates map[string]*template
}

// template is one migrated database that tests are cloned from.
type template struct {
	once sync.Once
	name string
	err  error
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

// create makes a database from a template and returns its URL.
func (s *server) create(t testing.TB, from string) string {
	t.Helper()
	name := randomName("t_")
	if err := s.exec("CREATE DATABASE " + name + " TEMPLATE " + from + s.strategy); err != nil {
		t.Fatalf("create the test database: %v", err)
	}
	t.Cleanup(func() {
		if err := s.drop(name); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return s.urlOf(name)
}

func (s *server) drop(name string) error {
	return s.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
}

// template returns the name of a database with the migrations applied. They
// are told apart by content, so that callers need not share one fs.FS value.
func (s *server) template(schema, role string, migrations fs.FS) (string, error) {
	key, err := fingerprint(schema, role, migrations)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	tpl := s.templates[key]
	if tpl == nil {
		tpl = &template{}
		s.templates[key] = tpl
	}
	s.mu.Unlock()
	tpl.once.Do(func() { tpl.name, tpl.err = s.migrated(schema, role, migrations) })
	return tpl.name, tpl.err
}

func (s *server) migrated(schema, role string, migrations fs.FS) (string, error) {
	name := randomName("tpl_")
	if err := s.exec("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if err := pg.Migrate(ctx, s.urlOf(name), schema, role, migrations); err != nil {
		return "", errors.Join(err, s.drop(name))
	}
	return name, nil
}

// close leaves a foreign server as it was found, but for the roles, which other
// test binaries may be using.
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
	}
	return err
}

// exec repeats a statement that finds others still leaving its database: the
// server itself waits for them for five seconds, which a busy machine may take.
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

// urlOf is the server's URL with another database. In a key=value string the
// last word counts.
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

func fingerprint(schema, role string, migrations fs.FS) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", schema, role)
	err := fs.WalkDir(migrations, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations, path)
		fmt.Fprintf(h, "%q %q\n", path, text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	return string(h.Sum(nil)), nil
}
