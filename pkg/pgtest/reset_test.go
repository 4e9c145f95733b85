package pgtest_test

import (
	"context"
	"os"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pgtest"
)

func shop() pgtest.Template {
	return pgtest.Template{Schema: "shop", Role: "shop_app", Prepare: open,
		Migrations: fstest.MapFS{"1_shop.sql": {Data: []byte(`-- +goose Up
CREATE TABLE kind (kind text PRIMARY KEY, told integer NOT NULL);
INSERT INTO kind VALUES ('tea', 0), ('milk', 0);
CREATE TABLE sale (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL REFERENCES kind,
	note text, twice bigint GENERATED ALWAYS AS (length(note) * 2) STORED);
CREATE TABLE piece (sale bigint NOT NULL REFERENCES sale);
CREATE SEQUENCE ticket;
-- +goose StatementBegin
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'closed'; END $$;
-- +goose StatementEnd
CREATE TRIGGER closed BEFORE DELETE OR UPDATE ON sale FOR EACH ROW EXECUTE FUNCTION refuse();
`)}}}
}

// open is what the shop begins with beyond its migrations.
func open(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `INSERT INTO shop.kind VALUES ('salt', 0); SELECT nextval('shop.ticket')`)
	return err
}

// look is all of the shop that a change below touches.
const look = `SELECT concat_ws(' ',
	(SELECT string_agg(k::text, ' ' ORDER BY kind) FROM kind k), (SELECT count(*) FROM sale), (SELECT count(*) FROM piece),
	(SELECT count(*) FROM pg_trigger WHERE tgenabled = 'O' AND tgname = 'closed'),
	(SELECT string_agg(attname || ':' || coalesce(attacl::text, ''), ' ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = 'sale'::regclass AND attnum > 0),
	(SELECT count(*) FROM pg_statistic WHERE starelid >= 16384),
	(SELECT reltuples FROM pg_class WHERE oid = 'piece'::regclass), (SELECT prosrc FROM pg_proc WHERE proname = 'refuse'),
	pg_sequence_last_value('ticket'), pg_sequence_last_value(pg_get_serial_sequence('sale', 'id')),
	current_setting('work_mem'), (SELECT count(*) FROM pg_largeobject_metadata),
	(SELECT count(*) FROM pg_class WHERE relname = 'more'))`

func TestNothingOfATestIsLeftToTheNext(t *testing.T) {
	// inside runs f in a test of its own and returns what the database looked like
	// before, and which one it was.
	inside := func(f func(*testing.T, *pgxpool.Pool)) (before string, id uint32) {
		t.Run("", func(t *testing.T) {
			owner := pgtest.Owner(t, shop().Pool(t))
			if err := owner.QueryRow(t.Context(), look).Scan(&before); err != nil {
				t.Fatal(err)
			}
			err := owner.QueryRow(t.Context(), `SELECT oid FROM pg_database WHERE datname = current_database()`).Scan(&id)
			if err != nil {
				t.Fatal(err)
			}
			if f != nil {
				f(t, owner)
			}
		})
		return before, id
	}
	want, _ := inside(nil)
	for _, c := range []struct {
		sql  string
		kept bool
	}{
		{`INSERT INTO sale (kind, note) VALUES ('tea', 'x'); INSERT INTO piece SELECT id FROM sale`, true},
		{`INSERT INTO sale (kind) VALUES ('tea'); ROLLBACK`, true},
		{`UPDATE kind SET told = 1 WHERE kind = 'tea'`, true},
		{`DELETE FROM kind`, true},
		{`INSERT INTO kind VALUES ('oil', 0); INSERT INTO sale (kind) VALUES ('oil')`, true},
		{`SELECT nextval('ticket')`, true},
		{`SELECT setval('ticket', 7)`, true},
		{`ANALYZE kind, sale, piece`, true},
		{`CREATE TEMP TABLE more (n integer)`, true},
		{`TRUNCATE sale CASCADE`, true},
		{`ALTER TABLE sale ADD more integer`, false},
		{`ALTER TABLE sale DROP note CASCADE`, false},
		{`DROP TRIGGER closed ON sale`, false},
		{`ALTER TABLE sale DISABLE TRIGGER closed`, false},
		{`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$`, false},
		{`GRANT SELECT (note) ON sale TO shop_app`, false},
		{`CREATE TABLE more (n integer)`, false},
		{`DROP TABLE piece`, false},
		{`SELECT lo_create(0)`, false},
		{`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''1MB''', current_database()); END $$`, false},
	} {
		var used uint32
		_, used = inside(func(t *testing.T, owner *pgxpool.Pool) {
			if _, err := owner.Exec(t.Context(), c.sql); err != nil {
				t.Fatalf("%s: %v", c.sql, err)
			}
		})
		got, id := inside(nil)
		if got != want {
			t.Errorf("after %s: got %s, want %s", c.sql, got, want)
		}
		if same := id == used; same != (c.kept && os.Getenv(pgtest.EnvFresh) != "1") {
			t.Errorf("after %s: got the same database again: %v, want %v", c.sql, same, !same)
		}
	}
}

func TestWhoIsStillConnectedIsCutOffAndFindsNothing(t *testing.T) {
	ctx := t.Context()
	var late *pgxpool.Pool
	var held *pgxpool.Conn
	t.Run("leaves a transaction open", func(t *testing.T) {
		cfg := shop().Pool(t).Config()
		delete(cfg.ConnConfig.RuntimeParams, "role")
		var err error
		if late, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		if held, err = late.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := held.Exec(ctx, `BEGIN; INSERT INTO sale (kind) VALUES ('tea'); LOCK TABLE sale`); err != nil {
			t.Fatal(err)
		}
	})
	defer late.Close()
	defer held.Release()
	owner := pgtest.Owner(t, shop().Pool(t))
	if _, err := owner.Exec(ctx, `BEGIN; SET LOCAL lock_timeout = 1; LOCK TABLE sale; ROLLBACK`); err != nil {
		t.Errorf("the next test finds a lock: %v", err)
	}
	if _, err := late.Exec(ctx, `SELECT 1`); err == nil {
		t.Error("got an answer from the database of a test that has ended, want none")
	}
}
