package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

func TestDispatchReachesTheHubThatHoldsTheSession(t *testing.T) {
	everyGatewayReachesEveryHub(t, trial.Shared(t))
}

// everyGatewayReachesEveryHub has each gateway serve a model that one hub's provider offers.
func everyGatewayReachesEveryHub(t *testing.T, m *trial.Market) {
	t.Helper()
	_, key := m.Consumer(t, "1")
	for n, hub := range m.WSURLs() {
		model := fmt.Sprintf("test/hub-%d", n+1)
		m.PutModel(t, model)
		engine := fakeengine.New(t)
		engine.Script(model, fakeengine.Behaviour{})
		p := m.JoinAt(t, hub, fmt.Sprintf("only-on-hub-%d", n+1), engine.URL, model)
		for _, base := range m.Bases() {
			status, header, body := m.Through(base).Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
			switch {
			case status != http.StatusOK:
				t.Errorf("%s through %s: status: got %d, want 200 (body is %s)", model, base, status, body)
			case header.Get("X-Svc-Provider-Id") != p.ID:
				t.Errorf(`%s through %s: header.Get("X-Svc-Provider-Id"): got %q, want %q (body is %s)`, model, base,
					header.Get("X-Svc-Provider-Id"), p.ID, body)
			case header.Get("X-Svc-Attempts") != "1":
				t.Errorf(`%s through %s: header.Get("X-Svc-Attempts"): got %q, want "1" (body is %s)`, model, base,
					header.Get("X-Svc-Attempts"), body)
			}
		}
	}
}

func TestARollingRestartFailsNoRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute long")
	}
	t.Parallel() // it has a marketplace of its own
	m := trial.StartFleet(t)
	var names []string
	for _, service := range fleet.Services() {
		names = append(names, m.Fleet().Replicas(service)...)
	}
	noRequestFailsWhileTheyRestart(t, m, names...)
}

func TestGatewayHubAndRouterInOneProcessServeAsThreeDo(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute long")
	}
	t.Parallel() // it has a marketplace of its own
	m := trial.StartFleet(t, func(c *fleet.Config) { c.Grouped = true })
	f := m.Fleet()
	for _, service := range []string{fleet.Gateway, fleet.Router} {
		if got, want := fmt.Sprint(f.Replicas(service)), fmt.Sprint(f.Replicas(fleet.Hub)); got != want {
			t.Errorf("processes that run %s: got %s, want %s", service, got, want)
		}
	}
	if got := len(m.Bases()); got != 2 {
		t.Fatalf("gateways: got %d, want 2", got)
	}
	everyGatewayReachesEveryHub(t, m)
	noRequestFailsWhileTheyRestart(t, m, f.Replicas(fleet.Hub)...)
}

// noRequestFailsWhileTheyRestart restarts processes one after the other while requests come
// through every gateway.
func noRequestFailsWhileTheyRestart(t *testing.T, m *trial.Market, names ...string) {
	t.Helper()
	f := m.Fleet()
	const model = "test/rolling"
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	// The engine sets the pace, about forty requests a second, because callers without a pace would
	// take the processor from the restarts and from the tests beside this one.
	engine.Script(model, fakeengine.Behaviour{Tokens: fakeengine.Words(12), BeforeToken: pulse(t, 2*time.Millisecond)})
	for n, hub := range m.WSURLs() {
		m.JoinAt(t, hub, fmt.Sprintf("steady-%d", n+1), engine.URL, model)
	}
	account, key := m.Consumer(t, "100")
	m.Unlimit(t, account)
	load := m.StartLoad(t, key, model, 32)
	for _, name := range names {
		before, failed := load.Answered(), load.Failed()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		began := time.Now()
		err := f.Roll(ctx, name)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		trial.Until(t, "answers go on after the restart of "+name, func() bool {
			return load.Answered() > before+100 ||
				load.Failed() > failed+20
		})
		t.Logf("%s in %v: %d answered, %d failed", name, time.Since(began).Round(time.Millisecond), load.Answered()-before,
			load.Failed()-failed)
	}
	answered, failed, failures := load.Stop()
	t.Logf("%d requests answered, %d failed", answered, failed)
	if failed > 0 {
		t.Errorf("requests failed: got %d, want 0", failed)
		for _, failure := range failures {
			t.Error(failure)
		}
	}
	m.NothingHeld(t, account)
	m.Balanced(t)
}

// pulse releases one token after the other, at a pace that all streams of an engine
// share.
func pulse(t *testing.T, every time.Duration) <-chan struct{} {
	t.Helper()
	leave := make(chan struct{})
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-t.Context().Done():
				return
			}
			select {
			case leave <- struct{}{}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return leave
}
