package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// baselined is what an old program works on.
const baselined = `
CREATE SCHEMA s;
SET LOCAL search_path = s;
CREATE TABLE item (
	id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	code       text NOT NULL UNIQUE,
	state      text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
	amount     integer CONSTRAINT item_amount CHECK (amount BETWEEN 0 AND 10),
	note       text,
	first_at   timestamptz,
	last_at    timestamptz,
	CONSTRAINT item_times CHECK ((first_at IS NULL) = (last_at IS NULL))
);
CREATE UNIQUE INDEX item_open ON item (code) WHERE state = 'open';
CREATE INDEX item_note ON item (note);
CREATE TABLE kind (name text PRIMARY KEY, rank integer NOT NULL);
INSERT INTO kind VALUES ('one', 1), ('two', 2);
CREATE VIEW open_item AS SELECT id, code FROM item WHERE state = 'open';
CREATE FUNCTION add(p_code text, p_amount integer DEFAULT 1) RETURNS bigint LANGUAGE sql
	AS 'INSERT INTO item (code, amount) VALUES (p_code, p_amount) RETURNING id';
CREATE FUNCTION count_item() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER item_counted AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION count_item();
GRANT SELECT, INSERT ON item TO pg_monitor;
`

// changes are what is done to the tables, and what an old program misses then.
var changes = map[string]struct{ sql, want string }{
	"nothing changed":           {"SELECT", ""},
	"a new table":               {"CREATE TABLE more (id bigint NOT NULL CHECK (id > 0))", ""},
	"a column that may be null": {"ALTER TABLE item ADD size integer CHECK (size > 0)", ""},
	"a column with a default":   {"ALTER TABLE item ADD size integer NOT NULL DEFAULT 1", ""},
	"a generated column": {
		"ALTER TABLE item ADD size integer NOT NULL GENERATED ALWAYS AS (amount + 1) STORED",
		"",
	},
	"a column of a seeded table": {"ALTER TABLE kind ADD label text NOT NULL DEFAULT ''", ""},
	"a new seed":                 {"INSERT INTO kind VALUES ('three', 3)", ""},
	"another plain index":        {"DROP INDEX item_note; CREATE INDEX ON item (note, code)", ""},
	"NULL is allowed":            {"ALTER TABLE item ALTER code DROP NOT NULL", ""},
	"another default":            {"ALTER TABLE item ALTER state SET DEFAULT 'closed'", ""},
	"more values": {`ALTER TABLE item DROP CONSTRAINT item_state_check,
		ADD CONSTRAINT item_state_check CHECK (state IN ('open', 'held', 'closed'))`, ""},
	"wider bounds": {`ALTER TABLE item DROP CONSTRAINT item_amount,
		ADD CONSTRAINT item_amount CHECK (amount BETWEEN -1 AND 20)`, ""},
	"a CHECK that is gone":          {"ALTER TABLE item DROP CONSTRAINT item_times", ""},
	"a CHECK with another name":     {"ALTER TABLE item RENAME CONSTRAINT item_times TO item_both_times", ""},
	"a foreign key of a new column": {"ALTER TABLE item ADD kind text REFERENCES kind (name)", ""},
	"a view with a further column":  {"CREATE OR REPLACE VIEW open_item AS SELECT id, code, note FROM item", ""},
	"another body": {`CREATE OR REPLACE FUNCTION add(p_code text, p_amount integer DEFAULT 2) RETURNS bigint
		LANGUAGE sql AS 'SELECT 1::bigint'`, ""},
	"a further grant":             {"GRANT UPDATE ON item TO pg_monitor", ""},
	"an index under another name": {"ALTER INDEX item_open RENAME TO open_items", ""},

	"a table is gone": {"DROP TABLE kind", "relation s.kind is gone"},
	"a table is a view": {
		"DROP TABLE kind; CREATE VIEW kind AS SELECT 'one' AS name, 1 AS rank",
		"relation s.kind is of kind v",
	},
	"a column is gone":    {"ALTER TABLE item DROP note", "column s.item.note is gone"},
	"a column is renamed": {"ALTER TABLE item RENAME note TO remark", "column s.item.note is gone"},
	"another type": {
		"ALTER TABLE item ALTER amount TYPE bigint",
		"column s.item.amount is of type bigint, and was of integer",
	},
	"another collation": {
		`ALTER TABLE item ALTER note TYPE text COLLATE "C"`,
		`column s.item.note is of type text collation`,
	},
	"NULL is refused":     {"ALTER TABLE item ALTER note SET NOT NULL", "column s.item.note must not be null"},
	"a default is gone":   {"ALTER TABLE item ALTER state DROP DEFAULT", "column s.item.state has no default"},
	"an identity is gone": {"ALTER TABLE item ALTER id DROP IDENTITY", "column s.item.id is filled in otherwise"},
	"a column must be given": {
		"ALTER TABLE item ADD size integer NOT NULL",
		"column s.item.size is new, must not be null",
	},
	"a value is refused": {`ALTER TABLE item DROP CONSTRAINT item_state_check,
		ADD CONSTRAINT item_state_check CHECK (state IN ('open', 'held'))`, "constraint s.item.item_state_check is CHECK"},
	"an upper bound is lower": {`ALTER TABLE item DROP CONSTRAINT item_amount,
		ADD CONSTRAINT item_amount CHECK (amount BETWEEN 0 AND 9)`, "constraint s.item.item_amount is CHECK"},
	"a lower bound is higher": {`ALTER TABLE item DROP CONSTRAINT item_amount,
		ADD CONSTRAINT item_amount CHECK (amount BETWEEN 1 AND 10)`, "constraint s.item.item_amount is CHECK"},
	"a CHECK says something else": {`ALTER TABLE item DROP CONSTRAINT item_times,
		ADD CONSTRAINT item_times CHECK (first_at <= last_at)`, "constraint s.item.item_times is CHECK"},
	"a new CHECK": {"ALTER TABLE item ADD CONSTRAINT item_note_short CHECK (length(note) < 9) NOT VALID",
		"constraint s.item.item_note_short is new and holds the old column note"},
	"a new foreign key": {"ALTER TABLE item ADD CONSTRAINT item_kind FOREIGN KEY (note) REFERENCES kind",
		"constraint s.item.item_kind is new and holds the old column note"},
	"a new unique constraint": {
		"ALTER TABLE item ADD CONSTRAINT item_one UNIQUE (note)",
		"constraint s.item.item_one is new",
	},
	"a new unique index": {"CREATE UNIQUE INDEX item_one ON item (note)", "unique index s.item_one is new"},
	"a unique constraint is gone": {
		"ALTER TABLE item DROP CONSTRAINT item_code_key",
		"constraint s.item.item_code_key is gone",
	},
	"a unique index is gone": {"DROP INDEX item_open", "unique index s.item_open is gone"},
	"a unique index is of more": {"DROP INDEX item_open; CREATE UNIQUE INDEX item_open ON item (code)",
		"unique index s.item_open is gone"},
	"a view lacks a column": {
		"DROP VIEW open_item; CREATE VIEW open_item AS SELECT id FROM item",
		"column s.open_item.code is gone",
	},
	"a function is gone": {"DROP FUNCTION add", "function s.add(text,integer) is gone"},
	"other arguments": {`DROP FUNCTION add; CREATE FUNCTION add(p_code text) RETURNS bigint
		LANGUAGE sql AS 'SELECT 1::bigint'`, "function s.add(text,integer) is gone"},
	"another result": {`DROP FUNCTION add; CREATE FUNCTION add(p_code text, p_amount integer DEFAULT 1) RETURNS integer
		LANGUAGE sql AS 'SELECT 1'`, "function s.add(text,integer) has another signature"},
	"an argument has no default": {`DROP FUNCTION add; CREATE FUNCTION add(p_code text, p_amount integer) RETURNS bigint
		LANGUAGE sql AS 'SELECT 1::bigint'`, "function s.add(text,integer) has another signature"},
	"a trigger is gone": {"DROP TRIGGER item_counted ON item", "trigger s.item.item_counted is gone"},
	"a grant is gone": {
		"REVOKE INSERT ON item FROM pg_monitor",
		"grant relation s.item to pg_monitor INSERT is gone",
	},
	"row security":       {"ALTER TABLE item ENABLE ROW LEVEL SECURITY", "relation s.item has row security"},
	"a seed is gone":     {"DELETE FROM kind WHERE name = 'one'", `a row of s.kind is gone or changed`},
	"a seed has changed": {"UPDATE kind SET rank = 3 WHERE name = 'two'", `a row of s.kind is gone or changed`},
}

