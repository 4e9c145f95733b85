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
	if !strings.Contains(m.Output(), "Answered by") {
		t.Errorf(`who answered, on the console: m.Output(): got %q, want "Answered by" in it`, m.Output())
	} else if !strings.Contains(m.Output(), address) {
		t.Errorf("who answered, on the console: m.Output(): got %q, want %q in it", m.Output(), address)
	}
	// The request of the command that the console shows.
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(),
		`{"model":"`+m.Model()+
			`","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello! Who are you?"}]}`)
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", status, body)
	}
	switch s := read(t, strings.NewReader(string(body))); {
	case s.text == "":
		t.Errorf(`s.text: got "", want some text, with %s`, body)
	case s.finish == nil:
		t.Errorf("s.finish: got nil, want a value, with %s", body)
	case !s.done:
		t.Errorf("s.done: got false, want true, with %s", body)
	}
	receipt := m.Receipt(t, m.Key(), header.Get(trial.RequestIDHeader))
	if _, completion := tokens(receipt); receipt["status"] != "settled" {
		t.Errorf(`receipt["status"]: got %v, want "settled"`, receipt["status"])
	} else if completion != 20 {
		t.Errorf("completion: got %v, want 20", completion)
	}
}
