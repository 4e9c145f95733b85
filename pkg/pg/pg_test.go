package pg_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait for something that must happen.
const patience = 90 * time.Second

const (
	schema = "shop"
	role   = "shop_app"
)

// migrations make a table that the application may read and fill, no more.
func migrations() fs.FS {
	return fstest.MapFS{
		"migrations/00001_items.sql": {Data: []byte(`-- +goose Up
CREATE TABLE items (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text NOT NULL CONSTRAINT items_name_key UNIQUE,
	amount bigint NOT NULL DEFAULT 0 CONSTRAINT items_amount_check CHECK (amount >= 0),
	made_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE ON items TO shop_app;
`)},
		"migrations/00002_secret.sql": {Data: []byte(`-- +goose Up
CREATE TABLE secrets (word text NOT NULL);
`)},
	}
}

func codeOf(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

const permissionDenied = "42501"

func TestApplicationRoleMayDoOnlyWhatWasGranted(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	ctx := t.Context()
	if _, err := pool.Exec(ctx, "INSERT INTO items (name) VALUES ('a')"); err != nil {
		t.Fatalf("granted insert: %v", err)
	}
	for _, sql := range []string{
		"DELETE FROM items", "TRUNCATE items", "SELECT word FROM secrets", "CREATE TABLE mine ()",
		"DELETE FROM schema_migrations", "RESET ROLE; DELETE FROM items",
	} {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Conn().PgConn().Exec(ctx, sql).ReadAll()
		conn.Release()
		if codeOf(err) != permissionDenied {
			t.Errorf("%s as the application role: %v, want permission denied", sql, err)
		}
	}
	if _, err := pgtest.Owner(t, pool).Exec(ctx, "DELETE FROM items"); err != nil {
		t.Errorf("delete as the owner: %v", err)
	}
}

func TestOpenSetsTheSession(t *testing.T) {
	url := pgtest.Database(t, schema, role, migrations())
	pool, err := pg.Open(t.Context(), pg.Config{
		URL: url, Schema: schema, Role: role, StatementTimeout: 1500 * time.Millisecond, ApplicationName: "till", MaxConns: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for setting, want := range map[string]string{
		"search_path": `"shop"`, "role": role, "statement_timeout": "1500ms", "application_name": "till",
		"TimeZone": "UTC", "idle_in_transaction_session_timeout": "1min", "jit": "off", "constraint_exclusion": "off",
	} {
		var got string
		if err := pool.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", setting, got, want)
		}
	}
	var now time.Time
	if err := pool.QueryRow(t.Context(), "SELECT now()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	if now.Location() != time.UTC {
		t.Errorf("timestamps are scanned: got %v, want UTC", now.Location())
	}
	if got := pool.Config().MaxConns; got != 3 {
		t.Errorf("MaxConns: got %d, want 3", got)
	}
}

// A transaction that prefers indexes prices a scan so high that the server would compile it.
func TestNoPlanIsCompiledHoweverHighItsPrice(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "SET enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE) UPDATE items SET amount = amount")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(plan, "\n")
	if !strings.Contains(text, "Seq Scan") {
		t.Errorf("plan: got\n%s\nwant a scan", text)
	}
	if strings.Contains(text, "JIT:") {
		t.Errorf("plan: got\n%s\nwant one that is not compiled", text)
	}
}

func TestStatementTimeoutDefaultsToTenSeconds(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	var got string
	if err := pool.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&got); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got != "10s" {
		t.Errorf(`statement_timeout: got %q, want "10s"`, got)
	}
}

func TestErrorsNeverShowTheURL(t *testing.T) {
	const password = "hunter2"
	urls := []string{
		"postgres://svc:" + password + "@127.0.0.1:1/x?sslmode=disable&connect_timeout=1",
		"postgres://svc:" + password + "@127.0.0.1:notaport/x",
		"host=127.0.0.1 port=notaport password=" + password,
		"postgres://svc:" + password + "@[::1/x",
	}
	for _, url := range urls {
		_, openErr := pg.Open(t.Context(), pg.Config{URL: url, Schema: schema})
		migrateErr := pg.Migrate(t.Context(), url, schema, role, migrations())
		for _, err := range []error{openErr, migrateErr} {
			switch {
			case err == nil:
				t.Error("error: got no error, want one")
			case strings.Contains(err.Error(), password):
				t.Errorf("error: got the error %q, want it without %q", err, password)
			case strings.Contains(err.Error(), url):
				t.Errorf("error: got the error %q, want it without %q", err, url)
			}
		}
	}
	cfg := pg.Config{URL: urls[0], Schema: schema}
	if text := fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg); strings.Contains(text, password) {
		t.Errorf("a printed Config: got %q, want it without %q", text, password)
	}
}