func TestAnOldProgramMissesWhatIsNarrower(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			before, after := rolledBack(t, conn, c.sql)
			got := narrowed(baselineHead+before, after)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("got %q, want nothing", got)
			case c.want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), c.want)):
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// rolledBack describes what an old program works on, and what a change makes of it.
func rolledBack(t *testing.T, conn *pgx.Conn, change string) (before, after string) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), baselined); err != nil {
		t.Fatal(err)
	}
	before = describe(t, tx, []string{"s"})
	if _, err := tx.Exec(t.Context(), "SET LOCAL search_path = s; "+change); err != nil {
		t.Fatal(err)
	}
	return before, describe(t, tx, []string{"s"})
}

func TestACheckIsSeenToAllowMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, is string
		want    bool
	}{
		"the same":           {"a = ANY (ARRAY[1, 2])", "a = ANY (ARRAY[1, 2])", true},
		"a further value":    {"a = ANY (ARRAY[1, 2])", "a = ANY (ARRAY[1, 2, 3])", true},
		"beside the only":    {"a = 'x'::text", "a = ANY (ARRAY['x'::text, 'y'::text])", true},
		"without the only":   {"a = 'x'::text", "a = ANY (ARRAY['y'::text, 'z'::text])", false},
		"another only":       {"a = 'x'::text", "a = 'y'::text", false},
		"the only, with NOT": {"(NOT (a = 'x'::text))", "(NOT (a = ANY (ARRAY['x'::text, 'y'::text])))", false},
		"in another order":   {"a = ANY (ARRAY[1, 2])", "a = ANY (ARRAY[2, 1])", true},
		"a value less":       {"a = ANY (ARRAY[1, 2])", "a = ANY (ARRAY[1])", false},
		"another value":      {"a = ANY (ARRAY[1, 2])", "a = ANY (ARRAY[1, 3])", false},
		"a longer text":      {"(char_length(a) <= 64)", "(char_length(a) <= 128)", true},
		"a shorter text":     {"(char_length(a) <= 64)", "(char_length(a) <= 32)", false},
		"a large number":     {"(a <= '5000000000'::bigint)", "(a <= '6000000000'::bigint)", true},
		"below a bound":      {"(a >= 1)", "(a >= 0)", true},
		"above a bound":      {"(a > 1)", "(a > 2)", false},
		"another operator":   {"(a >= 1)", "(a > 0)", false},
		"another column":     {"(a >= 1)", "(b >= 1)", false},
		"a condition more":   {"(a >= 1)", "((a >= 1) AND (b >= 1))", false},
		"in an alternative":  {"((a >= 2) OR (b = 'x'))", "((a >= 1) OR (b = 'x'))", true},
		"a forbidden value":  {"(a <> ALL (ARRAY[1]))", "(a <> ALL (ARRAY[1, 2]))", false},
		"behind NOT":         {"(NOT (a = ANY (ARRAY[1])))", "(NOT (a = ANY (ARRAY[1, 2])))", false},
		"behind =":           {"((a > 1) = (b IS NULL))", "((a > 0) = (b IS NULL))", false},
		"what must be there": {"(a @> ARRAY[1])", "(a @> ARRAY[1, 2])", false},
		"another length":     {"(char_length(a) = 12)", "(char_length(a) = 13)", false},
	} {
		if got := allowsMore("CHECK ("+c.was+")", "CHECK ("+c.is+")"); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if allowsMore("EXCLUDE (a WITH =) WHERE (b < 2)", "EXCLUDE (a WITH =) WHERE (b < 3)") {
		t.Error("an exclusion of more rows: got that it allows more")
	}
}
