package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/proving/internal/trial"
)

// guest is a visitor of a marketplace without a key.
type guest struct {
	t *testing.T
	m *trial.Market
}

// session opens a session as a page of the site does, and returns its cookie; empty if it
// is refused.
func (g guest) session(headers ...string) (status int, cookie string) {
	g.t.Helper()
	status, header, _ := g.m.Call(g.t, http.MethodGet, "/v1/playground/models", "", "",
		append([]string{"Origin", g.m.Base()}, headers...)...)
	cookie, _, _ = strings.Cut(header.Get("Set-Cookie"), ";")
	return status, cookie
}

// chat asks in a session as a page of the site does.
func (g guest) chat(cookie, body string, headers ...string) (int, http.Header, []byte) {
	g.t.Helper()
	return g.m.Call(g.t, http.MethodPost, "/v1/playground/chat", "", body,
		append([]string{"Origin", g.m.Base(), "Cookie", cookie}, headers...)...)
}

// payer is the account that pays for visitors, as operators find it.
func (g guest) payer() string {
	g.t.Helper()
	now := time.Now().UTC()
	entries := g.m.Admin(g.t, http.MethodGet, "/api/v1/admin/ledger/entries?since="+
		now.Add(-time.Hour).Format(time.RFC3339)+"&until="+now.Add(time.Hour).Format(time.RFC3339), "")
	list, _ := entries["list"].([]any)
	for _, entry := range list {
		for i := range 2 {
			leg := trial.At(entry, "legs", i)
			if trial.At(entry, "kind") == "playground" && trial.At(leg, "account_kind") == "l:consumer:available" {
				return trial.Text(g.t, leg, "owner_id")
			}
		}
	}
	g.t.Fatalf("entries: got %v, want one of the kind playground", entries)
	return ""
}

// Hostile test 57, from end to end: five chats an hour, which the platform's account pays
// for, whatever the headers say of the client.
func TestPlaygroundAVisitorHasFiveChatsOfThePlatformsAnHour(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	const model, canary = "test/playground", "canary-of-a-visitor"
	m := trial.StartIn(t, t.TempDir(), "DATABASE_URL="+pgtest.URL(t), "SVC_DEMO_AGENT=off",
		"SVC_LOG_LEVEL=info", "SVC_GATEWAY_PLAYGROUND_MODELS="+model, "SVC_BILLING_PLAYGROUND_DAILY_USD=1")
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	m.Join(t, "generous", engine.URL, model)
	g := guest{t, m}
	status, cookie := g.session()
	if status != http.StatusOK {
		t.Fatalf("the models: status: got %d, want 200", status)
	}
	if status, _, body := g.chat("", trial.Chat(model, "")); status != http.StatusUnauthorized {
		t.Errorf("without a session: status: got %d, want 401 (body is %s)", status, body)
	}
	request := ""
	for _, from := range []string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8:1::1", "nonsense"} {
		body := strings.Replace(trial.Chat(model, ""), "Say", canary+" Say", 1)
		status, header, answer := g.chat(cookie, body, "X-Forwarded-For", from)
		if status != http.StatusOK {
			t.Errorf("from %s: status: got %d, want 200 (body is %s)", from, status, answer)
		} else if header.Get("X-Svc-Billing-Type") != "playground" {
			t.Errorf(`from %s: header.Get("X-Svc-Billing-Type"): got %q, want "playground" (body is %s)`, from,
				header.Get("X-Svc-Billing-Type"), answer)
		}
		request = header.Get("X-Svc-Request-Id")
	}
	if status, header, body := g.chat(cookie, trial.Chat(model, "")); status != http.StatusTooManyRequests {
		t.Errorf("the sixth: status: got %d, want 429 (body is %s)", status, body)
	} else if header.Get("Retry-After") == "" {
		t.Errorf(`the sixth: header.Get("Retry-After"): got "", want some text (body is %s)`, body)
	}
	_, key := m.Consumer(t, "1")
	for what, reader := range map[string]struct {
		key  string
		want int
	}{"a consumer": {key, http.StatusNotFound}, "nobody": {"", http.StatusUnauthorized}} {
		path := "/api/v1/requests/" + request
		status, _, body := m.Call(t, http.MethodGet, path, reader.key, "", "Cookie", cookie)
		if status != reader.want {
			t.Errorf("the visitor's request, read by %s: status: got %d, want %d (body is %s)", what, status, reader.want, body)
		}
	}
	payer := g.payer()
	m.NothingHeld(t, payer)
	const each = fakeengine.PromptTokens*promptPrice + 5*outputPrice
	if balance, _ := m.Balance(t, payer); balance != (money.USD - 5*each).String() {
		t.Errorf("got %s left, want %s: five chats are paid", balance, money.USD-5*each)
	}
	_, secret, _ := strings.Cut(cookie, "=")
	log := m.Log()
	if !strings.Contains(log, "/v1/playground/chat") {
		t.Error("the log: got no line of a visitor's chat, want some")
	}
	for what, text := range map[string]string{"the prompt": canary, "the secret of the session": secret} {
		if strings.Contains(log, text) {
			t.Errorf("the log: got %s (%q) in it, want it without", what, text)
		}
	}
	m.Balanced(t)
}

