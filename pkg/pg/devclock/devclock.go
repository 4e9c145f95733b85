// Package devclock moves the time of a development database, so that a day, the time to appeal or a refund's wait ends
// when somebody says so. The machine's clock stays, and so does what programs read of it: only what the database
// calls now moves.
//
// PostgreSQL's functions of time are renamed in one database, and functions that add a shift take their names.
// Columns' defaults, triggers' conditions and views follow. Sessions that planned with the old functions are ended,
// because a plan holds on to the function that it was made with. The shift is a setting of the server, so a session has
// it from its next statement on. It is for servers whose superuser one is: never for one with real money.
package devclock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// MaxAhead bounds how far a database's time is moved in all.
const MaxAhead = 366 * 24 * time.Hour

// setting is the server's setting that holds the shift, in seconds.
const setting = "svc.seconds_ahead"

// functions are PostgreSQL's functions of time, with how constant they are within a statement.
var functions = []struct{ name, volatility string }{
	{"now", "STABLE"}, {"transaction_timestamp", "STABLE"}, {"statement_timestamp", "STABLE"},
	{"clock_timestamp", "VOLATILE"},
}

// Install makes the time of the database at url one that can be moved. It must be a superuser's. A database that was
// prepared before is left as it is.
func Install(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("install a development clock: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is used no more
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return install(ctx, tx) })
	if err != nil {
		return fmt.Errorf("install a development clock: %w", err)
	}
	return nil
}

func install(ctx context.Context, tx pgx.Tx) error {
	// Two at once would rename twice.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('svc.devclock'))`); err != nil {
		return err
	}
	var installed bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_proc WHERE proname = 'machine_now')`).Scan(&installed)
	if err != nil || installed {
		return err
	}
	for _, f := range functions {
		for _, sql := range []string{
			`ALTER FUNCTION pg_catalog.` + f.name + `() RENAME TO machine_` + f.name,
			`CREATE FUNCTION pg_catalog.` + f.name + `() RETURNS timestamptz LANGUAGE sql PARALLEL SAFE ` + f.volatility +
				` AS $$ SELECT pg_catalog.machine_` + f.name + `() + pg_catalog.make_interval(secs =>
				coalesce(nullif(pg_catalog.current_setting('` + setting + `', true), ''), '0')::double precision) $$`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	if _, err := tx.Exec(ctx, moveDefaults); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	return err
}

// moveDefaults gives columns' defaults, triggers' conditions and views that name a renamed function the function that
// has its name now. They were stored with the function itself.
const moveDefaults = `DO $do$
DECLARE
	d record;
	old constant text := '(pg_catalog\.)?machine_(now|clock_timestamp|statement_timestamp|transaction_timestamp)\(';
BEGIN
	FOR d IN
		SELECT c.oid::regclass AS tab, a.attname AS col, pg_get_expr(f.adbin, f.adrelid) AS expr
		FROM pg_attrdef f JOIN pg_class c ON c.oid = f.adrelid
			JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
		WHERE a.attgenerated = '' AND pg_get_expr(f.adbin, f.adrelid) ~ old
	LOOP
		EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', d.tab, d.col,
			regexp_replace(d.expr, old, '\2(', 'g'));
	END LOOP;
	FOR d IN
		SELECT tgrelid::regclass AS tab, tgname AS name, pg_get_triggerdef(oid) AS def FROM pg_trigger
		WHERE NOT tgisinternal AND tgparentid = 0 AND pg_get_triggerdef(oid) ~ old
	LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', d.name, d.tab);
		EXECUTE regexp_replace(d.def, old, '\2(', 'g');
	END LOOP;
	FOR d IN
		SELECT c.oid::regclass AS name, pg_get_viewdef(c.oid) AS def FROM pg_class c
		WHERE c.relkind = 'v' AND pg_get_viewdef(c.oid) ~ old
	LOOP
		EXECUTE format('CREATE OR REPLACE VIEW %s AS %s', d.name, regexp_replace(d.def, old, '\2(', 'g'));
	END LOOP;
