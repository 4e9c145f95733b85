package e2e

import (
	"net/http"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/proving/internal/trial"
)

// Hostile test 57, from end to end: five chats an hour, which the platform's account pays
// for, whatever the headers say of the client.
func TestAVisitorHasFiveChatsOfThePlatformsAnHour(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	dir, quiet := t.TempDir(), []string{"DATABASE_URL=" + pgtest.URL(t), "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error"}
	before := trial.StartIn(t, dir, quiet...)
	const model = "test/playground"
	before.PutModel(t, model)
	account, key := before.Consumer(t, "1")
	if err := before.Stop(); err != nil {
		t.Fatal(err)
	}
	m := trial.StartIn(t, dir, append(quiet, "SVC_GATEWAY_PLAYGROUND_MODELS="+model, "SVC_GATEWAY_PLAYGROUND_KEY="+key,
		"SVC_GATEWAY_VISITOR_SECRET=a secret of all gateways")...)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	m.Join(t, "generous", engine.URL, model)
	visit := func(from string) (int, http.Header, []byte) {
		return m.Call(t, http.MethodPost, "/v1/playground/chat", "", trial.Chat(model, ""), "Origin", m.Base(),
			"X-Forwarded-For", from)
	}
	for _, from := range []string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8:1::1", "nonsense"} {
		if status, header, body := visit(from); status != http.StatusOK {
			t.Errorf("from %s: status: got %d, want 200 (body is %s)", from, status, body)
		} else if header.Get("X-Svc-Billing-Type") != "playground" {
			t.Errorf(`from %s: header.Get("X-Svc-Billing-Type"): got %q, want "playground" (body is %s)`, from,
				header.Get("X-Svc-Billing-Type"), body)
		}
	}
	if status, header, body := visit("203.0.113.6"); status != http.StatusTooManyRequests {
		t.Errorf("the sixth: status: got %d, want 429 (body is %s)", status, body)
	} else if header.Get("Retry-After") == "" {
		t.Errorf(`the sixth: header.Get("Retry-After"): got "", want some text (body is %s)`, body)
	}
	m.NothingHeld(t, account)
	const each = fakeengine.PromptTokens*promptPrice + 5*outputPrice
	if balance, _ := m.Balance(t, account); balance != (money.USD - 5*each).String() {
		t.Errorf("got %s left, want %s: five chats are paid", balance, money.USD-5*each)
	}
	m.Balanced(t)
}
