package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/standalone/internal/fleet"
	"svc.internal/services/standalone/internal/trial"
)

func TestDispatchReachesTheHubThatHoldsTheSession(t *testing.T) {
	m := trial.Shared(t)
	_, key := m.Consumer(t, "1")
	for n, hub := range m.WSURLs() {
		model := fmt.Sprintf("test/hub-%d", n+1)
		m.PutModel(t, model)
		engine := fakeengine.New(t)
		engine.Script(model, fakeengine.Behaviour{})
		p := m.JoinAt(t, hub, fmt.Sprintf("only-on-hub-%d", n+1), engine.URL, model)
		for _, base := range m.Bases() {
			status, header, body := m.Through(base).Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
			if status != http.StatusOK || header.Get("X-Svc-Provider-Id") != p.ID || header.Get("X-Svc-Attempts") != "1" {
				t.Errorf("%s through %s: %d, provider %s, attempts %s: %s", model, base, status,
					header.Get("X-Svc-Provider-Id"), header.Get("X-Svc-Attempts"), body)
			}
		}
	}
}

// race makes one whole request for each of n callers at once, over all gateways
// in turn, and gives the statuses as they come.
func race(t *testing.T, m *trial.Market, n int, key, body string) <-chan int {
	t.Helper()
	statuses := make(chan int, n)
	for i := range n {
		base := m.Bases()[i%len(m.Bases())]
		go func() {
			status, _, _ := trial.CallAt(t, base, http.MethodPost, trial.ChatPath, key, body)
			statuses <- status
		}()
	}
	return statuses
}

// count waits for n statuses.
func count(t *testing.T, statuses <-chan int, n int) map[int]int {
	t.Helper()
	seen := map[int]int{}
	timeout := time.After(trial.Patience)
	for range n {
		select {
		case status := <-statuses:
			seen[status]++
		case <-timeout:
			t.Fatalf("%d of %d callers were answered: %v", len(seen), n, seen)
		}
	}
	return seen
}

func TestRacingCallersNeverExceedConcurrencyByOne(t *testing.T) {
	m := trial.Shared(t)
	const model, callers, limit = "test/concurrency", 40, 5
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	gate := make(chan struct{})
	engine.Script(model, fakeengine.Behaviour{BeforeFirstByte: gate})
	m.Join(t, "roomy", engine.URL, model)
	account, key := m.Consumer(t, "10")
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits", fmt.Sprintf(`{"requests_per_minute":-1,"concurrent_requests":%d}`, limit))
	statuses := race(t, m, callers, key, trial.Chat(model, ""))
	if refused := count(t, statuses, callers-limit); refused[http.StatusTooManyRequests] != callers-limit {
		t.Errorf("beside the %d that may run, %v", limit, refused)
	}
	close(gate)
	if served := count(t, statuses, limit); served[http.StatusOK] != limit {
		t.Errorf("of the %d that may run, %v", limit, served)
	}
	if n := len(engine.Requests()); n != limit {
		t.Errorf("%d requests reached the engine, %d were allowed", n, limit)
	}
	m.NothingHeld(t, account)
}

func TestRacingCallersNeverExceedCreditByOne(t *testing.T) {
	m := trial.Shared(t)
	const model, callers, affordable = "test/credit", 40, 7
	body := trial.Chat(model, `,"max_tokens":10`)
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	gate := make(chan struct{})
	engine.Script(model, fakeengine.Behaviour{BeforeFirstByte: gate})
	m.Join(t, "dear", engine.URL, model)
	// What one request holds is seen on an account that has enough.
	rich, richKey := m.Consumer(t, "10")
	first := race(t, m, 1, richKey, body)
	var hold float64
	trial.Until(t, "the first request holds credit", func() bool {
		_, held := m.Balance(t, rich)
		hold, _ = strconv.ParseFloat(held, 64)
		return hold > 0
	})
	account, key := m.Consumer(t, strconv.FormatFloat(hold*(affordable+0.5), 'f', 9, 64))
	m.Unlimit(t, account)
	statuses := race(t, m, callers, key, body)
	if refused := count(t, statuses, callers-affordable); refused[http.StatusPaymentRequired] != callers-affordable {
		t.Errorf("beside the %d that are paid for, %v", affordable, refused)
	}
	close(gate)
	if served := count(t, statuses, affordable); served[http.StatusOK] != affordable {
		t.Errorf("of the %d that are paid for, %v", affordable, served)
	}
	if served := count(t, first, 1); served[http.StatusOK] != 1 {
		t.Errorf("the first: %v", served)
	}
	if n := len(engine.Requests()); n != affordable+1 {
		t.Errorf("%d requests reached the engine, %d were paid for", n, affordable+1)
	}
	m.NothingHeld(t, account)
}

func TestARollingRestartFailsNoRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute long")
	}
	m := trial.StartFleet(t)
	f := m.Fleet()
	const model = "test/rolling"
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{Tokens: fakeengine.Words(12), BeforeToken: pulse(t, 100*time.Microsecond)})
	for n, hub := range m.WSURLs() {
		m.JoinAt(t, hub, fmt.Sprintf("steady-%d", n+1), engine.URL, model)
	}
	account, key := m.Consumer(t, "100")
	m.Unlimit(t, account)
	load := m.StartLoad(t, key, model, 32)
	for _, service := range fleet.Services() {
		for _, name := range f.Replicas(service) {
			before, failed := load.Answered(), load.Failed()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			began := time.Now()
			err := f.Roll(ctx, name)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			trial.Until(t, "answers go on after the restart of "+name, func() bool { return load.Answered() > before+100 || load.Failed() > failed+20 })
			t.Logf("%s in %v: %d answered, %d failed", name, time.Since(began).Round(time.Millisecond), load.Answered()-before, load.Failed()-failed)
		}
	}
	answered, failed, failures := load.Stop()
	t.Logf("%d requests answered, %d failed", answered, failed)
	if failed > 0 {
		t.Errorf("%d requests failed:", failed)
		for _, failure := range failures {
			t.Error(failure)
		}
	}
	m.NothingHeld(t, account)
	m.Balanced(t)
}

// pulse gives leave for one token after the other, at a pace that all streams
// of an engine share.
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
