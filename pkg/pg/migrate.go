package pg

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"svc.internal/pkg/clock"
)

const (
	// versionTable lives in the schema that it describes.
	versionTable = "schema_migrations"
	// migrationLockTimeout bounds how long a migration queues for a table
	// lock: while it waits, everybody behind it waits too.
	migrationLockTimeout = 10 * time.Second
	lockPoll             = 50 * time.Millisecond
	// setupTries bounds the attempts at the cluster-wide part (role and
	// membership), which other databases of the same server may be doing too.
	setupTries = 10
)

// Migrate brings schema to the newest version in migrations, which holds
// numbered .sql files of goose at its root or in a folder named "migrations",
// and beside that folder "functions" and "views", with one file for each, of
// which Migrate applies those that are new or changed.
//
// It first creates what is missing: the schema, the role (NOLOGIN), the role's
// USAGE on the schema and, for a user who may give it, the current user's
// membership in the role. No privilege on any table is given by default: each
// migration grants what the application needs, in so many words. The role may
// read which versions there are. An empty role skips that part.
//
// The owner of the schema, of which the user in url must be a member, owns what
// is created. Off loopback that user must not be a superuser. Statements run with search_path set to
// the schema alone and without a statement timeout; ctx bounds the whole.
// Migrate may be called at any time, by several processes at once: one works,
// the others wait for it and then find nothing to do.
func Migrate(ctx context.Context, url, schema, role string, migrations fs.FS) error {
	if err := checkName("schema", schema); err != nil {
		return err
	}
	if role != "" {
		if err := checkName("role", role); err != nil {
			return err
		}
	}
	files, err := sqlRoot(migrations)
	if err != nil {
		return err
	}
	beside, err := readDefinitions(migrations)
	if err != nil {
		return err
	}
	cc, err := parseURL(url)
	if err != nil {
		return err
	}
	sessionDefaults(cc, schema, 0)
	cc.RuntimeParams["application_name"] = "migrate " + schema
	cc.RuntimeParams["lock_timeout"] = millis(migrationLockTimeout)

	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return fmt.Errorf("connect to migrate schema %s: %w", schema, err)
	}
	// Closing the connection also releases the advisory lock.
	defer closeConn(ctx, conn)
	if err := lockSchema(ctx, conn, schema); err != nil {
		return fmt.Errorf("wait for the migration lock of schema %s: %w", schema, err)
	}
	if offLoopback(cc) {
		if err := refuseSuperuser(ctx, conn); err != nil {
			return fmt.Errorf("migrate schema %s: %w", schema, err)
		}
	}
	if err := prepare(ctx, conn, schema, role); err != nil {
		return err
	}
	if err := workAsOwner(ctx, conn, cc, schema); err != nil {
		return err
	}
	if err := beside.makeSchemas(ctx, conn, role); err != nil {
		return err
	}
	if err := beside.makeNew(ctx, conn); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	if err := up(ctx, cc, files); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	if err := beside.replaceChanged(ctx, conn, role); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	return letRead(ctx, conn, role, versionTable)
}

// workAsOwner makes the schema's owner the role of conn and of the connections
// that cc opens, so that all tables have one owner, whoever migrates.
func workAsOwner(ctx context.Context, conn *pgx.Conn, cc *pgx.ConnConfig, schema string) error {
	var owner string
	var self, member bool
	err := conn.QueryRow(ctx, `SELECT pg_get_userbyid(nspowner), pg_get_userbyid(nspowner) = current_user, pg_has_role(nspowner, 'MEMBER')
		FROM pg_namespace WHERE nspname = $1`, schema).Scan(&owner, &self, &member)
	switch {
	case err != nil:
		return fmt.Errorf("look for the owner of schema %s: %w", schema, err)
	case self:
		return nil
	case !member:
		return fmt.Errorf("migrate schema %s: the login is no member of its owner %s", schema, owner)
	}
	if _, err := conn.Exec(ctx, "SET ROLE "+quoteName(owner)); err != nil {
		return fmt.Errorf("work as the owner of schema %s: %w", schema, err)
	}
	cc.RuntimeParams["role"] = owner
	return nil
}

// letRead lets the role read a list that Tables.Await waits for.
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

// sqlRoot spares every caller the fs.Sub of a //go:embed migrations/*.sql.
func sqlRoot(migrations fs.FS) (fs.FS, error) {
	for _, dir := range []string{".", "migrations"} {
		names, err := fs.Glob(migrations, pathJoin(dir, "*.sql"))
		if err != nil {
			return nil, fmt.Errorf("list migrations: %w", err)
		}
		if len(names) > 0 {
			return fs.Sub(migrations, dir)
		}
	}
	return nil, errors.New("no *.sql migrations at the root or in the folder migrations")
}

func pathJoin(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// lockSchema polls instead of blocking in pg_advisory_lock: a blocked call
// holds a snapshot, and CREATE INDEX CONCURRENTLY in the migration under way
// would wait for that snapshot while its owner waits for the migration.
func lockSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	for {
		var locked bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockKey(schema)).Scan(&locked); err != nil {
			return err
		}
		if locked {
			return nil
		}
		if err := clock.Sleep(ctx, lockPoll/2+fullJitter(lockPoll, lockPoll, 1)); err != nil {
			return err
		}
	}
}

func lockKey(schema string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("migrate:" + schema)) // a hash never fails to write
	return int64(h.Sum64())
}

// prepare makes schema and role. Roles belong to the whole server while the
// advisory lock belongs to one database, so another database's migration can
// win the race for the same role: those losses are tried again, and the second
// look finds the work done.
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

// lostSetupRace includes the server's "tuple concurrently updated", which has
// no code of its own.
func lostSetupRace(err error) bool {
	switch sqlState(err) {
	case codeDuplicateObject, codeDuplicateSchema, codeUniqueViolation, codeInternal:
		return true
	}
	return false
}

// step is something that may be there already.
type step struct {
	name, missing, statement string
	args                     []any
}

// schemaSteps make a schema that role may use.
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

// runMissing asks before it acts, because CREATE ... IF NOT EXISTS and GRANT
// demand their privilege even when there is nothing to do, and on a managed
// server the role and schema may have been made by somebody with more rights.
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

// missingMembership asks whether the current user cannot SET ROLE to $1, and may
// change that: an owner's login needs no membership. Since PostgreSQL 16
// membership alone does not say so.
func missingMembership(conn *pgx.Conn) string {
	kind := "MEMBER"
	if serverMajor(conn) >= 16 {
		kind = "SET"
	}
	return "SELECT NOT pg_has_role(current_user, $1, '" + kind + "') AND (rolsuper OR rolcreaterole) FROM pg_roles WHERE rolname = current_user"
}

func serverMajor(conn *pgx.Conn) int {
	var major int
	if _, err := fmt.Sscanf(conn.PgConn().ParameterStatus("server_version"), "%d", &major); err != nil {
		return 0
	}
	return major
}

func up(ctx context.Context, cc *pgx.ConnConfig, files fs.FS) (err error) {
	db := stdlib.OpenDB(*cc)
	db.SetMaxOpenConns(2)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	_, err = provider.Up(ctx)
	return err
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx) // the server ends the session either way
}
