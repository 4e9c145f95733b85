package provideragent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// namesOf are the models of a registration.
func namesOf(s *hubtest.Session) string {
	var names []string
	for _, m := range s.Register.GetModels() {
		names = append(names, fmt.Sprintf("%s/%d", m.GetModelId(), m.GetCapacity()))
	}
	return strings.Join(names, " ")
}

func chatOf(model string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
}

// The models change while a request is under way: the request ends on the connection that
// it came by, a request for a model that was taken away is served there as well, and the
// next connection offers the new models.
func TestModelsThatChangeDropNoRequest(t *testing.T) {
	engine, other := fakeengine.New(t), fakeengine.New(t)
	held := make(chan struct{})
	engine.Script("a", fakeengine.Behaviour{BeforeFirstByte: held})
	engine.Script("b", fakeengine.Behaviour{})
	other.Script("c", fakeengine.Behaviour{})
	path := filepath.Join(t.TempDir(), "models.json")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"a":{"endpoint":"` + engine.URL + `"},"b":{"endpoint":"` + engine.URL + `"}}`)
	models, err := LoadModels(path)
	if err != nil {
		t.Fatal(err)
	}
	agent, hub, log := start(t, models...)
	load := func(context.Context) ([]Model, error) { return LoadModels(path) }
	first := hub.AcceptLive()
	<-agent.Registered()
	open := first.Open("a", chatOf("a"))
	if err := engine.WaitRequests(t.Context(), 1); err != nil {
		t.Fatal(err)
	}

	seen := stampOf(path)
	put(`{"a":{"endpoint":"` + engine.URL + `"},"c":{"endpo`)
	seen = agent.follow(t.Context(), path, seen, load)
	if fault := agent.ModelsFault(); !strings.Contains(fault, "line 1") {
		t.Errorf("the fault: got %q, want one that names the line", fault)
	}
	if got := agent.offer.now(); len(got) != 2 {
		t.Errorf("models after a fault: got %d, want 2", len(got))
	}
	if again := agent.follow(t.Context(), path, seen, load); again != seen {
		t.Error("a fault is looked at again")
	}
	if n := strings.Count(log.String(), "has a fault"); n != 1 {
		t.Errorf("faults told: got %d, want 1", n)
	}

	put(`{"a":{"endpoint":"` + engine.URL + `","capacity":3},"c":{"endpoint":"` + other.URL + `"}}`)
	agent.follow(t.Context(), path, seen, load)
	if fault := agent.ModelsFault(); fault != "" {
		t.Errorf("the fault: got %q, want none", fault)
	}
	// The hub has not heard of the change yet.
	if _, end := first.Open("b", chatOf("b")).Answer(); !end.GetComplete() {
		t.Errorf("a request for the model that was taken away: got %v, want it complete", end)
	}
	second := hub.AcceptLive()
	if got := namesOf(second); got != "a/3 c/10" {
		t.Errorf("the registration: got %q, want %q", got, "a/3 c/10")
	}
	if _, end := second.Open("c", chatOf("c")).Answer(); !end.GetComplete() {
		t.Errorf("a request for the new model: got %v, want it complete", end)
	}
	close(held)
	if _, end := open.Answer(); !end.GetComplete() {
		t.Errorf("the request that was open: got %v, want it complete", end)
	}
	first.WaitClosed()
}
