package pg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
)

// Tables are the tables of one service in PostgreSQL.
type Tables struct {
	// Schema is the service's own schema. More are its further schemas, which its
	// migrations fill.
	Schema string
	More   []string
	// Role gets, from the migrations, the privileges that the service needs.
	Role string
	// Migrations are numbered files of goose with the functions and views beside them, in
	// the form that Migrate takes.
	Migrations fs.FS
	// Extensions are made in the schema before the migrations run, because the owner of
	// the schema may not make them.
	Extensions []string
}

// Owner returns the role that owns the schema and everything in it.
func (t Tables) Owner() string { return t.Role + "_owner" }

// SchemaName returns the name of the schema.
func (t Tables) SchemaName() string { return t.Schema }

// CheckURL returns an error for a server that these tables must not be on; see the
// function CheckURL.
func (t Tables) CheckURL(url string, allowUnverified bool) error {
	return CheckURL(url, allowUnverified)
}

// Migrate brings the tables to the newest version; see the function Migrate.
func (t Tables) Migrate(ctx context.Context, url string) error {
	return Migrate(ctx, url, t.Schema, t.Role, t.Migrations)
}

// Fault returns what an error of the tables' server means to a caller in another service;
// see the function Fault.
func (t Tables) Fault(err error) *fault.Fault { return Fault(err) }

const (
	awaitPoll = 200 * time.Millisecond
	// awaitSay is the pause between two log lines of a wait.
	awaitSay = 10 * time.Second
)

// ErrSchemaBehind is the error of Await when the time is up.
var ErrSchemaBehind = errors.New("the schema is behind this program")

// Await returns once the schema, for which db is opened, has every version that the
// program brings and functions at least as new. The schema may have more. Await waits for
// at most limit and logs that it waits. The login of db must be allowed to read the
// schema's list of versions, which Migrate grants to the role.
func (t Tables) Await(ctx context.Context, db *pgxpool.Pool, limit time.Duration, log *slog.Logger) error {
	wanted, err := versions(t.Migrations)
	if err != nil {
		return err
	}
	beside, err := readDefinitions(t.Migrations)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var said time.Time
	for {
		missing, err := t.missing(ctx, db, wanted)
		behind := len(missing) > 0
		if err == nil && !behind {
			// Functions are replaced after the migrations.
			behind, err = beside.behind(ctx, db)
		}
		if err == nil && !behind {
			return nil
		}
		if err != nil && !notMigrated(err) && ctx.Err() == nil {
			return fmt.Errorf("read the version of schema %s: %w", t.Schema, err)
		}
		if now := time.Now(); now.Sub(said) >= awaitSay {
			said = now
			log.WarnContext(ctx, "waiting for the schema's version: run migrate under the owner's login",
				"schema", t.Schema, "wanted", wanted[len(wanted)-1], "missing", len(missing), "at_most", limit)
		}
		if clock.Sleep(ctx, awaitPoll) != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf(
				"schema %s lacks %d of %d versions after %v, the newest of which is %d: run migrate under the owner's login: %w",
				t.Schema, max(len(missing), 1), len(wanted), limit, wanted[len(wanted)-1], ErrSchemaBehind)
		}
	}
}

func (t Tables) missing(ctx context.Context, db *pgxpool.Pool, wanted []int64) ([]int64, error) {
	rows, err := db.Query(ctx, `SELECT v FROM unnest($1::bigint[]) v
		WHERE NOT EXISTS (SELECT FROM `+versionTable+` m WHERE m.version_id = v AND m.is_applied)`, wanted)
	if err != nil {
		return wanted, err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return wanted, err
	}
	return missing, nil
}

// notMigrated reports whether a failure to read the list of versions passes once the
// schema is made or migrated.
func notMigrated(err error) bool {
	switch sqlState(err) {
	case codeUndefinedTable, codeInsufficientPrivilege, codeUndefinedSchema:
		return true
	}
	return false
}
