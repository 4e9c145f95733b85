//go:build engine

package engine

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestTheDemoTakesTheEngineItIsPointedAt(t *testing.T) {
	engine := serve(t, tiny)
	for _, variable := range []string{"ENGINE_URL=" + engine.url() + "/v1", "OLLAMA_HOST=" + engine.address} {
		t.Run(variable, func(t *testing.T) { theFirstCurlIsAnsweredBy(t, engine.address, variable) })
	}
}

func theFirstCurlIsAnsweredBy(t *testing.T, address, variable string) {
	t.Helper()
	m := trial.Start(t, variable)
	if !strings.Contains(m.Output(), "Answered by") || !strings.Contains(m.Output(), address) {
		t.Errorf("the console does not say who answers:\n%s", m.Output())
	}
	// The request of the command that the console shows.
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(),
		`{"model":"`+m.Model()+
			`","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello! Who are you?"}]}`)
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
