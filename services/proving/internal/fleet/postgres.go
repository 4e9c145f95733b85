package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/pkg/pg/pgserver"
	"svc.internal/services/standalone/logins"
)

// startDatabase starts the fleet's own PostgreSQL, if it has one, creates a login for
// each service that keeps tables, writes the services' settings, which name their logins,
// and has each service's own program migrate its tables.
func (f *Fleet) startDatabase(ctx context.Context) error {
	for _, name := range f.named(Postgres) {
		done := f.cfg.step("PostgreSQL")
		if err := f.Launch(ctx, name); err != nil {
			return err
		}
		done(f.dir.Path("postgres"))
	}
	if f.cfg.Clock {
		if err := devclock.Install(ctx, f.databaseURL); err != nil {
			return err
		}
	}
	if err := f.makeLogins(ctx); err != nil {
		return err
	}
	if err := f.writeSettings(); err != nil {
		return err
	}
	return f.migrate(ctx)
}

// keepers are the services of this fleet that keep tables.
func (f *Fleet) keepers() []string {
	return slices.DeleteFunc(logins.Services(), func(service string) bool { return len(f.named(service)) == 0 })
}

func (f *Fleet) makeLogins(ctx context.Context) (err error) {
	suffix := ""
	if f.cfg.DatabaseURL != "" {
		if suffix, err = f.dir.DatabaseSuffix(); err != nil {
			return err
		}
	}
	f.databases, err = logins.Make(ctx, f.dir, f.databaseURL, suffix, f.keepers())
	return err
}

// migrateTimeout bounds the migrations of all services.
const migrateTimeout = 2 * time.Minute

// migrate runs the services' programs under the owners' logins, all at once, because each
// has a schema of its own. A program that fails stops no other. All failures are
// reported, in the services' order.
func (f *Fleet) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	keepers := f.keepers()
	failed := make([]error, len(keepers))
	var running sync.WaitGroup
	for i, service := range keepers {
		running.Go(func() { failed[i] = f.migrateOne(ctx, service) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// migrateOne runs one service's migrations.
func (f *Fleet) migrateOne(ctx context.Context, service string) error {
	file := "database-owner-url-" + service
	if err := f.dir.Write([]byte(f.databases[service].OwnerURL+"\n"), "secrets", file); err != nil {
		return err
	}
	args, environ, err := []string{"migrate"}, []string{"DATABASE_OWNER_URL=" + f.secret(file)}, error(nil)
	if f.cfg.Place != nil {
		name := service + "-migrate"
		args, environ, err = f.cfg.Place(Place{name, f.dir.Path("place", name), settings{"database_url": f.secret(file)}})
	}
	if err != nil {
		return fmt.Errorf("prepare the migrations of %s: %w", service, err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(f.cfg.BinDir, service), args...) //nolint:gosec // our own program
	cmd.Dir = f.dir.Path()
	cmd.Env = append(f.cfg.environment(), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s migrate: %w: %s", service, err, bytes.TrimSpace(out))
	}
	return nil
}

// launchPostgres starts the server and returns when it takes connections.
func (f *Fleet) launchPostgres(ctx context.Context) (*life, error) {
	home, err := f.dir.PostgresHome()
	if err != nil {
		return nil, err
	}
	cluster, err := pgserver.Start(ctx, pgserver.Config{
		Dir: home, Durable: true, FsyncOff: f.cfg.FsyncOff, Port: f.layout.port(instance(Postgres, 1)), Log: f.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.databaseURL = cluster.URL()
	f.mu.Unlock()
	pid, err := postmaster(home)
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	l := &life{pid: pid, start: time.Now(), done: make(chan struct{})}
	letGo := func() {
		if err := cluster.Stop(); err != nil {
			f.cfg.Log.Error("PostgreSQL did not stop in order", "error", err)
		}
	}
	l.ask = func() error {
		f.wg.Go(letGo)
		return nil
	}
	go func() {
		defer close(l.done)
		<-cluster.Done()
		l.reason = "its log says why"
		letGo() // of the folder; after ask it waits for that and does nothing
	}()
	return l, nil
}

// postmaster is the server's process id.
func postmaster(home string) (int, error) {
	text, err := os.ReadFile(filepath.Join(home, "data", "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("find PostgreSQL's process: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0, fmt.Errorf("find PostgreSQL's process: %w", err)
	}
	return pid, nil
}
