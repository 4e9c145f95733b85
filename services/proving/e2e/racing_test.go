package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// race makes one whole request for each of n callers at once, over all gateways in turn,
// and returns the statuses as they come.
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

// racers is how many callers race at once, and for what.
type racers struct {
	*trial.Market
	callers int
}

// ground is a fleet of three gateways and three ledgers, with a thousand callers; under
// -short the fleet that all tests share, with forty.
func ground(t *testing.T) racers {
	t.Helper()
	if testing.Short() {
		return racers{trial.Shared(t), 40}
	}
	return racers{trial.StartFleet(t, func(c *fleet.Config) {
		c.Replicas = map[string]int{fleet.Gateway: 3, fleet.Billing: 3, fleet.Hub: 1, fleet.Router: 1, fleet.Catalog: 1,
			fleet.Signer: 1, fleet.Settlement: 1, fleet.Verifier: 1, fleet.Agent: 1}
	}), 1000}
}

func TestRacingCallersExceedNoLimitByOne(t *testing.T) {
	r := ground(t)
	t.Run("concurrency", func(t *testing.T) { racingForConcurrency(t, r.Market, r.callers) })
	t.Run("credit", func(t *testing.T) { racingForCredit(t, r.Market, r.callers) })
	t.Run("plan", func(t *testing.T) { racingForAPlan(t, r.Market, r.callers) })
	r.Balanced(t)
}

func racingForConcurrency(t *testing.T, m *trial.Market, callers int) {
	const model, limit = "test/concurrency", 5
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	gate := make(chan struct{})
	engine.Script(model, fakeengine.Behaviour{BeforeFirstByte: gate})
	m.Join(t, "roomy", engine.URL, model)
	account, key := m.Consumer(t, "10")
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits",
		fmt.Sprintf(`{"requests_per_minute":-1,"concurrent_requests":%d}`, limit))
	statuses := race(t, m, callers, key, trial.Chat(model, ""))
	if refused := count(t, statuses, callers-limit); refused[http.StatusTooManyRequests] != callers-limit {
		t.Errorf("beside the %d that may run: got %d, want %d", limit, refused[http.StatusTooManyRequests], callers-limit)
	}
	close(gate)
	if served := count(t, statuses, limit); served[http.StatusOK] != limit {
		t.Errorf("of the %d that may run, %v: got %d, want %d", limit, served, served[http.StatusOK], limit)
	}
	if n := len(engine.Requests()); n != limit {
		t.Errorf("requests that reached the engine, as many as were allowed: got %d, want %d", n, limit)
	}
	m.NothingHeld(t, account)
}

func racingForCredit(t *testing.T, m *trial.Market, callers int) {
	const model, affordable = "test/credit", 7
	body := trial.Chat(model, `,"max_tokens":10`)
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	gate := make(chan struct{})
	engine.Script(model, fakeengine.Behaviour{BeforeFirstByte: gate})
	m.Join(t, "dear", engine.URL, model)
	// The hold of one request is seen on an account that has enough.
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
		t.Errorf("beside the %d that are paid: got %d, want %d", affordable, refused[http.StatusPaymentRequired],
			callers-affordable)
	}
	close(gate)
	if served := count(t, statuses, affordable); served[http.StatusOK] != affordable {
		t.Errorf("served[http.StatusOK]: got %d, want %d", served[http.StatusOK], affordable)
	}
	if served := count(t, first, 1); served[http.StatusOK] != 1 {
		t.Errorf("the first: got %d, want 1", served[http.StatusOK])
	}
	if n := len(engine.Requests()); n != affordable+1 {
		t.Errorf("requests that reached the engine, as many as were paid for: got %d, want %d", n, affordable+1)
	}
	m.NothingHeld(t, account)
}

// racingForAPlan has callers whose plan lets eight run at once, and who have no credit
// besides.
func racingForAPlan(t *testing.T, m *trial.Market, callers int) {
	const model, limit = "test/plan", 8
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	gate := make(chan struct{})
	engine.Script(model, fakeengine.Behaviour{BeforeFirstByte: gate})
	m.Join(t, "covered", engine.URL, model)
	account, key := m.Consumer(t, "")
	m.Unlimit(t, account)
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/plan", `{"plan":"pro"}`)
	statuses := race(t, m, callers, key, trial.Chat(model, `,"max_tokens":10`))
	if refused := count(t, statuses, callers-limit); refused[http.StatusTooManyRequests] != callers-limit {
		t.Errorf("beside the %d that may run: got %d, want %d", limit, refused[http.StatusTooManyRequests], callers-limit)
	}
	close(gate)
	if served := count(t, statuses, limit); served[http.StatusOK] != limit {
		t.Errorf("of the %d that may run, %v: got %d, want %d", limit, served, served[http.StatusOK], limit)
	}
	if n := len(engine.Requests()); n != limit {
		t.Errorf("requests that reached the engine, as many as the plan covers at once: got %d, want %d", n, limit)
	}
	// They used what the requests came to, not what was estimated.
	tokens := float64(limit * (fakeengine.PromptTokens + 5))
	var used map[string]any
	trial.Until(t, "the plan has counted them", func() bool {
		used = map[string]any{}
		counters, _ := trial.At(m.Admin(t, http.MethodGet, "/api/v1/admin/accounts/"+account, ""), "account",
			"plan", "counters").([]any)
		for _, c := range counters {
			used[fmt.Sprint(trial.At(c, "kind"), " a ", trial.At(c, "period"))] = trial.At(c, "used")
		}
		return used["tokens a week"] == tokens
	})
	if used["requests a day"] != float64(limit) {
		t.Errorf("the plan counts: got %v, want %v", used["requests a day"], float64(limit))
	}
	if balance, held := m.Balance(t, account); balance != "0.00" {
		t.Errorf(`balance: got %q, want "0.00"`, balance)
	} else if held != "0.00" {
		t.Errorf(`held: got %q, want "0.00"`, held)
	}
}
