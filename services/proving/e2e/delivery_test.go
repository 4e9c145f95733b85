package e2e

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

func TestAnAnswerIsChargedByTheEnginesUsageToTheNanoDollar(t *testing.T) {
	trial.Each(t, anAnswerIsChargedByTheEnginesUsageToTheNanoDollar, "SVC_DEMO_AGENT=off")
}

func anAnswerIsChargedByTheEnginesUsageToTheNanoDollar(t *testing.T, m *trial.Market) {
	m.PutModel(t, "test/plain")
	engine := fakeengine.New(t)
	engine.Script("test/plain", fakeengine.Behaviour{Tokens: fakeengine.Words(5)})
	p := m.Join(t, "honest", engine.URL, "test/plain")
	account, key := m.Consumer(t, "1")
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/plain", ""))
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", status, body)
	}
	receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
	// 7 prompt tokens and 5 completion tokens: 22,000 nano-USD.
	switch {
	case receipt["cost_usd_str"] != "0.000022":
		t.Errorf(`receipt["cost_usd_str"]: got %v, want "0.000022"`, receipt["cost_usd_str"])
	case receipt["provider_id"] != p.ID:
		t.Errorf(`receipt["provider_id"]: got %v, want %v`, receipt["provider_id"], p.ID)
	case receipt["ending"] != "completed":
		t.Errorf(`receipt["ending"]: got %v, want "completed"`, receipt["ending"])
	}
	if balance, held := m.Balance(t, account); balance != "0.999978" {
		t.Errorf(`balance: got %q, want "0.999978"`, balance)
	} else if held != "0.00" {
		t.Errorf(`held: got %q, want "0.00"`, held)
	}
	if got := trial.At(trial.Decode(t, body), "model"); got != "test/plain" {
		t.Errorf(`the answer names: got %v, want "test/plain"`, got)
	}
}

func TestADeadProviderIsReplacedBeforeTheFirstContent(t *testing.T) {
	trial.Each(t, aDeadProviderIsReplacedBeforeTheFirstContent, "SVC_DEMO_AGENT=off")
}

func aDeadProviderIsReplacedBeforeTheFirstContent(t *testing.T, m *trial.Market) {
	m.PutModel(t, "test/two")
	bad, good := fakeengine.New(t), fakeengine.New(t)
	bad.Script("test/two", fakeengine.Behaviour{Status: http.StatusServiceUnavailable})
	good.Script("test/two", fakeengine.Behaviour{})
	failing := m.Join(t, "failing", bad.URL, "test/two")
	serving := m.Join(t, "serving", good.URL, "test/two")
	_, key := m.Consumer(t, "1")
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/two", `,"stream":true`),
		"X-Svc-Provider", failing.ID)
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200", status)
	}
	if !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Fatalf("body: got %q, want the suffix %q", string(body), "data: [DONE]\n\n")
	}
	for name, want := range map[string]string{
		"X-Svc-Provider-Id": serving.ID, "X-Svc-Route-Mode": "explicit", "X-Svc-Requested-Provider": failing.ID,
		"X-Svc-Fallback-Reason": "requested_provider_failed", "X-Svc-Attempts": "2",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
	switch {
	case receipt["cost_usd_str"] != "0.000022":
		t.Errorf(`receipt["cost_usd_str"]: got %v, want "0.000022"`, receipt["cost_usd_str"])
	case receipt["fallback_reason"] != "requested_provider_failed":
		t.Errorf(`receipt["fallback_reason"]: got %v, want "requested_provider_failed"`, receipt["fallback_reason"])
	case len(receipt["attempts"].([]any)) != 2:
		t.Errorf(`len(receipt["attempts"].([]any)): got %d, want 2, in %v`, len(receipt["attempts"].([]any)), receipt)
	}
	status, _, body = m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/two", ""),
		"X-Svc-Provider", failing.ID, "X-Svc-Allow-Fallbacks", "false")
	if status != http.StatusBadGateway {
		t.Errorf("no fallbacks: status: got %d, want 502, with %s", status, body)
	} else if got := trial.At(trial.Decode(t, body), "error", "code"); got != "requested_provider_failed" {
		t.Errorf(`no fallbacks: trial.At(…): got %v, want "requested_provider_failed", with %s`, got, body)
	}
}
