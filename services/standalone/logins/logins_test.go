package logins

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone/localdata"
)

var update = flag.Bool("update", false, "write deploy/postgres/logins.sql anew")

func TestMain(m *testing.M) { pgtest.Main(m) }

// rooms are one table of each service.
var rooms = map[string]string{
	node.Catalog: "catalog.model", node.BillingLedger: "billing.wallet", node.Settlement: "settlement.earning_line",
	node.ProviderHub: "hub.provider_key", node.ChainSigner: "signer.signed_nonce",
	node.Verifier: "verifier.offering",
}

func TestTheTextForPlatformTeamsIsThatOfTheTree(t *testing.T) {
	path := filepath.Join("..", "..", "..", "deploy", "postgres", "logins.sql")
	if *update {
		if err := os.WriteFile(path, []byte(SQL()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("the text in %s: run go test ./services/standalone/logins -run Text -update: got the error %v, want none",
			path, err)
	} else if wanted := SQL(); string(got) != wanted {
		t.Errorf("the text in %s: run go test ./services/standalone/logins -run Text -update: got %q, want %q",
			path, string(got), wanted)
	}
}

func execute(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn := connect(t, url)
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.80s: %v", sql, err)
		}
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// dir is a data directory.
func dir(t *testing.T) *localdata.Dir {
	t.Helper()
	d, err := localdata.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// refused reports whether the server refuses a statement for want of a privilege.
func refused(t *testing.T, conn *pgx.Conn, sql string) bool {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "42501"
}

// confined checks that a service's login reads its own table, and reaches neither another
// service's nor any schema.
func confined(t *testing.T, databases map[string]node.Database) {
	t.Helper()
	for service, database := range databases {
		conn, owner := connect(t, database.URL), connect(t, database.OwnerURL)
		for other, table := range rooms {
			own := other == service
			for who, c := range map[string]*pgx.Conn{"service": conn, "owner": owner} {
				if got := refused(t, c, "SELECT count(*) FROM "+table); got == own {
					t.Errorf("the %s's login of %s at %s: got refused=%v, want %v", who, service, table, got, !own)
				}
			}
		}
		schema, _, _ := strings.Cut(rooms[service], ".")
		for _, sql := range []string{
			"CREATE TABLE " + schema + ".x ()", "CREATE TABLE public.x ()", "CREATE TEMPORARY TABLE x ()", "CREATE SCHEMA x",
			"DROP TABLE " + rooms[service],
			"ALTER TABLE " + rooms[service] + " ADD x int", "CREATE ROLE x", "TRUNCATE " + rooms[service],
			"INSERT INTO " + schema + ".schema_migrations (version_id, is_applied) VALUES (99999, true)",
			fmt.Sprintf("SET ROLE %s", tables(service).Owner()),
		} {
			if !refused(t, conn, sql) {
				t.Errorf("%s: got %q done, want a refusal", service, sql)
			}
		}
		var super bool
		for who, c := range map[string]*pgx.Conn{"service": conn, "owner": owner} {
			if err := c.QueryRow(t.Context(), `SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication
				FROM pg_roles WHERE rolname = session_user`).Scan(&super); err != nil || super {
				t.Errorf("the %s's login of %s: got an administrator (%v), want none", who, service, err)
			}
		}
	}
}

func TestEachLoginReachesItsOwnTablesAndNoSchema(t *testing.T) {
	d, admin := dir(t), pgtest.URL(t)
	suffix, err := d.DatabaseSuffix()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds the logins made
		made, err := Make(t.Context(), d, admin, suffix, Services())
		if err != nil {
			t.Fatal(err)
		}
		if err := Migrate(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		confined(t, made)
	}
	files, err := filepath.Glob(d.Path("secrets", "database-password-*"))
	if err != nil || len(files) != 2*len(Services()) {
		t.Errorf("got the files %v (%v), want one for each login", files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v (%v), want mode 0600", file, info.Mode(), err)
		}
	}
}

func TestTablesOfThePreviousReleaseGoToTheirOwners(t *testing.T) {
	d, admin := dir(t), pgtest.URL(t)
	for _, service := range Services() {
		// One login migrated and served before.
		if err := tables(service).Migrate(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
	}
	suffix, err := d.DatabaseSuffix()
	if err != nil {
		t.Fatal(err)
	}
	made, err := Make(t.Context(), d, admin, suffix, Services())
	if err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	for service := range made {
		var left int
		if err := connect(t, admin).QueryRow(t.Context(),
			`SELECT count(*) FROM pg_class c WHERE relnamespace = $1::regnamespace AND relowner <> $2::regrole
			AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')`, tables(service).Schema,
			tables(service).Owner()).Scan(&left); err != nil || left != 0 {
			t.Errorf("%s: got %d relations of another owner (%v), want none", service, left, err)
		}
	}
	confined(t, made)
	// The owner may do what later migrations do.
	owner := connect(t, made[node.BillingLedger].OwnerURL)
	if _, err := owner.Exec(t.Context(),
		"SET ROLE svc_billing_owner; ALTER TABLE billing.wallet ADD x int; "+
			"SELECT billing.ensure_usage_partitions(1, 1)"); err != nil {
		t.Errorf("the owner at its tables: got %v", err)
	}
}

// refusedAt reports whether the server refuses the login of url at the database of
// an administrator's URL.
func refusedAt(t *testing.T, admin, url string) bool {
	t.Helper()
	there, err := pgx.ParseConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	login, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	login.Database = there.Database
	conn, err := pgx.ConnectConfig(t.Context(), login)
	if err == nil {
		_ = conn.Close(t.Context())
	}
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "42501"
}

// Roles belong to the whole server, so the logins of each deployment on it are members of
// the roles that own and use the tables of all.
func TestNoLoginConnectsToTheDatabaseOfAnotherDeployment(t *testing.T) {
	here, there := pgtest.URL(t), pgtest.URL(t)
	// In one database each of the two deployments has logins of its own.
	for i, admin := range []string{here, there, here} {
		d := dir(t)
		suffix, err := d.DatabaseSuffix()
		if err != nil {
			t.Fatal(err)
		}
		made, err := Make(t.Context(), d, admin, suffix, Services())
		if err != nil {
			t.Fatal(err)
		}
		for service, database := range made {
			for _, url := range []string{database.URL, database.OwnerURL} {
				for _, at := range []string{here, there} {
					if at == there && i == 0 {
						continue // nobody has deployed there yet
					}
					if got := refusedAt(t, at, url); got != (at != admin) {
						t.Errorf("deployment %d: a login of %s: got refused=%v, want %v", i, service, got, at != admin)
					}
				}
			}
		}
	}
}

// renamed is a copy of migrations, functions and views that grant to other roles.
func renamed(t *testing.T, migrations fs.FS, from, to string) fs.FS {
	t.Helper()
	names, err := fs.Glob(migrations, "*/*.sql")
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(names) == 0 {
		t.Fatalf("the migrations: len(names): got 0, want at least 1, in %v", names)
	}
	files := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: bytes.ReplaceAll(text, []byte(from), []byte(to))}
	}
	return files
}

// TestTheTextMakesWhatTheServicesNeed runs the text as a platform team does: as a user
// who is no superuser.
func TestTheTextMakesWhatTheServicesNeed(t *testing.T) {
	admin := pgtest.URL(t)
	at, err := pgx.ParseConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	d := dir(t)
	suffix, err := d.DatabaseSuffix()
	if err != nil {
		t.Fatal(err)
	}
	team := "team" + suffix
	// The schemas' roles belong to the server, where other tests have made them.
	text := strings.NewReplacer("svc_", "t"+suffix+"_").Replace(SQL())
	execute(t, admin, "CREATE ROLE "+team+" LOGIN CREATEROLE PASSWORD 'x'", "ALTER DATABASE "+at.Database+" OWNER TO "+
		team)
	teamURL := fmt.Sprintf("postgres://%s:x@%s:%d/%s?sslmode=disable", team, at.Host, at.Port, at.Database)
	execute(t, teamURL, text, text)
	made := map[string]node.Database{}
	for _, service := range Services() {
		access := pg.Access{Tables: tables(service), Password: "p", OwnerPassword: "q"}
		access.Role = "t" + suffix + strings.TrimPrefix(access.Role, "svc")
		execute(t, teamURL, "ALTER ROLE "+access.Login()+" PASSWORD 'p'", "ALTER ROLE "+access.OwnerLogin()+" PASSWORD 'q'")
		made[service] = node.Database{URL: access.URL(admin), OwnerURL: access.OwnerURL(admin)}
		access.Migrations = renamed(t, access.Migrations, "svc_", "t"+suffix+"_")
		if err := access.Migrate(t.Context(), made[service].OwnerURL); err != nil {
			t.Errorf("%s: the migrations' login at its schema: got %v", service, err)
		}
		if !refused(t, connect(t, made[service].URL), "CREATE TABLE "+access.Schema+".y ()") {
			t.Errorf("%s: got a table made by the service's login, want a refusal", service)
		}
		if may, err := pg.MayProvision(t.Context(), made[service].OwnerURL); err != nil || may {
			t.Errorf("%s: got an owner that may make logins (%v), want none", service, err)
		}
	}
}