// A session is good in its own network alone, a network has sixteen, and without a budget
// nobody is served.
func TestPlaygroundSessionsAreOfOneNetwork(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	dir, model := t.TempDir(), "test/playground"
	environ := []string{"DATABASE_URL=" + pgtest.URL(t), "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error",
		"SVC_GATEWAY_TRUSTED_PROXIES=127.0.0.0/8,::1", "SVC_GATEWAY_PLAYGROUND_MODELS=" + model}
	m := trial.StartIn(t, dir, environ...)
	m.PutModel(t, model)
	g := guest{t, m}
	_, own := g.session("X-Forwarded-For", "2001:db8::1")
	_, other := g.session("X-Forwarded-For", "2001:db8:1::1")
	for what, c := range map[string]struct {
		cookie, from string
		want         int
	}{
		"its own network":        {own, "2001:db8::ffff", http.StatusServiceUnavailable}, // nobody serves the model
		"another's network":      {own, "2001:db8:1::1", http.StatusUnauthorized},
		"another's session":      {other, "2001:db8::1", http.StatusUnauthorized},
		"a guess":                {"svc_playground=" + strings.Repeat("A", 43), "2001:db8::1", http.StatusUnauthorized},
		"the cookie of the page": {"svc_refresh=" + strings.Repeat("A", 43), "2001:db8::1", http.StatusUnauthorized},
	} {
		if status, _, body := g.chat(c.cookie, trial.Chat(model, ""), "X-Forwarded-For", c.from); status != c.want {
			t.Errorf("%s: status: got %d, want %d (body is %s)", what, status, c.want, body)
		}
	}
	for i := 2; i <= 17; i++ {
		want := http.StatusOK
		if i == 17 {
			want = http.StatusTooManyRequests
		}
		status, cookie := g.session("X-Forwarded-For", fmt.Sprintf("2001:db8::%d", i))
		if status != want {
			t.Errorf("list %d of a network: status: got %d, want %d", i, status, want)
		}
		if opened := cookie != ""; opened != (i < 17) {
			t.Errorf("session %d of a network is opened: got %t, want %t", i, opened, i < 17)
		}
	}
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	g.m = trial.StartIn(t, dir, append(environ, "SVC_BILLING_PLAYGROUND_DAILY_USD=0")...)
	if status, cookie := g.session("X-Forwarded-For", "2001:db8:2::1"); status != http.StatusServiceUnavailable {
		t.Errorf("without a budget: the models: status: got %d, want 503", status)
	} else if cookie != "" {
		t.Error("without a budget: got a session, want none")
	}
	guess := "svc_playground=" + strings.Repeat("A", 43)
	status, _, body := g.chat(guess, trial.Chat(model, ""), "X-Forwarded-For", "2001:db8:2::1")
	if status != http.StatusServiceUnavailable {
		t.Errorf("without a budget: status: got %d, want 503 (body is %s)", status, body)
	}
}
