package pgtest_test

import (
	"strings"
	"testing"

	"svc.internal/pkg/pgtest"
)

const described = `
CREATE TABLE kind (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
INSERT INTO kind VALUES ('a'), ('b');
CREATE TABLE item (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text COLLATE "C" REFERENCES kind,
	n integer NOT NULL DEFAULT 1 CONSTRAINT item_n CHECK (n > 0)) WITH (fillfactor = 70);
CREATE INDEX item_kind ON item (kind) WHERE n > 1;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER item_stays BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE VIEW few AS SELECT id FROM item WHERE n < 3;
COMMENT ON COLUMN item.n IS 'how many';`

func describe(t *testing.T, more string) string {
	t.Helper()
	url := pgtest.URL(t)
	if _, err := pgtest.Open(t, url, "public", "").Exec(t.Context(), described+more); err != nil {
		t.Fatal(err)
	}
	return pgtest.Describe(t, url, "public")
}

func TestDescribeOfTheSameTextIsTheSame(t *testing.T) {
	if one, other := describe(t, ""), describe(t, ""); one != other {
		t.Errorf("got two descriptions of one text:\n%s\n%s", one, other)
	}
}

func TestDescribeLeavesOutTheOrderOfColumns(t *testing.T) {
	got := describe(t, `
		ALTER TABLE item DROP COLUMN n CASCADE;
		ALTER TABLE item DROP COLUMN kind;
		ALTER TABLE item
			ADD n integer NOT NULL DEFAULT 1 CONSTRAINT item_n CHECK (n > 0),
			ADD kind text COLLATE "C" REFERENCES kind;
		CREATE INDEX item_kind ON item (kind) WHERE n > 1;
		CREATE VIEW few AS SELECT id FROM item WHERE n < 3;
		COMMENT ON COLUMN item.n IS 'how many'`)
	if want := describe(t, ""); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDescribeSeesEveryChange(t *testing.T) {
	before := describe(t, "")
	for _, change := range []string{
		"ALTER TABLE item ALTER n DROP NOT NULL", "ALTER TABLE item ALTER n SET DEFAULT 2",
		"ALTER TABLE kind ALTER at TYPE timestamp",
		"ALTER TABLE item DROP CONSTRAINT item_n", "DROP INDEX item_kind",
		"ALTER TABLE item DISABLE TRIGGER item_stays",
		"ALTER TABLE item SET (fillfactor = 80)", "GRANT SELECT ON item TO PUBLIC",
		"GRANT UPDATE (n) ON item TO PUBLIC",
		"REVOKE EXECUTE ON FUNCTION refuse() FROM PUBLIC", "ALTER FUNCTION refuse() SECURITY DEFINER",
		"ALTER FUNCTION refuse() SET search_path = public", "CREATE OR REPLACE VIEW few AS SELECT id FROM item WHERE n < 4",
		"INSERT INTO kind VALUES ('c')", "COMMENT ON COLUMN item.n IS 'many'",
		"ALTER TABLE item ALTER kind SET STORAGE EXTERNAL",
		"CREATE TYPE mood AS ENUM ('ok')", "CREATE SEQUENCE s", "ALTER TABLE item ENABLE ROW LEVEL SECURITY",
	} {
		if describe(t, ";"+change) == before {
			t.Errorf("%s: got the description from before, want another", change)
		}
	}
}

func TestDescribeHasNoTimesInRows(t *testing.T) {
	got := describe(t, "")
	if want := `row public.kind {"name": "a"}`; !strings.Contains(got, want) {
		t.Errorf("got %s, want a line %s", got, want)
	}
}
