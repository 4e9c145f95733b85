package pg

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Functions and views have one text each, the live one, instead of a history:
// functions/<name>.sql and views/<name>.sql beside the migrations. A function of another
// schema is in <schema>.<name>.sql, and Migrate makes that schema as it makes the first.
//
// Migrations use functions in CHECKs and triggers, and functions use tables. So Migrate
// makes new functions before the migrations, with unchecked bodies. After the migrations
// it replaces the texts that changed, views first, and makes the new functions again with
// checked bodies. A function may take and return only types of PostgreSQL, because tables
// may be made after it.
//
// The table schema_function has the sums of the texts and the newest migration of the
// program that made them. A program whose newest migration is older changes no function,
// so that it cannot take a new text back. Therefore a change of a text needs a migration,
// which may be empty; see pgtest.CheckFunctions.

// functionTable lives in the schema that it describes.
const functionTable = "schema_function"

const makeFunctionTable = `
CREATE TABLE IF NOT EXISTS ` + functionTable + ` (
	name       text PRIMARY KEY,
	sha256     bytea NOT NULL,
	version    bigint NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
)`

// definition is the text of one function or view.
type definition struct {
	name   string // like its file: functions/admit
	schema string // empty for the first one
	sql    string
	sum    []byte
}

func (d definition) isView() bool { return strings.HasPrefix(d.name, "views/") }

// definitions are the functions and views of a program.
type definitions struct {
	list   []definition // views first, and by name
	newest int64        // its last migration
}

func readDefinitions(migrations fs.FS) (definitions, error) {
	known, err := versions(migrations)
	if err != nil {
		return definitions{}, err
	}
	d := definitions{newest: known[len(known)-1]}
	for _, dir := range []string{"views", "functions"} {
		names, err := fs.Glob(migrations, dir+"/*.sql")
		if err != nil {
			return definitions{}, fmt.Errorf("list %s: %w", dir, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(migrations, name)
			if err != nil {
				return definitions{}, fmt.Errorf("read %s: %w", name, err)
			}
			sum := sha256.Sum256(text)
			one := definition{name: strings.TrimSuffix(name, ".sql"), sql: string(text), sum: sum[:]}
			if schema, _, other := strings.Cut(path.Base(one.name), "."); other {
				one.schema = schema
			}
			d.list = append(d.list, one)
		}
	}
	return d, nil
}

// makeSchemas makes the further schemas of the definitions.
func (d definitions) makeSchemas(ctx context.Context, conn *pgx.Conn, role string) error {
	var made []string
	for _, one := range d.list {
		if one.schema == "" || slices.Contains(made, one.schema) {
			continue
		}
		if err := checkName("schema", one.schema); err != nil {
			return err
		}
		if err := runMissing(ctx, conn, one.schema, schemaSteps(one.schema, role)); err != nil {
			return err
		}
		made = append(made, one.schema)
	}
	return nil
}

// makeNew makes the functions that the database does not have.
func (d definitions) makeNew(ctx context.Context, conn *pgx.Conn) error {
	if len(d.list) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL check_function_bodies = off; "+makeFunctionTable); err != nil {
			return fmt.Errorf("prepare for functions: %w", err)
		}
		known, err := d.known(ctx, tx)
		if err != nil || known == nil {
			return err
		}
		for _, one := range d.list {
			if _, old := known[one.name]; old || one.isView() {
				continue
			}
			if err := one.apply(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// replaceChanged replaces the functions and views whose text differs, and lets the role
// read schema_function.
func (d definitions) replaceChanged(ctx context.Context, conn *pgx.Conn, role string) error {
	if len(d.list) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		known, err := d.known(ctx, tx)
		if err != nil || known == nil {
			return err
		}
		var views, functions []definition
		for _, one := range d.list {
			switch {
			case bytes.Equal(known[one.name], one.sum):
			case one.isView():
				views = append(views, one)
			default:
				functions = append(functions, one)
			}
		}
		if err := applyViews(ctx, tx, views); err != nil {
			return err
		}
		for _, one := range functions {
			if err := one.apply(ctx, tx); err != nil {
				return err
			}
		}
		if err := d.remember(ctx, tx); err != nil {
			return err
		}
		return letRead(ctx, tx, role, functionTable)
	})
}

// known returns the sums of the database's texts by name; nil when a newer program has
// made them.
func (d definitions) known(ctx context.Context, tx pgx.Tx) (map[string][]byte, error) {
	rows, err := tx.Query(ctx, "SELECT name, sha256, version FROM "+functionTable)
	if err != nil {
		return nil, fmt.Errorf("read what functions there are: %w", err)
	}
	known := map[string][]byte{}
	newer := false
	var name string
	var sum []byte
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&name, &sum, &version}, func() error {
		known[name] = bytes.Clone(sum)
		newer = newer || version > d.newest
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what functions there are: %w", err)
	}
	if newer {
		return nil, nil
	}
	return known, nil
}

func (d definitions) remember(ctx context.Context, tx pgx.Tx) error {
	names, sums := make([]string, len(d.list)), make([][]byte, len(d.list))
	for i, one := range d.list {
		names[i], sums[i] = one.name, one.sum
	}
	_, err := tx.Exec(ctx, `
		WITH here AS (SELECT * FROM unnest($1::text[], $2::bytea[]) AS u (name, sha256)),
		gone AS (DELETE FROM `+functionTable+` WHERE name <> ALL ($1))
		INSERT INTO `+functionTable+` AS f (name, sha256, version) SELECT name, sha256, $3 FROM here
		ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256, version = excluded.version,
			applied_at = CASE f.sha256 WHEN excluded.sha256 THEN f.applied_at ELSE excluded.applied_at END
		WHERE (f.sha256, f.version) <> (excluded.sha256, excluded.version)`, names, sums, d.newest)
	if err != nil {
		return fmt.Errorf("remember what functions there are: %w", err)
	}
	return nil
}

// applyViews makes views that may use each other, in whatever order: a view that fails is
// tried again after the others, for as long as one of them succeeds.
func applyViews(ctx context.Context, tx pgx.Tx, views []definition) error {
	for len(views) > 0 {
		var left []definition
		var failed error
		for _, one := range views {
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return one.apply(ctx, tx) })
			if err != nil {
				left, failed = append(left, one), errors.Join(failed, err)
			}
		}
		if len(left) == len(views) {
			return failed
		}
		views = left
	}
	return nil
}

func (d definition) apply(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, d.sql); err != nil {
		return fmt.Errorf("apply %s.sql: %w", d.name, err)
	}
	return nil
}

// behind reports whether the database lacks a text of these definitions.
func (d definitions) behind(ctx context.Context, db querier) (bool, error) {
	if len(d.list) == 0 {
		return false, nil
	}
	var behind bool
	err := db.QueryRow(ctx, "SELECT coalesce(max(version), 0) < $1 FROM "+functionTable, d.newest).Scan(&behind)
	return behind, err
}
