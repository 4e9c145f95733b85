package check

import (
	"bufio"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// marketTime bounds how long the marketplace may take until its demo's model is callable.
const marketTime = 5 * time.Minute

// startRelease starts an API server, a marketplace, and what stands in for a kubelet, and makes what the values name.
func startRelease(ctx context.Context, t *testing.T) *release {
	t.Helper()
	k := startKube(ctx, t)
	k.furnish(ctx, t)
	market := startMarket(ctx, t)
	r := &release{kube: k, home: t.TempDir(), server: market["SVC_DATABASE_URL"],
		metrics: market["SVC_METRICS_URL"]}
	r.standIn = startStandIn(ctx, t, k, namespace, market["SVC_BASE_URL"])
	r.provision(ctx, t)
	r.makeSecret(ctx, t, "consumer-key", "api-key", market["SVC_API_KEY"])
	r.values = valuesFile(t, object{"test": object{"enabled": true, "model": market["SVC_MODEL"],
		"existingSecret": "consumer-key"}})
	return r
}

// startMarket starts the whole marketplace in one process with its demo and returns what the demo says of itself.
func startMarket(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SVC_DATA_DIR=" + dir,
		"SVC_HTTP_ADDR=127.0.0.1:" + freePort(t), "SVC_OPERATOR_ADDR=127.0.0.1:0", "SVC_WS_ADDR=127.0.0.1:" + freePort(t)}
	if bin := os.Getenv("PGBIN"); bin != "" {
		environ = append(environ, "PGBIN="+bin)
	}
	startProcess(t, environ, program(t, "standalone"))
	ctx, cancel := context.WithTimeout(ctx, marketTime)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(dir, "demo.env"))
		if err == nil {
			return variables(string(text))
		}
		select {
		case <-ctx.Done():
			t.Fatalf("demo.env of the marketplace: got %v, want it within %v", err, marketTime)
		case <-again.C:
		}
	}
}

func variables(text string) map[string]string {
	all := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		all[name] = strings.Trim(value, "'")
	}
	return all
}

// provision makes the databases and the Secrets with their owners' URLs. In broken a table stands that the first
// migration of catalog makes last.
func (r *release) provision(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, database := range []string{"release", "broken"} {
		r.query(t, "postgres", "CREATE DATABASE "+database)
		r.query(t, database, chart+"/files/logins.sql")
	}
	r.query(t, "broken", "CREATE TABLE catalog.revision (id integer)")
	for service, login := range owners {
		r.query(t, "postgres", "ALTER ROLE "+login+" PASSWORD '"+password+"'")
		r.makeSecret(ctx, t, service+"-database-owner", "url", r.loginURL(t, login, "release"))
	}
	r.makeSecret(ctx, t, "catalog-database-broken", "url", r.loginURL(t, owners["catalog"], "broken"))
}

func (r *release) loginURL(t *testing.T, login, database string) string {
	t.Helper()
	at, err := url.Parse(r.server)
	if err != nil {
		t.Fatal(err)
	}
	at.User, at.Path = url.UserPassword(login, password), "/"+database
	return at.String()
}

func (r *release) makeSecret(ctx context.Context, t *testing.T, name, key, value string) {
	t.Helper()
	r.must(ctx, t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/secrets", object{"apiVersion": "v1",
		"kind": "Secret", "metadata": object{"name": name},
		"data": object{key: base64.StdEncoding.EncodeToString([]byte(value))}})
}
