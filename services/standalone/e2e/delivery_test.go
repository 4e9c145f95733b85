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
)

// The prices of putModel: an input token costs 1,000 and an output token 3,000
// nano-USD; providers get nine tenths.

func TestAnAnswerIsChargedByTheEnginesUsageToTheNanoDollar(t *testing.T) {
	m := start(t, "SVC_DEMO_AGENT=off")
	m.putModel(t, "test/plain")
	engine := fakeengine.New(t)
	engine.Script("test/plain", fakeengine.Behaviour{Tokens: fakeengine.Words(5)})
	p := m.join(t, "honest", engine, "test/plain")
	account, key := m.consumer(t, "1")
	status, header, body := m.call(t, http.MethodPost, "/v1/chat/completions", key, chat("test/plain", ""))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	receipt := m.receipt(t, key, header.Get("X-Svc-Request-ID"))
	// 7 prompt tokens and 5 completion tokens: 22,000 nano-USD.
	if receipt["cost_usd_str"] != "0.000022" || receipt["provider_id"] != p.id || receipt["ending"] != "completed" {
		t.Errorf("receipt %v", receipt)
	}
	if balance, held := m.balance(t, account); balance != "0.999978" || held != "0.00" {
		t.Errorf("balance %s, held %s", balance, held)
	}
	if got := at(decode(t, body), "model"); got != "test/plain" {
		t.Errorf("the answer names %v", got)
	}
}

func TestADeadProviderIsReplacedBeforeTheFirstContent(t *testing.T) {
	m := start(t, "SVC_DEMO_AGENT=off")
	m.putModel(t, "test/two")
	bad, good := fakeengine.New(t), fakeengine.New(t)
	bad.Script("test/two", fakeengine.Behaviour{Status: http.StatusServiceUnavailable})
	good.Script("test/two", fakeengine.Behaviour{})
	failing := m.join(t, "failing", bad, "test/two")
	serving := m.join(t, "serving", good, "test/two")
	_, key := m.consumer(t, "1")
	status, header, body := m.call(t, http.MethodPost, "/v1/chat/completions", key, chat("test/two", `,"stream":true`), "X-Svc-Provider", failing.id)
	if status != http.StatusOK || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Fatalf("%d %s", status, body)
	}
	for name, want := range map[string]string{
		"X-Svc-Provider-Id": serving.id, "X-Svc-Route-Mode": "explicit", "X-Svc-Requested-Provider": failing.id,
		"X-Svc-Fallback-Reason": "requested_provider_failed", "X-Svc-Attempts": "2",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	receipt := m.receipt(t, key, header.Get("X-Svc-Request-ID"))
	if receipt["cost_usd_str"] != "0.000022" || receipt["fallback_reason"] != "requested_provider_failed" || len(receipt["attempts"].([]any)) != 2 {
		t.Errorf("receipt %v", receipt)
	}
	status, _, body = m.call(t, http.MethodPost, "/v1/chat/completions", key, chat("test/two", ""),
		"X-Svc-Provider", failing.id, "X-Svc-Allow-Fallbacks", "false")
	if status != http.StatusBadGateway || at(decode(t, body), "error", "code") != "requested_provider_failed" {
		t.Errorf("no fallbacks: %d %s", status, body)
	}
}