END $do$`

// ErrTooFar says that a shift would be larger than MaxAhead or go back.
var ErrTooFar = errors.New("the time of a database moves forward, by at most a year in all")

// Advance moves the time of all databases of the server forward that were prepared, and returns how far they are ahead
// then. The url is a superuser's.
func Advance(ctx context.Context, url string, by time.Duration) (ahead time.Duration, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("move a development clock: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is used no more
	ahead, err = Ahead(ctx, conn)
	if err != nil {
		return 0, err
	}
	if by < 0 || ahead+by > MaxAhead {
		return ahead, ErrTooFar
	}
	return ahead + by, shift(ctx, url, conn, ahead+by)
}

// SetBack sets the time of a prepared server back before any program uses it, so that a test can play what happened
// until now. It returns ErrTooFar where the time was moved before.
func SetBack(ctx context.Context, url string, by time.Duration) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("set a development clock back: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is used no more
	ahead, err := Ahead(ctx, conn)
	if err != nil {
		return err
	}
	if ahead != 0 || by < 0 || by > MaxAhead {
		return ErrTooFar
	}
	return shift(ctx, url, conn, -by)
}

// CatchUp moves the time of a server that was set back to the machine's. It returns by how much it moved.
func CatchUp(ctx context.Context, url string) (by time.Duration, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("move a development clock: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is used no more
	ahead, err := Ahead(ctx, conn)
	if err != nil || ahead >= 0 {
		return 0, err
	}
	return -ahead, shift(ctx, url, conn, 0)
}

// shift makes ahead the shift of a server, and returns once new sessions have it.
func shift(ctx context.Context, url string, conn *pgx.Conn, ahead time.Duration) error {
	// A setting of ours is known to a session only after the session has set it.
	for _, sql := range []string{
		`SET ` + setting + ` = '0'`,
		fmt.Sprintf(`ALTER SYSTEM SET `+setting+` = '%.6f'`, ahead.Seconds()),
		`SELECT pg_reload_conf()`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("move a development clock: %w", err)
		}
	}
	if err := settle(ctx, url, ahead); err != nil {
		return err
	}
	// Loops that rest while nobody writes notice a transaction (pg.Lull). They ask for the time, too, so it must be the
	// new one by then.
	if _, err := conn.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
		return fmt.Errorf("move a development clock: %w", err)
	}
	return nil
}

// settle returns once a new session has the shift: the server has read its settings then, and has told the others.
func settle(ctx context.Context, url string, want time.Duration) error {
	for {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return fmt.Errorf("move a development clock: %w", err)
		}
		ahead, err := Ahead(ctx, conn)
		_ = conn.Close(context.WithoutCancel(ctx)) // it is used no more
		if err != nil || ahead == want {
			return err
		}
	}
}

// Ahead returns how far a session's database is ahead of the machine.
func Ahead(ctx context.Context, conn *pgx.Conn) (time.Duration, error) {
	var seconds float64
	err := conn.QueryRow(ctx, `SELECT coalesce(nullif(current_setting($1, true), ''), '0')::double precision`, setting).
		Scan(&seconds)
	if err != nil {
		return 0, fmt.Errorf("read a development clock: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond), nil
}

// Where returns the directory that the server at url keeps its data in, and what time it is in the database.
func Where(ctx context.Context, url string) (directory string, now time.Time, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("ask a database where and when it is: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it is used no more
	err = conn.QueryRow(ctx, `SELECT current_setting('data_directory'), clock_timestamp()`).Scan(&directory, &now)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("ask a database where and when it is: %w", err)
	}
	return directory, now, nil
}

// NextDay is how long it is from the database's now until a quarter past the next midnight in UTC, and a minute: what
// was recorded today is a closed day then.
func NextDay(now time.Time) time.Duration {
	now = now.UTC()
	next := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 16, 0, 0, time.UTC)
	return next.Sub(now)
}
