//go:build engine

package engine

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/services/standalone/internal/trial"
)

func TestTheDemoTakesTheEngineItIsPointedAt(t *testing.T) {
	engine := serve(t, tiny)
	m := trial.Start(t, "ENGINE_URL="+engine.url()+"/v1")
	if !strings.Contains(m.Output(), "Answered by") || !strings.Contains(m.Output(), engine.address) {
		t.Errorf("the console does not say who answers:\n%s", m.Output())
	}
	// The request of the command that the console shows.
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(),
		`{"model":"`+m.Model()+`","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello! Who are you?"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if s := read(t, strings.NewReader(string(body))); s.text == "" || s.finish == nil || !s.done {
		t.Errorf("the stream is %s", body)
	}
	receipt := m.Receipt(t, m.Key(), header.Get(trial.RequestIDHeader))
	if _, completion := tokens(receipt); receipt["status"] != "settled" || completion != 20 {
		t.Errorf("receipt %v", receipt)
	}
}
