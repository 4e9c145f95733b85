package e2e

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/money"
	"svc.internal/services/proving/internal/trial"
)

// A request that falls back to another model is served by that model, billed once, and
// leaves nothing held.
func TestARequestGoesOnWithAnotherModel(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const broken, absent, sound = "test/broken", "test/absent", "test/sound"
	for _, model := range []string{broken, absent, sound} {
		m.PutModel(t, model)
	}
	engine := fakeengine.New(t)
	engine.Script(broken, fakeengine.Behaviour{Status: http.StatusServiceUnavailable})
	engine.Script(sound, fakeengine.Behaviour{})
	m.Join(t, "one", engine.URL, broken, sound)
	// There is room for one hold and not for two.
	account, key := m.Consumer(t, "0.005")
	m.Unlimit(t, account)

	const requests = 4
	for i := range requests {
		more := `,"models":["` + absent + `","` + sound + `"]`
		if i%2 == 1 {
			more += `,"stream":true`
		}
		status, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(broken, more))
		if status != http.StatusOK {
			t.Fatalf("status: got %d, want 200", status)
		}
		if !strings.Contains(string(answer), `"model":"`+sound+`"`) {
			t.Fatalf("answer: got %q, want %q in it", string(answer), `"model":"`+sound+`"`)
		}
		receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
		switch {
		case receipt["model"] != sound:
			t.Errorf(`receipt["model"]: got %v, want %v`, receipt["model"], sound)
		case receipt["continued_as"] != "":
			t.Errorf(`receipt["continued_as"]: got %v, want ""`, receipt["continued_as"])
		case receipt["cost_usd_str"] == "0.00":
			t.Error(`receipt["cost_usd_str"]: got "0.00", want any but "0.00"`)
		}
	}
	m.NothingHeld(t, account)
	const each = fakeengine.PromptTokens*promptPrice + 5*outputPrice
	if balance, _ := m.Balance(t, account); balance != (money.USD/200 - requests*each).String() {
		t.Errorf("got %s left, want %s", balance, money.USD/200-requests*each)
	}
	m.Balanced(t)
}

// The router follows a body's preferences of providers.
func TestTheBodyChoosesWhoServes(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const model = "test/chosen"
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	first, second := m.Join(t, "one", engine.URL, model), m.Join(t, "two", engine.URL, model)
	account, key := m.Consumer(t, "1")
	m.Unlimit(t, account)
	for _, c := range []struct{ routing, served string }{
		{`{"order":["` + first.ID + `","` + second.ID + `"]}`, first.ID},
		{`{"order":["` + second.ID + `","` + first.ID + `"]}`, second.ID},
		{`{"ignore":["` + first.ID + `"]}`, second.ID},
		{`{"only":["` + first.ID + `"]}`, first.ID},
		{`{"quantizations":["no-such"]}`, ""},
		{`{"max_price":{"completion":0}}`, ""},
	} {
		for range 3 {
			status, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, key,
				trial.Chat(model, `,"provider":`+c.routing))
			if got := header.Get("X-Svc-Provider-Id"); got != c.served {
				t.Errorf(`%s: header.Get("X-Svc-Provider-Id"): got %q, want %q (answer is %s)`, c.routing, got, c.served, answer)
			} else if (status == http.StatusOK) != (c.served != "") {
				t.Errorf("%s: status == http.StatusOK: got %t, want %t (answer is %s)", c.routing, status == http.StatusOK,
					c.served != "", answer)
			}
		}
	}
	m.NothingHeld(t, account)
	m.Balanced(t)
}
