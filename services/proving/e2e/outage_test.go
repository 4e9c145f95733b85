package e2e

import (
	"net/http"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// TestNewRequestsAreServedWhileNATSIsAway keeps a fleet without NATS for longer than the
// interval of readiness probes and than a session may stay unconfirmed; with -short, for
// longer than the former only.
func TestNewRequestsAreServedWhileNATSIsAway(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.StartFleet(t)
	m.PutModel(t, "test/outage")
	engine := fakeengine.New(t)
	engine.Script("test/outage", fakeengine.Behaviour{})
	m.Join(t, "steady", engine.URL, "test/outage")
	account, key := m.Consumer(t, "10")
	// More than a minute's requests, and more holds than a key may have requests under
	// way, because their places end with the answers and not with settling.
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits",
		`{"requests_per_minute":-1,"concurrent_requests":0}`)
	f := m.Fleet()
	nats := f.Replicas(fleet.NATS)[0]
	if err := f.Kill(nats); err != nil {
		t.Fatal(err)
	}
	outage := 40 * time.Second
	if testing.Short() {
		outage = 4 * time.Second
	}
	served := 0
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(outage); over != nil; {
		select {
		case <-over:
			over = nil
		case <-ticker.C:
			if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key,
				trial.Chat("test/outage", "")); status != http.StatusOK {
				t.Fatalf("after %d requests: got %d, want 200 (body is %s)", served, status, body)
			}
			served++
		}
	}
	if err := f.Start(t.Context(), nats); err != nil {
		t.Fatal(err)
	}
	// The requests served meanwhile are settled now. That may take a while: hubs publish
	// again what is 30 s old, and a message that NATS had handed to a consumer before
	// comes again after another 30 s.
	trial.UntilWithin(t, 3*trial.Patience, "what was served meanwhile is settled", func() bool {
		_, held := m.Balance(t, account)
		return held == "0.00"
	})
	m.Balanced(t)
	t.Logf("%d requests were served", served)
}
