package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/pgtest"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/standalone"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait of these tests; nothing should come near it.
const patience = 60 * time.Second

// market is a running marketplace.
type market struct {
	env map[string]string
	// stop ends it and returns what it ended with.
	stop func() error
	out  *watched
}

// start runs a marketplace on free ports with the variables in environ on top,
// until the test ends.
func start(t *testing.T, environ ...string) *market {
	t.Helper()
	return startIn(t, t.TempDir(), append([]string{"DATABASE_URL=" + pgtest.URL(t)}, environ...)...)
}

// startIn runs a marketplace on a data directory.
func startIn(t *testing.T, dir string, environ ...string) *market {
	t.Helper()
	cfg, err := config.Load[standalone.Config](append([]string{
		"SVC_HTTP_ADDR=127.0.0.1:0", "SVC_WS_ADDR=127.0.0.1:0", "SVC_DATA_DIR=" + dir,
	}, environ...))
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Select(""); err != nil {
		t.Fatal(err)
	}
	out := &watched{ready: make(chan struct{})}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- standalone.Run(ctx, cfg, standalone.Streams{Out: out, Log: &locked{w: &log}}) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the marketplace ended with %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", tail(log.String(), 12_000))
		}
	})
	select {
	case <-out.ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the marketplace did not start: %v\n%s", err, out.text())
	case <-time.After(patience):
		t.Fatalf("the marketplace is not ready after %v:\n%s", patience, out.text())
	}
	return &market{env: readEnv(t, filepath.Join(dir, "demo.env")), stop: stop, out: out}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// watched keeps what is written and tells when the marketplace says that it
// stands.
type watched struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	once  sync.Once
	ready chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if bytes.Contains(w.buf.Bytes(), []byte("The marketplace is running.")) {
		w.once.Do(func() { close(w.ready) })
	}
	return len(p), nil
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func readEnv(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	env := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env
}

func (m *market) base() string { return m.env["SVC_BASE_URL"] }

func (m *market) key() string { return m.env["SVC_API_KEY"] }

// call makes a request with a key and returns the status, headers and body.
func (m *market) call(t *testing.T, method, path, key, body string, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.base()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v after %q", method, path, err, tail(string(answer), 200))
	}
	return resp.StatusCode, resp.Header, answer
}

// open begins a chat completion, for tests that read or leave it themselves.
func (m *market) open(ctx context.Context, t *testing.T, key, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// admin makes an operator's call and decodes what it answers.
func (m *market) admin(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	status, _, answer := m.call(t, method, path, m.env["SVC_ADMIN_TOKEN"], body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return decode(t, answer)
}

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("not JSON: %v: %.300s", err, body)
	}
	return v
}

// at walks nested objects and lists of a decoded answer.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = m[s]
		case int:
			l, ok := v.([]any)
			if !ok || s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// putModel puts a model of round prices into the catalog.
func (m *market) putModel(t *testing.T, id string) {
	t.Helper()
	m.admin(t, http.MethodPut, "/api/v1/admin/models/"+id, `{"name":"Test model","input_price":"1","output_price":"3",
		"payout_input_price":"0.9","payout_output_price":"2.7","context_length":8192,"max_output_tokens":1024,"capabilities":["chat"]}`)
}

// consumer makes an account with credit in US dollars and a key.
func (m *market) consumer(t *testing.T, credit string) (accountID, key string) {
	t.Helper()
	accountID = at(m.admin(t, http.MethodPost, "/api/v1/admin/accounts", `{"name":"`+t.Name()[:min(len(t.Name()), 60)]+`"}`), "account", "account_id").(string)
	if credit != "" {
		m.admin(t, http.MethodPost, "/api/v1/admin/accounts/"+accountID+"/credit", `{"amount_usd":"`+credit+`","idempotency_key":"`+accountID+`"}`)
	}
	key = m.admin(t, http.MethodPost, "/api/v1/admin/accounts/"+accountID+"/keys", `{"name":"k"}`)["api_key"].(string)
	return accountID, key
}

// balance is what an account has and what of it is held, exact, in US dollars.
func (m *market) balance(t *testing.T, accountID string) (balance, held string) {
	t.Helper()
	account := m.admin(t, http.MethodGet, "/api/v1/admin/accounts/"+accountID, "")
	return at(account, "account", "balance_usd_str").(string), at(account, "account", "held_usd_str").(string)
}

// provider is an active provider whose agent serves models from an engine.
type provider struct {
	id  string
	key string
	// leave ends its agent.
	leave func()
}

// join makes a provider and connects its agent; each model is served under its
// own name from the engine.
func (m *market) join(t *testing.T, name string, engine *fakeengine.Engine, models ...string) *provider {
	t.Helper()
	p := &provider{}
	p.id = at(m.admin(t, http.MethodPost, "/api/v1/admin/providers", `{"name":"`+name+`"}`), "provider", "provider_id").(string)
	m.admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.id+"/status", `{"status":"PROVIDER_STATUS_ACTIVE"}`)
	p.key = m.admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.id+"/keys", `{"name":"k"}`)["api_key"].(string)
	cfg := provideragent.DefaultConfig()
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.NodeName = m.env["SVC_WS_URL"], config.NewSecret(p.key), t.TempDir(), name
	for _, id := range models {
		cfg.Models = append(cfg.Models, provideragent.Model{ModelID: id, EngineURL: engine.URL + "/v1", LocalModel: id, ContextLength: 8192, Capacity: 256})
	}
	agent, err := provideragent.New(cfg, provideragent.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	p.leave = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent of %s ended with %v", name, err)
		}
	})
	t.Cleanup(p.leave)
	for _, id := range models {
		m.until(t, name+" offers "+id, func() bool { return m.offers(t, id, p.id) })
	}
	return p
}

// offers tells whether the public list of a model's providers names one.
func (m *market) offers(t *testing.T, model, providerID string) bool {
	t.Helper()
	_, _, body := m.call(t, http.MethodGet, "/api/v1/models/"+model+"/providers", "", "")
	list, _ := at(decode(t, body), "data", "list").([]any)
	for _, o := range list {
		if at(o, "provider_id") == providerID {
			return true
		}
	}
	return false
}

// until waits for a state that other processes bring about.
func (m *market) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for !reached() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("still not: %s", what)
		}
	}
}

// receipt reads the receipt of a request once its money and the gateway's
// account of it are there.
func (m *market) receipt(t *testing.T, key, requestID string) map[string]any {
	t.Helper()
	var receipt map[string]any
	m.until(t, "request "+requestID+" is settled or released", func() bool {
		status, _, body := m.call(t, http.MethodGet, "/api/v1/requests/"+requestID, key, "")
		if status != http.StatusOK {
			return false
		}
		receipt = decode(t, body)
		return receipt["status"] != "open" && receipt["http_status"] != 0.0
	})
	return receipt
}

// chat is a body for a model; extra members begin with a comma.
func chat(model, extra string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Say something."}]%s}`, model, extra)
}
