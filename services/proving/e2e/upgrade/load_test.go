package upgrade

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	billingledger "svc.internal/services/billing-ledger"
	catalog "svc.internal/services/catalog"
	providerhub "svc.internal/services/provider-hub"
	settlement "svc.internal/services/settlement"
)

// open opens a file of the day, and unpacks it when its name ends in .gz.
func open(t testing.TB, elements ...string) io.Reader {
	t.Helper()
	file, err := os.Open(filepath.Join(append([]string{"testdata"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if filepath.Ext(file.Name()) != ".gz" {
		return file
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// read decodes a file of JSON.
func read[T any](t testing.TB, name string) (value T) {
	t.Helper()
	if err := json.NewDecoder(open(t, name)).Decode(&value); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return value
}

// message is a message on NATS.
type message struct {
	ID      string `json:"id,omitempty"`
	Subject string `json:"subject"`
	Data    []byte `json:"data"`
}

// readMessages reads lines of JSON.
func readMessages(t testing.TB, elements ...string) (all []message) {
	t.Helper()
	lines := json.NewDecoder(open(t, elements...))
	for {
		var m message
		err := lines.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("read %s: %v", filepath.Join(elements...), err)
		}
		all = append(all, m)
	}
}

// copied is one table of a dump.
type copied struct {
	table, head string
	rows        bytes.Buffer
}

// copyHead begins the rows of a table in a dump.
var copyHead = regexp.MustCompile(`^COPY (\S+) \(.*\) FROM stdin;$`)

// readDump reads the tables of a dump, under their present names.
func readDump(t testing.TB, name string) (tables []*copied) {
	t.Helper()
	var heads []string
	lines := bufio.NewReader(open(t, name))
	inside := false
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		switch {
		case !inside && strings.HasPrefix(line, "COPY "):
			heads, tables = append(heads, line), append(tables, &copied{})
			inside = true
		case inside && line == "\\.\n":
			inside = false
		case inside:
			tables[len(tables)-1].rows.WriteString(line)
		}
	}
	for i, head := range renamed(t, heads) {
		match := copyHead.FindStringSubmatch(head)
		if match == nil {
			t.Fatalf("%s: %q is no head of a COPY", name, head)
		}
		tables[i].table, tables[i].head = match[1], strings.TrimSuffix(head, ";")
	}
	return tables
}

// renamed passes heads of COPY through rename.sed.
func renamed(t testing.TB, heads []string) []string {
	t.Helper()
	sed := exec.CommandContext(t.Context(), "sed", "-E", "-f", filepath.Join("testdata", "rename.sed"))
	sed.Stdin = strings.NewReader(strings.Join(heads, ""))
	out, err := sed.CombinedOutput()
	if err != nil {
		t.Fatalf("rename tables and columns: %v: %s", err, out)
	}
	now := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(now) != len(heads) {
		t.Fatalf("rename.sed makes: got %d, want %d", len(now), len(heads))
	}
	return now
}

// load fills an empty database with the tables of the present services and the rows of
// the day.
func load(t testing.TB, url string) {
	t.Helper()
	for _, migrate := range []func(context.Context, string) error{
		catalog.Migrate, billingledger.Migrate, settlement.Migrate, providerhub.Migrate,
	} {
		if err := migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var tables []*copied
	for _, service := range []string{"catalog", "billing", "settlement", "hub"} {
		tables = append(tables, readDump(t, service+".sql.gz")...)
	}
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return fill(t.Context(), tx, tables) })
	if err != nil {
		t.Fatal(err)
	}
}

// fill replaces the rows that migrations have made by those of the day. The services' own
// triggers refuse rows of closed days, and are off meanwhile; constraints and foreign
// keys stay.
func fill(ctx context.Context, tx pgx.Tx, tables []*copied) error {
	if err := setTriggers(ctx, tx, "DISABLE"); err != nil {
		return err
	}
	// Prices of plans are younger than the day, and name plans of the day.
	if _, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE price ON COMMIT DROP AS TABLE billing.plan_price;
		DELETE FROM billing.plan_price`); err != nil {
		return err
	}
	for _, c := range slices.Backward(tables) {
		if _, err := tx.Exec(ctx, `DELETE FROM `+c.table); err != nil {
			return err
		}
	}
	for _, c := range tables {
		if _, err := tx.Conn().PgConn().CopyFrom(ctx, &c.rows, c.head); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing.plan_price TABLE price; SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
		return err
	}
	return setTriggers(ctx, tx, "ENABLE")
}

// setTriggers turns the triggers of all tables off or on, except for those of foreign
// keys.
func setTriggers(ctx context.Context, tx pgx.Tx, how string) error {
	_, err := tx.Exec(ctx, `DO $$ DECLARE name regclass; BEGIN
		FOR name IN SELECT DISTINCT t.tgrelid::regclass FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
			WHERE NOT t.tgisinternal
				AND c.relnamespace::regnamespace::text IN ('billing', 'kept', 'catalog', 'settlement', 'hub')
		LOOP EXECUTE format('ALTER TABLE %s `+how+` TRIGGER USER', name); END LOOP;
	END $$`)
	return err
}
