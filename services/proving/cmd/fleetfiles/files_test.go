package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone/logins"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// makeFiles runs files in a folder of the test.
func makeFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := run(t.Context(), []string{"files", "-dir", dir}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func contents(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names are the names of the files in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func TestEachContainerHasItsOwnFilesAndNoOthers(t *testing.T) {
	dir := makeFiles(t)
	leaf := []string{"ca.pem", "cert.pem", "key.pem"}
	for _, reader := range readers() {
		want := slices.Clone(leaf)
		switch {
		case reader == node.BillingLedger || reader == node.ProviderHub:
			want = append(want, "pepper")
		case reader == node.EdgeGateway:
			want = append(want, "bootstrap-tokens", "machine-tokens")
		case reader == postgres:
			want = append(want, "superuser-password")
		case reader == database:
			want = []string{"admin.sql"}
		case reader == nats:
			want = append(want, "nats.conf")
		case reader == self || strings.HasSuffix(reader, migrates):
			want = []string{"ca.pem"}
		}
		slices.Sort(want)
		if got := names(t, filepath.Join(dir, reader)); !slices.Equal(got, want) {
			t.Errorf("files of %s: got %v, want %v", reader, got, want)
		}
	}
}

func TestOnlyTheOwnerReadsSecrets(t *testing.T) {
	dir := makeFiles(t)
	for _, file := range []string{"kept/secrets/pepper", "kept/certs/ca-key.pem", "router/key.pem",
		"provider-hub/pepper", "postgres/superuser-password", "postgres-init/admin.sql"} {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("mode of %s: got %o, want 600", file, got)
		}
	}
}

func TestSecretsStayAndCertificatesAreMadeAnew(t *testing.T) {
	dir := makeFiles(t)
	pepper, cert := contents(t, dir, node.ProviderHub, pepperFile), contents(t, dir, node.ProviderHub, certFile)
	ca := contents(t, dir, node.ProviderHub, "ca.pem")
	if err := run(t.Context(), []string{"files", "-dir", dir}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir, node.ProviderHub, pepperFile); got != pepper {
		t.Error("the pepper: got another one, want the same")
	}
	if got := contents(t, dir, node.ProviderHub, "ca.pem"); got != ca {
		t.Error("the authority: got another one, want the same")
	}
	if got := contents(t, dir, node.ProviderHub, certFile); got == cert {
		t.Error("the certificate: got the same, want a new one")
	}
	if got, want := contents(t, dir, node.BillingLedger, pepperFile), pepper; got != want {
		t.Error("the ledger's pepper: got another one than the hub's, want the same")
	}
}

func TestACertificateNamesItsContainerAndTheHubItsID(t *testing.T) {
	dir := makeFiles(t)
	for reader, want := range map[string][]string{
		node.Router: {"router"}, postgres: {"postgres"}, nats: {"nats"},
		node.ProviderHub: {"provider-hub", "hub-1.provider-hub"},
	} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, reader, certFile), filepath.Join(dir, reader, keyFile))
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.DNSNames; !slices.Equal(got, want) {
			t.Errorf("names of %s: got %v, want %v", reader, got, want)
		}
	}
}

func TestNATSLetsEachServiceInAndItsMonitorListensOnLoopback(t *testing.T) {
	text := contents(t, makeFiles(t), nats, natsFile)
	for _, want := range []string{`user: "billing-ledger"`, `user: "hub-1.provider-hub"`, `user: "router"`,
		"verify_and_map: true", `http: "127.0.0.1:8222"`, `"/etc/svc/ca.pem"`} {
		if !strings.Contains(text, want) {
			t.Errorf("NATS's settings: got %q, want %q in it", text, want)
		}
	}
}

// administer makes the administrator of a fleet's database as PostgreSQL's image does, and
// returns the URL that logins is given.
func administer(t *testing.T, dir string) string {
	t.Helper()
	super := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), super)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	// The cluster belongs to all tests, so the administrator is one of this test.
	name := fmt.Sprintf("fleet_admin_%d", time.Now().UnixNano())
	text := strings.ReplaceAll(contents(t, dir, database, adminFile), administrator, name)
	role, _, _ := strings.Cut(text, "\n")
	for _, sql := range []string{role, "ALTER DATABASE " + pgx.Identifier{conn.Config().Database}.Sanitize() +
		" OWNER TO " + name} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := url.Parse(super)
	if err != nil {
		t.Fatal(err)
	}
	admin.User = url.User(name)
	return admin.String()
}

// The administrator is no superuser. Every service opens its tables under the URL that it
// was given, and migrates under its owner's.
func TestLoginsGiveEachServiceItsDatabase(t *testing.T) {
	dir := makeFiles(t)
	admin := administer(t, dir)
	for range 2 { // the second call finds the logins made
		if err := run(t.Context(), []string{"logins", "-dir", dir, "-admin", admin}, new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
	}
	for _, service := range logins.Services() {
		owner := strings.TrimSpace(contents(t, dir, service+migrates, ownerURLFile))
		serving := strings.TrimSpace(contents(t, dir, service, urlFile))
		if owner == serving {
			t.Errorf("%s: got one login for serving and migrating, want two", service)
		}
		for _, at := range []string{owner, serving} {
			conn, err := pgx.Connect(t.Context(), at)
			if err != nil {
				t.Errorf("%s: got the error %v, want none", service, err)
				continue
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if slices.Contains(names(t, filepath.Join(dir, service)), ownerURLFile) {
			t.Errorf("%s: got the owner's URL among what serves, want it with the migrations alone", service)
		}
	}
}

func TestReadyAsksTheServer(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	if err := run(t.Context(), []string{"ready", server.URL}, new(bytes.Buffer)); err != nil {
		t.Errorf("a server that is ready: got the error %v, want none", err)
	}
	status = http.StatusServiceUnavailable
	if err := run(t.Context(), []string{"ready", server.URL}, new(bytes.Buffer)); err == nil {
		t.Error("a server that is not ready: got no error, want one")
	}
}

func TestWhatIsNoCommandIsRefused(t *testing.T) {
	for _, args := range [][]string{
		nil, {"file"}, {"files"}, {"files", "-dir", t.TempDir(), "x"}, {"logins", "-dir", t.TempDir()}, {"ready"},
		{"logins", "-dir", t.TempDir(), "-admin", "host=x password=hunter2"},
	} {
		err := run(t.Context(), args, new(bytes.Buffer))
		if err == nil {
			t.Errorf("%q: got no error, want one", args)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got the password in %q, want it hidden", args, err)
		}
	}
}