func TestEndingsChargeWhatTheTableSays(t *testing.T) {
	m := start(t, "SVC_DEMO_AGENT=off")
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
		m.putModel(t, c.model)
		engine.Script(c.model, c.behaviour)
		models = append(models, c.model)
	}
	for _, id := range []string{"test/empty", "test/refused"} {
		m.putModel(t, id)
		models = append(models, id)
	}
	engine.Script("test/empty", fakeengine.Behaviour{Tokens: []string{}, End: fakeengine.EndNoFinish})
	engine.Script("test/refused", fakeengine.Behaviour{Status: http.StatusBadRequest})
	m.join(t, "scripted", engine, models...)
	account, key := m.consumer(t, "1")
	for _, c := range cases {
		status, header, body := m.call(t, http.MethodPost, "/v1/chat/completions", key, chat(c.model, `,"stream":true,"max_tokens":16`))
		text := string(body)
		if status != http.StatusOK || strings.Contains(text, "data: {\"error\":{") != c.wantEvent || strings.HasSuffix(text, "[DONE]\n\n") == c.wantEvent {
			t.Errorf("%s: %d %s", c.model, status, tail(text, 300))
		}
		receipt := m.receipt(t, key, header.Get("X-Svc-Request-ID"))
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
		before, _ := m.balance(t, account)
		status, header, body := m.call(t, http.MethodPost, "/v1/chat/completions", key, chat(model, ""))
		if status != want {
			t.Errorf("%s: %d %s", model, status, body)
		}
		receipt := m.receipt(t, key, header.Get("X-Svc-Request-ID"))
		after, held := m.balance(t, account)
		if receipt["status"] != "released" || before != after || held != "0.00" {
			t.Errorf("%s: %v, balance %s then %s, held %s", model, receipt, before, after, held)
		}
	}
}

func TestAHangUpReachesTheEngineAndIsChargedAsDelivered(t *testing.T) {
	m := start(t, "SVC_DEMO_AGENT=off")
	m.putModel(t, "test/endless")
	engine := fakeengine.New(t)
	hold := make(chan struct{}, 3)
	for range 3 {
		hold <- struct{}{}
	}
	engine.Script("test/endless", fakeengine.Behaviour{Tokens: fakeengine.Words(100), BeforeToken: hold})
	m.join(t, "patient", engine, "test/endless")
	account, key := m.consumer(t, "1")
	ctx, hangUp := context.WithCancel(t.Context())
	resp := m.open(ctx, t, key, chat("test/endless", `,"stream":true`))
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	hangUp()
	waitCtx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := engine.WaitCancelled(waitCtx); err != nil {
		t.Fatalf("the engine never heard of the hang-up: %v", err)
	}
	receipt := m.receipt(t, key, resp.Header.Get("X-Svc-Request-ID"))
	if receipt["ending"] != "client_gone" || receipt["status"] != "settled" {
		t.Errorf("receipt %v", receipt)
	}
	if n := receipt["completion_tokens"].(float64); n < 1 || n > 20 {
		t.Errorf("%v tokens are charged for three words", n)
	}
	m.until(t, "nothing is held", func() bool { _, held := m.balance(t, account); return held == "0.00" })
}

func TestAProviderThatDiesInAStreamIsPaidForWhatItDelivered(t *testing.T) {
	m := start(t, "SVC_DEMO_AGENT=off")
	m.putModel(t, "test/dies")
	id := at(m.admin(t, http.MethodPost, "/api/v1/admin/providers", `{"name":"mortal"}`), "provider", "provider_id").(string)
	m.admin(t, http.MethodPost, "/api/v1/admin/providers/"+id+"/status", `{"status":"PROVIDER_STATUS_ACTIVE"}`)
	providerKey := m.admin(t, http.MethodPost, "/api/v1/admin/providers/"+id+"/keys", `{"name":"k"}`)["api_key"].(string)
	agent, err := fakeagent.Dial(t.Context(), m.env["SVC_WS_URL"]+"/ws", fakeagent.Options{Key: providerKey, Models: []string{"test/dies"}})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	m.until(t, "the provider is offered", func() bool { return m.offers(t, "test/dies", id) })
	m.until(t, "the model is callable", func() bool {
		_, _, body := m.call(t, http.MethodGet, "/v1/models", "", "")
		return strings.Contains(string(body), "test/dies")
	})
	_, key := m.consumer(t, "1")
	go func() {
		request := <-agent.Requests()
		for _, word := range []string{"one", " two", " three"} {
			if err := request.Text(word); err != nil {
				t.Error(err)
			}
		}
	}()
	resp := m.open(t.Context(), t, key, chat("test/dies", `,"stream":true`))
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
	receipt := m.receipt(t, key, resp.Header.Get("X-Svc-Request-ID"))
	// Three words at 3,000 nano-USD each, and nothing for the prompt.
	if receipt["ending"] != "provider_lost" || receipt["prompt_tokens"] != 0.0 || receipt["cost_usd_str"] != "0.000009" {
		t.Errorf("receipt %v", receipt)
	}
}
