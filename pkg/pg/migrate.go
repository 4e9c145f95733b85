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
	// migrationLockTimeout bounds the wait of a migration for a table lock, because every
	// later request for the table waits behind it. The migration gives up then, lets them
	// pass, first for the least and then for the greatest pause, and tries again for as long as
	// migrationPatience, so that a dump under way delays it.
	migrationLockTimeout = 2 * time.Second
	leastMigrationPause  = time.Second
	maxMigrationPause    = 30 * time.Second
	migrationPatience    = 20 * time.Minute
	// otherLockTimeout is for what is not tried again.
	otherLockTimeout = 10 * time.Second
	// lockNotAvailable is PostgreSQL's code of a lock that was waited for too long.
	lockNotAvailable = "55P03"
	lockPoll         = 50 * time.Millisecond
)

// Migrate brings schema to the newest version in migrations. migrations holds numbered
// .sql files of goose, at its root or in a folder named "migrations". Beside that folder
// it may hold "functions" and "views" with one file each, of which Migrate applies the
// new and the changed ones.
//
// It first creates what is missing: the schema, the role (NOLOGIN), the role's USAGE on
// the schema and, for a user who may grant it, the current user's membership in the role.
// No privilege on any table is granted by default: each migration grants what the
// application needs, in so many words. The role may read the versions. An empty role
// skips that part.
//
// The owner of the schema owns what is created, and the user in url must be a member of
// it. Off loopback that user must not be a superuser. Statements run with search_path set
// to the schema alone and without a statement timeout; ctx bounds the whole. A migration
// whose table others hold is tried again for 20 minutes, and holds up nobody for more than
// 2 seconds at a time; one without a transaction must therefore be repeatable, and one that
// builds an index beside others must switch lock_timeout off. Several
// processes may call Migrate at once: one works, and the others wait for it and then find
// nothing to do.
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
	cc.RuntimeParams["lock_timeout"] = millis(otherLockTimeout)

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
	if err := upWhenFree(ctx, cc, files); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	if err := beside.replaceChanged(ctx, conn, role); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	return letRead(ctx, conn, role, versionTable)
}

// workAsOwner makes the schema's owner the role of conn and of the connections that cc
// opens, so that all tables have one owner, whoever migrates.
func workAsOwner(ctx context.Context, conn *pgx.Conn, cc *pgx.ConnConfig, schema string) error {
	var owner string
	var self, member bool
	err := conn.QueryRow(ctx,
		`SELECT pg_get_userbyid(nspowner), pg_get_userbyid(nspowner) = current_user, pg_has_role(nspowner, 'MEMBER')
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

// lockSchema polls instead of blocking in pg_advisory_lock. A blocked call holds a
// snapshot, and CREATE INDEX CONCURRENTLY in the migration under way would wait for that
// snapshot while its owner waits for the migration.
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

// upWhenFree applies the migrations, and tries again while others hold what a migration needs.
func upWhenFree(ctx context.Context, cc *pgx.ConnConfig, files fs.FS) error {
	cc = cc.Copy()
	cc.RuntimeParams["lock_timeout"] = millis(migrationLockTimeout)
	until := clock.System.Now().Add(migrationPatience)
	for pause := leastMigrationPause; ; pause = min(2*pause, maxMigrationPause) {
		err := up(ctx, cc, files)
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || refusal.Code != lockNotAvailable || clock.System.Now().After(until) {
			return err
		}
		if clock.Sleep(ctx, pause) != nil {
			return err
		}
	}
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
