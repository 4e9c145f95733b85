//go:build watch

package watch

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

// lively has users and owners do what a quiet market does not: they deposit, are paid, ask for letters and events, make
// the same call twice, and ask for what no provider can answer. A day ends meanwhile, on which holds expire. Then they
// do what seldom happens (rare_test.go).
func lively(t *testing.T, town *trial.Town, s *server) {
	o := town.NewOwner(t, "ann", 0xa1)
	o.Deposit(t, paychain.Dollars, 20)
	takesOver(t, town, o)
	o.WaitStatus(t, "active")
	engine := o.ServeAt(t, trial.Dear, 10_000, 100_000)
	o.Earn(t, 60)
	asksTwice(t, town)
	hearsOfEvents(t, town, o)
	consumes(t, town, o)
	fails(t, town, engine)
	town.Pass(t, 24*time.Hour)
	o.Payable(t)
	o.Confirmed(t, o.Ask(t, "12", "first"))
	rarely(t, town, s, o, engine)
}

// asksTwice makes a request with an Idempotency-Key twice.
func asksTwice(t *testing.T, town *trial.Town) {
	t.Helper()
	_, key := town.Consumer(t, "1000")
	for range 2 {
		town.Wants(t, http.StatusOK, http.MethodPost, trial.ChatPath, key, trial.Chat(trial.Dear, ""), "Idempotency-Key",
			"twice")
	}
}

// takesOver has an agent of the demo be the owner's, with the demo's engine, so that a reference judges it. The demo's
// provider has no agent from then on.
func takesOver(t *testing.T, town *trial.Town, o *trial.Owner) {
	t.Helper()
	f := town.Fleet()
	name := f.Replicas(fleet.Agent)[0]
	if err := f.Kill(name); err != nil {
		t.Fatal(err)
	}
	if err := f.Equip(name, o.Key, []fleet.Offer{{ModelID: town.Model(), EngineURL: f.EngineURL(), LocalModel: "tinylm-1",
		ContextLength: 4096, Capacity: 16}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// does makes a call that succeeds.
func does(t *testing.T, town *trial.Town, path, key, body string) map[string]any {
	t.Helper()
	status, _, answer := town.Call(t, http.MethodPost, path, key, body)
	if status/100 != 2 {
		t.Fatalf("POST %s: got %d %s, want success", path, status, answer)
	}
	return trial.Decode(t, answer)
}

// fails has the engine refuse a request, so that what was held for it is released.
func fails(t *testing.T, town *trial.Town, engine *fakeengine.Engine) {
	t.Helper()
	engine.Script(trial.Dear, fakeengine.Behaviour{Status: http.StatusInternalServerError})
	_, key := town.Consumer(t, "1000")
	status, _, body := town.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(trial.Dear, ""))
	if status < http.StatusInternalServerError {
		t.Errorf("a request that the engine refuses: got %d %s, want 500 or more", status, body)
	}
}

// hearsOfEvents gives the owner an endpoint for events, and a letter.
func hearsOfEvents(t *testing.T, town *trial.Town, o *trial.Owner) {
	t.Helper()
	heard := make(chan struct{}, 100)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		heard <- struct{}{}
	}))
	t.Cleanup(endpoint.Close)
	made := does(t, town, "/api/v1/user/me/webhooks", o.Token, `{"url":"`+endpoint.URL+`"}`)
	does(t, town, "/api/v1/user/me/webhooks/"+trial.Text(t, made, "webhook", "webhook_id")+"/test", o.Token, "")
	select {
	case <-heard:
	case <-time.After(trial.Patience):
		t.Error("events at an endpoint: got none, want one")
	}
	does(t, town, "/api/v1/user/password/forgot", "", `{"email":"`+o.Name+`@example.org"}`)
}

// consumes has the owner, as a consumer, deposit.
func consumes(t *testing.T, town *trial.Town, o *trial.Owner) {
	t.Helper()
	at := depositAddress(t, town, o, paychain.Dollars)
	o.Send(t, paychain.Dollars, devchain.USD, nil, transferOf(t, at, 500_000_000))
	waitCredited(t, town, o)
}
