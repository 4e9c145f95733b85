package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/standalone/internal/trial"
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
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/two", `,"stream":true`), "X-Svc-Provider", failing.ID)
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
	if receipt["cost_usd_str"] != "0.000022" || receipt["fallback_reason"] != "requested_provider_failed" || len(receipt["attempts"].([]any)) != 2 {
		t.Errorf("receipt %v", receipt)
	}
	status, _, body = m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/two", ""),
		"X-Svc-Provider", failing.ID, "X-Svc-Allow-Fallbacks", "false")
	if status != http.StatusBadGateway || trial.At(trial.Decode(t, body), "error", "code") != "requested_provider_failed" {
		t.Errorf("no fallbacks: %d %s", status, body)
	}
}

func TestEndingsChargeWhatTheTableSays(t *testing.T) {
	trial.Each(t, endingsChargeWhatTheTableSays, "SVC_DEMO_AGENT=off")
}

func endingsChargeWhatTheTableSays(t *testing.T, m *trial.Market) {
	engine := fakeengine.New(t)
	five := fakeengine.Words(5)
	cases := []struct {
		model, ending, status, cost string
		behaviour                   fakeengine.Behaviour
		wantEvent                   bool // an error event ends the stream
	}{
		{"test/normal", "completed", "settled", "0.000022", fakeengine.Behaviour{Tokens: five}, false},
		{"test/cut", "truncated", "settled", "", fakeengine.Behaviour{Tokens: five, End: fakeengine.EndReset, EndAfter: 3}, true},
		{"test/truncated", "truncated", "settled", "", fakeengine.Behaviour{Tokens: five, End: fakeengine.EndSilent, EndAfter: 3}, true},
		{"test/error-inside", "engine_error", "settled", "", fakeengine.Behaviour{Tokens: five, End: fakeengine.EndError, EndAfter: 3}, true},
		{"test/absurd", "completed", "settled", "", fakeengine.Behaviour{Tokens: five, Usage: []string{fakeengine.UsageMillion}}, false},
		{"test/zero", "completed", "settled", "", fakeengine.Behaviour{Tokens: five, Usage: []string{fakeengine.UsageZero}}, false},
	}
	models := make([]string, 0, len(cases)+2)
	for _, c := range cases {
		m.PutModel(t, c.model)
		engine.Script(c.model, c.behaviour)
		models = append(models, c.model)
	}
	for _, id := range []string{"test/empty", "test/refused"} {
		m.PutModel(t, id)
		models = append(models, id)
	}
	engine.Script("test/empty", fakeengine.Behaviour{Tokens: []string{}, End: fakeengine.EndNoFinish})
	engine.Script("test/refused", fakeengine.Behaviour{Status: http.StatusBadRequest})
	m.Join(t, "scripted", engine.URL, models...)
	account, key := m.Consumer(t, "1")
	for _, c := range cases {
		status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(c.model, `,"stream":true,"max_tokens":16`))
		text := string(body)
		if status != http.StatusOK || strings.Contains(text, "data: {\"error\":{") != c.wantEvent || strings.HasSuffix(text, "[DONE]\n\n") == c.wantEvent {
			t.Errorf("%s: %d %s", c.model, status, trial.Tail(text, 300))
		}
		receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
		if receipt["ending"] != c.ending || receipt["status"] != c.status || c.cost != "" && receipt["cost_usd_str"] != c.cost {
			t.Errorf("%s: receipt %v", c.model, receipt)
		}
		if c.wantEvent && receipt["prompt_tokens"] != 0.0 {
			t.Errorf("%s: an answer that broke off charges the prompt: %v", c.model, receipt)
		}
		if n, _ := receipt["completion_tokens"].(float64); n < 1 || n > 16 {
			t.Errorf("%s: %v completion tokens are charged", c.model, n)
		}
	}
	for model, want := range map[string]int{"test/empty": http.StatusBadGateway, "test/refused": http.StatusBadRequest} {
		before, _ := m.Balance(t, account)
		status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
		if status != want {
			t.Errorf("%s: %d %s", model, status, body)
		}
		receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
		after, held := m.Balance(t, account)
		if receipt["status"] != "released" || before != after || held != "0.00" {
			t.Errorf("%s: %v, balance %s then %s, held %s", model, receipt, before, after, held)
		}
	}
}

func TestAHangUpReachesTheEngineAndIsChargedAsDelivered(t *testing.T) {
	trial.Each(t, aHangUpReachesTheEngineAndIsChargedAsDelivered, "SVC_DEMO_AGENT=off")
}

func aHangUpReachesTheEngineAndIsChargedAsDelivered(t *testing.T, m *trial.Market) {
	m.PutModel(t, "test/endless")
	engine := fakeengine.New(t)
	hold := make(chan struct{}, 3)
	for range 3 {
		hold <- struct{}{}
	}
	engine.Script("test/endless", fakeengine.Behaviour{Tokens: fakeengine.Words(100), BeforeToken: hold})
	m.Join(t, "patient", engine.URL, "test/endless")
	account, key := m.Consumer(t, "1")
	ctx, hangUp := context.WithCancel(t.Context())
	resp := m.Open(ctx, t, key, trial.Chat("test/endless", `,"stream":true`))
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	hangUp()
	waitCtx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	if _, err := engine.WaitCancelled(waitCtx); err != nil {
		t.Fatalf("the engine never heard of the hang-up: %v", err)
	}
	receipt := m.Receipt(t, key, resp.Header.Get(trial.RequestIDHeader))
	if receipt["ending"] != "client_gone" || receipt["status"] != "settled" {
		t.Errorf("receipt %v", receipt)
	}
	if n := receipt["completion_tokens"].(float64); n < 1 || n > 20 {
		t.Errorf("%v tokens are charged for three words", n)
	}
	m.NothingHeld(t, account)
}

func TestAProviderThatDiesInAStreamIsPaidForWhatItDelivered(t *testing.T) {
	trial.Each(t, aProviderThatDiesInAStreamIsPaidForWhatItDelivered, "SVC_DEMO_AGENT=off")
}

func aProviderThatDiesInAStreamIsPaidForWhatItDelivered(t *testing.T, m *trial.Market) {
	m.PutModel(t, "test/dies")
	p := m.Provider(t, "mortal")
	agent, err := fakeagent.Dial(t.Context(), m.WSURL()+"/ws", fakeagent.Options{Key: p.Key, Models: []string{"test/dies"}})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	m.WaitOffered(t, "test/dies", p.ID)
	_, key := m.Consumer(t, "1")
	go func() {
		request := <-agent.Requests()
		for _, word := range []string{"one", " two", " three"} {
			if err := request.Text(word); err != nil {
				t.Error(err)
			}
		}
	}()
	resp := m.Open(t.Context(), t, key, trial.Chat("test/dies", `,"stream":true`))
	defer resp.Body.Close()
	var text strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "three") {
			agent.Kill()
		}
	}
	if !strings.Contains(text.String(), `data: {"error":{`) || strings.Contains(text.String(), "[DONE]") {
		t.Errorf("the client was told: %s", text.String())
	}
	receipt := m.Receipt(t, key, resp.Header.Get(trial.RequestIDHeader))
	// Three words at 3,000 nano-USD each, and nothing for the prompt.
	if receipt["ending"] != "provider_lost" || receipt["prompt_tokens"] != 0.0 || receipt["cost_usd_str"] != "0.000009" {
		t.Errorf("receipt %v", receipt)
	}
}
