package pg_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
)

func TestOffLoopbackAConnectionIsVerifiedOrRefused(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	const rest = "@db.example:5432/x?sslmode="
	for url, ok := range map[string]bool{
		"postgres://u:hunter2" + rest + "verify-full":         true,
		"postgres://u:hunter2" + rest + "verify-ca":           false,
		"postgres://u:hunter2" + rest + "require":             false,
		"postgres://u:hunter2" + rest + "prefer":              false,
		"postgres://u:hunter2" + rest + "disable":             false,
		"postgres://u:hunter2@db.example/x":                   false,
		"host=10.1.2.3 user=u password=hunter2":               false,
		"postgres://u@127.0.0.1,db.example/x?sslmode=disable": false,
		"postgres://u@127.0.0.1/x?sslmode=disable":            true,
		"postgres://u@[::1]/x?sslmode=disable":                true,
		"postgres://u@localhost/x":                            true,
		"postgres://u@/x?host=/var/run/postgresql":            true,
	} {
		err := pg.CheckURL(url, false)
		if ok != (err == nil) || err != nil && (strings.Contains(err.Error(), "hunter2") ||
			!strings.Contains(err.Error(), "verify-full")) {
			t.Errorf("%s: got %v, want taken=%v", url, err, ok)
		}
		if err := pg.CheckURL(url, true); err != nil {
			t.Errorf("%s, with less allowed: got %v, want none", url, err)
		}
	}
}

func access(t *testing.T) pg.Access {
	t.Helper()
	return pg.Access{
		Tables:   pg.Tables{Schema: schema, Role: role, Migrations: migrations()},
		Suffix:   "_" + strings.ToLower(t.Name()[4:12]),
		Password: "it's a secret", OwnerPassword: `two\words`,
	}
}

func TestALoginThatMayDoTooMuchIsRefusedOffLoopback(t *testing.T) {
	admin, a := pgtest.URL(t), access(t)
	if err := pg.Provision(t.Context(), admin, a); err != nil {
		t.Fatal(err)
	}
	if err := a.Migrate(t.Context(), a.OwnerURL(admin)); err != nil {
		t.Fatal(err)
	}
	for name, login := range map[string]struct{ url, want string }{
		"superuser": {admin, "superuser"}, "owner": {a.OwnerURL(admin), "change the schema"}, "service": {a.URL(admin), ""},
	} {
		err := pg.CheckLogin(t.Context(), pgtest.Open(t, login.url, schema, ""), schema)
		if (err == nil) != (login.want == "") || err != nil && !strings.Contains(err.Error(), login.want) {
			t.Errorf("%s: got %v, want an error of %q", name, err, login.want)
		}
	}
}

func TestAServiceWaitsForTheVersionOfItsSchema(t *testing.T) {
	admin, a := pgtest.URL(t), access(t)
	if err := pg.Provision(t.Context(), admin, a); err != nil {
		t.Fatal(err)
	}
	db := pgtest.Open(t, a.URL(admin), schema, role)
	var log bytes.Buffer
	err := a.Await(t.Context(), db, 300*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil)))
	if !errors.Is(err, pg.ErrSchemaBehind) || !strings.Contains(log.String(), "waiting for the schema's version") {
		t.Errorf("before any migration: got %v and the log %q, want ErrSchemaBehind and a line", err, &log)
	}

	done := make(chan error, 1)
	go func() { done <- a.Await(t.Context(), db, patience, slog.New(slog.DiscardHandler)) }()
	if err := a.Migrate(t.Context(), a.OwnerURL(admin)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the migration: got %v, want none", err)
	}

	next := a.Tables
	files := fstest.MapFS{"migrations/99_next.sql": {Data: []byte("-- +goose Up\nCREATE TABLE next ();\n")}}
	for name, file := range migrations().(fstest.MapFS) {
		files[name] = file
	}
	next.Migrations = files
	if err := next.Await(t.Context(), db, 300*time.Millisecond, slog.New(slog.DiscardHandler)); !errors.Is(err,
		pg.ErrSchemaBehind) || !strings.Contains(err.Error(), "99") {
		t.Errorf("a later program: got %v, want ErrSchemaBehind that names 99", err)
	}
	if err := next.Migrate(t.Context(), a.OwnerURL(admin)); err != nil {
		t.Fatal(err)
	}
	if err := a.Await(t.Context(), db, patience, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("an earlier program at a later schema: got %v, want none", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := next.Await(ctx, db, patience, slog.New(slog.DiscardHandler)); errors.Is(err, pg.ErrSchemaBehind) {
		t.Errorf("told to stop: got %v, want the end of the context", err)
	}
}

func TestMigrateRefusesALoginThatIsNoOwner(t *testing.T) {
	admin, a := pgtest.URL(t), access(t)
	if err := pg.Provision(t.Context(), admin, a); err != nil {
		t.Fatal(err)
	}
	if err := a.Migrate(t.Context(), a.URL(admin)); err == nil || !strings.Contains(err.Error(), a.Owner()) {
		t.Errorf("got %v, want an error that names %s", err, a.Owner())
	}
}