func TestNamesThatNeedQuotingAreRefused(t *testing.T) {
	url := pgtest.URL(t)
	for _, name := range []string{"", "Shop", "a-b", "1a", "pg_x", `a"; DROP ROLE x; --`, strings.Repeat("a", 64)} {
		if _, err := pg.Open(t.Context(), pg.Config{URL: url, Schema: name}); err == nil {
			t.Errorf("Open took schema %q", name)
		}
		if err := pg.Migrate(t.Context(), url, name, role, migrations()); err == nil {
			t.Errorf("Migrate took schema %q", name)
		}
		if name == "" {
			continue // no role
		}
		if _, err := pg.Open(t.Context(), pg.Config{URL: url, Schema: schema, Role: name}); err == nil {
			t.Errorf("Open took role %q", name)
		}
		if err := pg.Migrate(t.Context(), url, schema, name, migrations()); err == nil {
			t.Errorf("Migrate took role %q", name)
		}
	}
}

func TestConstraintErrorsAreToldApart(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	insert := func(name string, amount int) error {
		_, err := pool.Exec(t.Context(), "INSERT INTO items (name, amount) VALUES ($1, $2)", name, amount)
		if err != nil {
			return fmt.Errorf("insert item: %w", err)
		}
		return nil
	}
	if err := insert("a", 1); err != nil {
		t.Fatal(err)
	}
	twice, negative := insert("a", 1), insert("b", -1)
	switch {
	case !pg.IsUnique(twice, "items_name_key"):
		t.Errorf(`a unique violation: pg.IsUnique(twice, "items_name_key"): got false, want true, with the error %v`, twice)
	case !pg.IsUnique(twice, ""):
		t.Errorf(`a unique violation: pg.IsUnique(twice, ""): got false, want true, with the error %v`, twice)
	case pg.IsUnique(twice, "other"):
		t.Errorf(`a unique violation: pg.IsUnique(twice, "other"): got true, want false, with the error %v`,
			twice)
	case pg.IsCheck(twice, ""):
		t.Errorf(`a unique violation: pg.IsCheck(twice, ""): got true, want false, with the error %v`, twice)
	}
	switch {
	case !pg.IsCheck(negative, "items_amount_check"):
		t.Errorf("a check violation: pg.IsCheck(…): got false, want true, with the error %v", negative)
	case pg.IsCheck(negative, "other"):
		t.Errorf(`a check violation: pg.IsCheck(negative, "other"): got true, want false, with the error %v`,
			negative)
	case pg.IsUnique(negative, ""):
		t.Errorf(`a check violation: pg.IsUnique(negative, ""): got true, want false, with the error %v`,
			negative)
	}
	for what, err := range map[string]error{"a unique violation": twice, "a check violation": negative} {
		if !pg.IsIntegrity(fmt.Errorf("wrapped: %w", err)) {
			t.Errorf("%s: pg.IsIntegrity(…): got false, want true, with the error %v", what, err)
		}
	}
	for _, err := range []error{nil, errors.New("23")} {
		if pg.IsIntegrity(err) {
			t.Errorf("%v: pg.IsIntegrity(…): got true, want false", err)
		}
	}
	if pg.IsUnique(nil, "") {
		t.Error(`nil as a violation: pg.IsUnique(nil, ""): got true, want false`)
	} else if pg.IsCheck(nil, "") {
		t.Error(`nil as a violation: pg.IsCheck(nil, ""): got true, want false`)
	}
}

func TestUnavailabilityIsRecognised(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	owner := pgtest.Owner(t, pool)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := owner.Exec(t.Context(), "SELECT pg_terminate_backend($1)", conn.Conn().PgConn().PID()); err != nil {
		t.Fatal(err)
	}
	_, ended := conn.Exec(t.Context(), "SELECT 1")
	_, closed := conn.Exec(t.Context(), "SELECT 1")
	_, refused := pg.Open(t.Context(), pg.Config{URL: "postgres://127.0.0.1:1/x?sslmode=disable", Schema: schema})
	for name, err := range map[string]error{"terminated": ended, "closed": closed, "refused": refused} {
		if !pg.IsUnavailable(err) {
			t.Errorf("%s: %v is not recognised", name, err)
		}
		if f := pg.Fault(err); !fault.Is(f, fault.ServiceUnavailable) {
			t.Errorf("%s: the fault: got %v, want the reason %v", name, f, fault.ServiceUnavailable)
		} else if strings.Contains(f.Message, "connect") {
			t.Errorf(`%s: the message: got %q, want it without the driver's words`, name, f.Message)
		}
	}

	_, denied := pool.Exec(t.Context(), "DELETE FROM items")
	slow := pg.InTx(t.Context(), pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(5)")
		return err
	})
	for name, err := range map[string]error{"nil": nil, "denied": denied, "statement timeout": slow} {
		if pg.IsUnavailable(err) {
			t.Errorf("%s: %v is taken for unavailability", name, err)
		}
		if f := pg.Fault(err); f != nil {
			t.Errorf("%s: the fault: got %v, want none", name, f)
		}
	}
}
