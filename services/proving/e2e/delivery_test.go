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
		t.Fatalf("%d %s", status, body)
	}
	receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
	// 7 prompt tokens and 5 completion tokens: 22,000 nano-USD.
	if receipt["cost_usd_str"] != "0.000022" || receipt["provider_id"] != p.ID || receipt["ending"] != "completed" {
		t.Errorf("receipt %v", receipt)
	}
	if balance, held := m.Balance(t, account); balance != "0.999978" || held != "0.00" {
		t.Errorf("balance %s, held %s", balance, held)
	}
	if got := trial.At(trial.Decode(t, body), "model"); got != "test/plain" {
		t.Errorf("the answer names %v", got)
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
	if status != http.StatusOK || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Fatalf("%d %s", status, body)
	}
	for name, want := range map[string]string{
		"X-Svc-Provider-Id": serving.ID, "X-Svc-Route-Mode": "explicit", "X-Svc-Requested-Provider": failing.ID,
		"X-Svc-Fallback-Reason": "requested_provider_failed", "X-Svc-Attempts": "2",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
	if receipt["cost_usd_str"] != "0.000022" || receipt["fallback_reason"] != "requested_provider_failed" ||
		len(receipt["attempts"].([]any)) != 2 {
		t.Errorf("receipt %v", receipt)
	}
	status, _, body = m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/two", ""),
		"X-Svc-Provider", failing.ID, "X-Svc-Allow-Fallbacks", "false")
	if status != http.StatusBadGateway || trial.At(trial.Decode(t, body), "error", "code") != "requested_provider_failed" {
		t.Errorf("no fallbacks: %d %s", status, body)
	}
}
