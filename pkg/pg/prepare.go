package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/clock"
)

// setupTries bounds the attempts at the part that belongs to the whole server (role and
// membership), which another database's migration may be making too.
const setupTries = 10

// prepare makes schema and role. Roles belong to the whole server and the advisory lock
// to one database, so another database's migration can win the race for the same role.
// After such a loss prepare tries again and finds the work done.
func prepare(ctx context.Context, conn *pgx.Conn, schema, role string) error {
	for try := 1; ; try++ {
		err := prepareOnce(ctx, conn, schema, role)
		if err == nil || !lostSetupRace(err) || try == setupTries {
			return err
		}
		if clock.Sleep(ctx, fullJitter(retryBase, retryCap, try)) != nil {
			return err
		}
	}
}

// lostSetupRace includes the server's "tuple concurrently updated", which has no code of
// its own.
func lostSetupRace(err error) bool {
	switch sqlState(err) {
	case codeDuplicateObject, codeDuplicateSchema, codeUniqueViolation, codeInternal:
		return true
	}
	return false
}

// step makes something that may exist already.
type step struct {
	name, missing, statement string
	args                     []any
}

// schemaSteps returns the steps that make a schema that role may use.
func schemaSteps(schema, role string) []step {
	steps := []step{{"create schema", "SELECT to_regnamespace($1) IS NULL",
		"CREATE SCHEMA " + quoteName(schema), []any{quoteName(schema)}}}
	if role != "" {
		steps = append(steps, step{"grant usage", "SELECT NOT has_schema_privilege($1, $2, 'USAGE')",
			"GRANT USAGE ON SCHEMA " + quoteName(schema) + " TO " + quoteName(role), []any{role, schema}})
	}
	return steps
}

func prepareOnce(ctx context.Context, conn *pgx.Conn, schema, role string) error {
	var steps []step
	if role != "" {
		steps = []step{
			{"create role", "SELECT NOT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)",
				"CREATE ROLE " + quoteName(role) + " NOLOGIN", []any{role}},
			{"grant membership", missingMembership(conn),
				"GRANT " + quoteName(role) + " TO CURRENT_USER", []any{role}},
		}
	}
	return runMissing(ctx, conn, schema, append(steps, schemaSteps(schema, role)...))
}

// runMissing looks before it acts, because CREATE ... IF NOT EXISTS and GRANT demand
// their privilege even when there is nothing to do, and on a managed server an
// administrator may have made role and schema.
func runMissing(ctx context.Context, conn *pgx.Conn, schema string, steps []step) error {
	for _, s := range steps {
		var missing bool
		if err := conn.QueryRow(ctx, s.missing, s.args...).Scan(&missing); err != nil {
			return fmt.Errorf("look before %s for schema %s: %w", s.name, schema, err)
		}
		if !missing {
			continue
		}
		if _, err := conn.Exec(ctx, s.statement); err != nil {
			return fmt.Errorf("%s for schema %s: %w", s.name, schema, err)
		}
	}
	return nil
}

// missingMembership returns the query whether the current user cannot SET ROLE to $1 and
// may change that: an owner's login needs no membership. Since PostgreSQL 16, membership
// alone does not decide it.
func missingMembership(conn *pgx.Conn) string {
	kind := "MEMBER"
	if serverMajor(conn) >= 16 {
		kind = "SET"
	}
	return "SELECT NOT pg_has_role(current_user, $1, '" + kind +
		"') AND (rolsuper OR rolcreaterole) FROM pg_roles WHERE rolname = current_user"
}

func serverMajor(conn *pgx.Conn) int {
	var major int
	if _, err := fmt.Sscanf(conn.PgConn().ParameterStatus("server_version"), "%d", &major); err != nil {
		return 0
	}
	return major
}

// letRead lets the role read a table that Tables.Await waits for.
func letRead(ctx context.Context, db interface {
	querier
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, role, table string,
) error {
	if role == "" {
		return nil
	}
	var may bool
	err := db.QueryRow(ctx, "SELECT has_table_privilege($1, $2, 'SELECT')", role, table).Scan(&may)
	if err == nil && !may {
		_, err = db.Exec(ctx, "GRANT SELECT ON "+table+" TO "+quoteName(role))
	}
	if err != nil {
		return fmt.Errorf("let %s read %s: %w", role, table, err)
	}
	return nil
}
