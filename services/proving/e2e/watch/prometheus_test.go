//go:build watch

package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// root is the repository's folder.
const root = "../../../.."

// server is a real Prometheus that scrapes a fleet.
type server struct{ base string }

// hasty makes rules that a fault of seconds fires: how long an alert waits is left out, and
// the time after which a Prometheus knows, a ledger is away or has not compared itself, or probes
// are not asked, is seconds. promtool tests the rules as they are.
func hasty(rules []byte) []byte {
	rules = bytes.ReplaceAll(waits.ReplaceAll(rules, nil), []byte("offset 5m"), []byte("offset 5s"))
	rules = bytes.ReplaceAll(rules, []byte("comparisons_total[30m]"), []byte("comparisons_total[30s]"))
	rules = bytes.ReplaceAll(rules, []byte(`="done"}[6h]`), []byte(`="done"}[10s]`))
	return bytes.ReplaceAll(rules, []byte("lag_seconds[5m]"), []byte("lag_seconds[5s]"))
}

var waits = regexp.MustCompile(`(?m)^\s+for: \w+\n`)

// startPrometheus scrapes each process of a fleet every second, and evaluates all rules as
// often, until the test ends.
func startPrometheus(t *testing.T, f *fleet.Fleet) *server {
	t.Helper()
	bin := os.Getenv("PROMETHEUS_BIN")
	if bin == "" {
		t.Fatal("PROMETHEUS_BIN is not set: make watch-check sets it")
	}
	dir := t.TempDir()
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n" +
		"rule_files: [rules/*]\nscrape_configs:\n")
	for _, job := range fleet.Services() {
		var targets []string
		for _, name := range f.Replicas(job) {
			targets = append(targets, strings.TrimPrefix(f.AdminURL(name), "http://"))
		}
		fmt.Fprintf(&config, "- {job_name: %s, static_configs: [{targets: [\"%s\"]}]}\n", job,
			strings.Join(targets, `", "`))
	}
	write(t, filepath.Join(dir, "prometheus.yml"), []byte(config.String()))
	for path, rules := range tree(t, "deploy/alerts/*.yaml") {
		write(t, filepath.Join(dir, "rules", filepath.Base(path)), hasty(rules))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn",
		"--enable-feature=exemplar-storage")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	s := &server{base: "http://" + address}
	trial.Until(t, "Prometheus is ready", func() bool {
		resp, err := http.Get(s.base + "/-/ready") //nolint:noctx // it answers at once
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	t.Cleanup(func() { s.remember(t) })
	return s
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tree reads the repository's files that match a pattern, of which there is at least one.
func tree(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("%s: got no file, want one", pattern)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// sample is one series at an instant.
type sample struct {
	Metric map[string]string `json:"metric"`
}

// ask makes a call of Prometheus's API and decodes its data.
func (s *server) ask(t *testing.T, path string, values url.Values, into any) {
	t.Helper()
	s.askIn(t.Context(), t, path, values, into)
}

func (s *server) askIn(ctx context.Context, t *testing.T, path string, values url.Values, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/api/v1/"+path+"?"+values.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != "success" {
		t.Fatalf("%s %v: %s", path, values, answer.Error)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatal(err)
	}
}

// query evaluates an expression now.
func (s *server) query(t *testing.T, expr string) []sample {
	t.Helper()
	return s.queryIn(t.Context(), t, expr)
}

func (s *server) queryIn(ctx context.Context, t *testing.T, expr string) []sample {
	t.Helper()
	var data struct{ Result []sample }
	s.askIn(ctx, t, "query", url.Values{"query": {expr}}, &data)
	return data.Result
}

// series are all series that there are of a metric.
func (s *server) series(t *testing.T, name string) []map[string]string {
	t.Helper()
	var data []map[string]string
	s.ask(t, "series", url.Values{"match[]": {name}}, &data)
	return data
}

// fires waits until an alert fires, with a label if it is not empty.
func (s *server) fires(t *testing.T, alert, matcher string) {
	t.Helper()
	expr := fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"%s}`, alert, matcher)
	trial.Until(t, alert+" fires", func() bool { return len(s.query(t, expr)) > 0 })
}

// quiet waits until an alert does not fire.
func (s *server) quiet(t *testing.T, alert string) {
	t.Helper()
	expr := fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"}`, alert)
	trial.Until(t, alert+" does not fire", func() bool { return len(s.query(t, expr)) == 0 })
}

// shows waits until each panel that names a metric, of which there is one, has data.
func (s *server) shows(t *testing.T, metric string) {
	t.Helper()
	named := 0
	for _, e := range panels(t) {
		if !slices.Contains(e.metrics(), metric) {
			continue
		}
		named++
		trial.Until(t, e.where+" has data", func() bool { return len(s.query(t, e.text)) > 0 })
	}
	if named == 0 {
		t.Errorf("%s: got no panel that shows it, want one", metric)
	}
}
