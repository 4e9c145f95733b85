package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/pg"
)

// startDatabase starts the fleet's own PostgreSQL, if it has one, and writes
// what services read, which names it.
func (f *Fleet) startDatabase(ctx context.Context) error {
	for _, name := range f.named(Postgres) {
		done := f.cfg.step("PostgreSQL")
		if err := f.Launch(ctx, name); err != nil {
			return err
		}
		done(f.dir.Path("postgres"))
	}
	return f.writeSettings()
}

// launchPostgres starts the server and returns when it takes connections.
func (f *Fleet) launchPostgres(ctx context.Context) (*life, error) {
	home, err := f.dir.PostgresHome()
	if err != nil {
		return nil, err
	}
	cluster, err := pg.StartCluster(ctx, pg.ClusterConfig{
		Dir: home, Durable: true, Port: f.layout.port(instance(Postgres, 1)), Log: f.cfg.Log,
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

// WipeNATS removes all that nats-server keeps. It must not be running.
func (f *Fleet) WipeNATS() error {
	if f.Pid(instance(NATS, 1)) != 0 {
		return errors.New("wipe NATS: it is running")
	}
	store := f.dir.Path("nats")
	if err := errors.Join(os.RemoveAll(store), os.MkdirAll(store, 0o700)); err != nil {
		return fmt.Errorf("wipe NATS: %w", err)
	}
	return nil
}
