package pg_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
)

// files are those of a program by their names.
type files map[string]string

func (f files) fs() fs.FS {
	all := fstest.MapFS{}
	for name, text := range f {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// with is a copy in which some files are others.
func (f files) with(more files) files {
	all := maps.Clone(f)
	maps.Copy(all, more)
	return all
}

// function is a function in SQL.
func function(signature, returns, body string) string {
	return "CREATE OR REPLACE FUNCTION " + signature + " RETURNS " + returns + " LANGUAGE sql AS $$ " + body + " $$;\n"
}

// words have a CHECK and a trigger that need functions, functions that need the
// table and a view, and views of which the first needs the second.
var words = files{
	"migrations/1_word.sql": `-- +goose Up
CREATE TABLE word (text text NOT NULL CHECK (fits(text)));
CREATE TRIGGER word_is_lower BEFORE INSERT ON word FOR EACH ROW EXECUTE FUNCTION lowered();
GRANT SELECT, INSERT ON word TO shop_app;
`,
	"functions/fits.sql": function("fits(p text)", "boolean", "SELECT length(p) < 4"),
	"functions/lowered.sql": `CREATE OR REPLACE FUNCTION lowered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.text := lower(NEW.text); RETURN NEW; END $$;`,
	"functions/longest.sql": function("longest()", "integer", "SELECT max(n) FROM long_word") +
		"REVOKE ALL ON FUNCTION longest() FROM PUBLIC; GRANT EXECUTE ON FUNCTION longest() TO shop_app;",
	"functions/back.count.sql": function("back.count()", "bigint", "SELECT count(*) FROM shop.word"),
	"views/long_word.sql": `CREATE OR REPLACE VIEW long_word AS SELECT length(text) AS n FROM some_word;
GRANT SELECT ON long_word TO shop_app;`,
	"views/some_word.sql": `CREATE OR REPLACE VIEW some_word AS SELECT text FROM word;
GRANT SELECT ON some_word TO shop_app;`,
}

func (f files) migrate(t *testing.T, url string) error {
	t.Helper()
	return pg.Migrate(t.Context(), url, schema, role, f.fs())
}

// one is the only value of a query, as text.
func one(t *testing.T, db *pgxpool.Pool, sql string) string {
	t.Helper()
	var got string
	if err := db.QueryRow(t.Context(), "SELECT ("+sql+")::text").Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// migrated is the owner's and the role's pool on a database migrated by f.
func (f files) migrated(t *testing.T) (url string, owner, app *pgxpool.Pool) {
	t.Helper()
	url = pgtest.URL(t)
	if err := f.migrate(t, url); err != nil {
		t.Fatal(err)
	}
	return url, pgtest.Open(t, url, schema, ""), pgtest.Open(t, url, schema, role)
}

const state = `SELECT string_agg(concat_ws(' ', name, sha256, version, applied_at, xmin), ', ' ORDER BY name)
	FROM schema_function`

func TestNewFunctionsAreThereBeforeTheTablesThatUseThem(t *testing.T) {
	_, _, app := words.migrated(t)
	if _, err := app.Exec(t.Context(), "INSERT INTO word VALUES ('ABC')"); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"SELECT text FROM word": "abc", "SELECT longest()": "3", "SELECT back.count()": "1",
		"SELECT count(*) FROM schema_function": "6", "SELECT max(version) FROM schema_function": "1",
	} {
		if got := one(t, app, sql); got != want {
			t.Errorf("%s: got %s, want %s", sql, got, want)
		}
	}
	_, err := app.Exec(t.Context(), "INSERT INTO word VALUES ('long')")
	if !pg.IsCheck(err, "") {
		t.Errorf("a long word: got %v, want a violation of the check", err)
	}
}

func TestChangedFunctionsAreReplacedAfterTheMigrations(t *testing.T) {
	url, owner, _ := words.migrated(t)
	before := one(t, owner, "SELECT applied_at FROM schema_function WHERE name = 'functions/fits'")
	next := words.with(files{
		"migrations/2_more.sql": "-- +goose Up\nALTER TABLE word ADD weight integer NOT NULL DEFAULT 7;\n",
		"functions/longest.sql": function("longest()", "integer", "SELECT 70 + max(weight) FROM heavy"),
		"views/heavy.sql":       `CREATE OR REPLACE VIEW heavy AS SELECT weight FROM word;`,
	})
	delete(next, "functions/back.count.sql")
	if _, err := owner.Exec(t.Context(), "INSERT INTO word VALUES ('abc')"); err != nil {
		t.Fatal(err)
	}
	if err := next.migrate(t, url); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"SELECT longest()":                         "77",
		"SELECT min(version) FROM schema_function": "2",
		"SELECT applied_at FROM schema_function WHERE name = 'functions/fits'": before,
		// Who wants a function gone drops it in a migration; it is forgotten here.
		"SELECT count(*) FROM schema_function WHERE name = 'functions/back.count'": "0",
	} {
		if got := one(t, owner, sql); got != want {
			t.Errorf("%s: got %s, want %s", sql, got, want)
		}
	}
}

func TestFunctionsThatAreThereAreLeftAlone(t *testing.T) {
	url, owner, _ := words.migrated(t)
	before := one(t, owner, state)
	if err := words.migrate(t, url); err != nil {
		t.Fatal(err)
	}
	if after := one(t, owner, state); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

func TestAnOlderProgramChangesNoFunction(t *testing.T) {
	next := words.with(files{
		"migrations/2_empty.sql": "-- +goose Up\nSELECT 1;\n",
		"functions/fits.sql":     function("fits(p text)", "boolean", "SELECT length(p) < 9"),
	})
	delete(next, "functions/back.count.sql")
	url, owner, _ := next.migrated(t)
	before := one(t, owner, state)
	if err := words.migrate(t, url); err != nil {
		t.Fatal(err)
	}
	if after := one(t, owner, state); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
	if got := one(t, owner, "SELECT fits('eight888')"); got != "true" {
		t.Errorf("got fits=%s, want that of the newer program", got)
	}
	// What the newer program has no more is not made again.
	if got := one(t, owner, "SELECT coalesce(to_regproc('back.count'), 0)"); got != "-" {
		t.Errorf("got %s, want no such function", got)
	}
}

func TestABrokenTextLeavesAllFunctionsAsTheyWere(t *testing.T) {
	const nowhere = "SELECT x FROM nowhere"
	for name, broken := range map[string]files{
		"no SQL":            {"functions/longest.sql": "CREATE OR REPLACE FUNCTION longest( RETURNS"},
		"a body":            {"functions/longest.sql": function("longest()", "integer", nowhere)},
		"a view":            {"views/long_word.sql": "CREATE OR REPLACE VIEW long_word AS " + nowhere},
		"a column less":     {"views/long_word.sql": "CREATE OR REPLACE VIEW long_word AS SELECT text FROM word"},
		"a new function":    {"functions/new.sql": function("new()", "integer", nowhere)},
		"a name of another": {"functions/Back.x.sql": "SELECT 1;"},
	} {
		t.Run(name, func(t *testing.T) {
			url, owner, _ := words.migrated(t)
			before := one(t, owner, state)
			broken = broken.with(files{
				"functions/fits.sql": function("fits(p text)", "boolean", "SELECT length(p) < 9"),
			})
			if err := words.with(broken).migrate(t, url); err == nil {
				t.Fatal("got no error")
			}
			if after := one(t, owner, state); after != before {
				t.Errorf("got %s, want %s", after, before)
			}
			if got := one(t, owner, "SELECT fits('eight888')"); got != "false" {
				t.Errorf("got fits=%s, want that of before", got)
			}
		})
	}
}

func TestConcurrentProgramsApplyFunctionsOnce(t *testing.T) {
	url := pgtest.URL(t)
	migrateAll(t, 4, func(int) error { return words.migrate(t, url) })
	owner := pgtest.Open(t, url, schema, "")
	if got := one(t, owner, "SELECT count(DISTINCT xmin::text) FROM schema_function"); got != "1" {
		t.Errorf("got functions of %s transactions, want 1", got)
	}
}

func TestAwaitWaitsForFunctions(t *testing.T) {
	url, owner, app := words.migrated(t)
	next := words.with(files{"migrations/2_empty.sql": "-- +goose Up\nSELECT 1;\n"})
	await := func(f files, limit time.Duration) error {
		tables := pg.Tables{Schema: schema, Role: role, Migrations: f.fs()}
		return tables.Await(t.Context(), app, limit, slog.New(slog.DiscardHandler))
	}
	if err := await(words, time.Minute); err != nil {
		t.Errorf("got %v, want what is there", err)
	}
	// The migration is there, the functions are not yet.
	const migrated = "INSERT INTO schema_migrations (version_id, is_applied) VALUES (2, true)"
	if _, err := owner.Exec(t.Context(), migrated); err != nil {
		t.Fatal(err)
	}
	if err := await(next, time.Second); !errors.Is(err, pg.ErrSchemaBehind) {
		t.Errorf("got %v, want %v", err, pg.ErrSchemaBehind)
	}
	if err := next.migrate(t, url); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]files{"the new program": next, "the old program": words} {
		if err := await(program, time.Minute); err != nil {
			t.Errorf("%s: got %v, want what is there", name, err)
		}
	}
}

func TestTheRoleMayNotWriteTheListOfFunctions(t *testing.T) {
	_, _, app := words.migrated(t)
	for _, sql := range []string{"DELETE FROM schema_function", "UPDATE schema_function SET version = 9"} {
		if _, err := app.Exec(t.Context(), sql); codeOf(err) != permissionDenied {
			t.Errorf("%s: got %v, want a refusal", sql, err)
		}
	}
}
