package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// market are the holes by which one party stops the market for all.
func market() []Case {
	return []Case{
		{Hole: "F7", Name: "failures_of_one_open_the_breaker", Before: "five free failures, 503 for everybody",
			Run: openTheBreaker},
		{Hole: "R1", Name: "settlement_stands_still", Before: "no request served once the journal is full", Form: fleetForm,
			Alone: true, Run: withoutSettlement},
		{Hole: "X1", Name: "suspended_in_flight", Before: "the request fails, the provider is unpaid", Run: suspended},
		{Hole: "X9", Name: "past_its_end", Before: "served", Run: deprecated},
		{Hole: "X11", Name: "error_after_a_fallback", Before: "no reason", Run: fallbackReason},
	}
}

func openTheBreaker(t testing.TB, s *stage) Outcome {
	const poisons = 12
	id := s.put(t, model{})
	healthy := fakeengine.New(t)
	healthy.Script(id, fakeengine.Behaviour{})
	engine := httptest.NewServer(poisoned(healthy))
	t.Cleanup(engine.Close)
	s.Join(t, s.title(), engine.URL, id)
	attacker, key := s.caller(t)
	_, other := s.caller(t)
	poison := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"poison"}],"max_tokens":8}`, id)
	for range poisons {
		if r := s.chat(t, key, poison); r.status == http.StatusOK {
			t.Fatal("the engine served the poison: got 200, want any but 200")
		}
	}
	refused := 0
	for range 10 {
		if r := s.chat(t, other, trial.Chat(id, `,"max_tokens":8`)); r.status != http.StatusOK {
			refused++
		}
	}
	if refused > 0 {
		t.Errorf("got %d of 10 requests of others refused after %d failures of one account, want none", refused, poisons)
	}
	return Outcome{Got: fmt.Sprintf("%d failures", poisons), Paid: fmt.Sprintf("%d nano-USD", s.spent(t, attacker)),
		Harm: fmt.Sprintf("%d of 10 of others refused", refused)}
}

// poisoned fails requests with the word poison, and passes the rest to an engine.
func poisoned(engine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), "poison") {
			http.Error(w, `{"error":{"message":"CUDA error","type":"server_error"}}`, http.StatusInternalServerError)
			return
		}
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(strings.NewReader(string(body)))
		engine.ServeHTTP(w, again)
	})
}

// withoutSettlement kills every settlement, asks, and starts them again.
func withoutSettlement(t testing.TB, s *stage) Outcome {
	const requests = 300
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	f := s.Fleet()
	for _, name := range f.Replicas(fleet.Settlement) {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	failed := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range requests / 8 {
				if r := s.chat(t, key, trial.Chat(id, `,"max_tokens":8`)); r.status != http.StatusOK {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if failed > 0 {
		t.Errorf("got %d of %d requests failed without settlement, want none", failed, requests)
	}
	// A hub keeps in its journal the usage that it waits for, and the journal is bounded.
	waits, deadline := s.unsettled(t), time.Now().Add(trial.Patience)
	for waits != 0 && time.Now().Before(deadline) {
		pass(t, 100*time.Millisecond)
		waits = s.unsettled(t)
	}
	if waits != 0 {
		t.Errorf("got hubs that keep the usage of %d requests without settlement, want none of what the ledger has settled",
			waits)
	}
	for _, name := range f.Replicas(fleet.Settlement) {
		if err := f.Launch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WaitReady(t.Context(), f.Replicas(fleet.Settlement)...); err != nil {
		t.Fatal(err)
	}
	var report map[string]any
	trial.Until(t, "settlement's lines equal the ledger's accruals", func() bool {
		status, _, body := trial.CallAt(t, s.Bases()[0], http.MethodGet, "/api/v1/requests/none", key, "")
		if status == 0 || len(body) == 0 {
			return false
		}
		report = s.Reconciliation(t)
		return report["equal"] == true
	})
	return Outcome{Got: fmt.Sprintf("%d requests served without settlement", requests-failed), Paid: "in full",
		Harm: fmt.Sprintf("%d failed; lines equal accruals", failed)}
}

// unsettledGauge is how many requests' usage a hub keeps until it is settled.
var unsettledGauge = regexp.MustCompile(`(?m)^svc_provider_hub_unsettled(?:\{[^}]*\})? (\d+)$`)

// unsettled is its sum over all hubs of a fleet.
func (s *stage) unsettled(t testing.TB) int {
	t.Helper()
	found := unsettledGauge.FindAllStringSubmatch(s.metrics(t, fleetHub), -1)
	if hubs := len(s.Fleet().Replicas(fleet.Hub)); len(found) != hubs {
		t.Errorf("got %d gauges of unsettled usage of %d hubs: got %d, want %d", len(found), hubs, len(found), hubs)
	}
	sum := 0
	for _, gauge := range found {
		n, _ := strconv.Atoi(gauge[1])
		sum += n
	}
	return sum
}

// suspended is a provider that an operator suspends while it serves.
func suspended(t testing.TB, s *stage) Outcome {
	const said = 6
	gate := make(chan struct{}, said)
	gate <- struct{}{}
	id, engine, p := s.served(t, model{}, fakeengine.Behaviour{Tokens: fakeengine.Words(said), BeforeToken: gate})
	_, key := s.caller(t)
	resp := s.Open(t.Context(), t, key, trial.Chat(id, `,"stream":true,"max_tokens":64`))
	defer resp.Body.Close()
	s.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/status",
		`{"status":"PROVIDER_STATUS_SUSPENDED","reason":"attack"}`)
	pass(t, time.Second)
	close(gate)
	body, err := io.ReadAll(resp.Body)
	r := read(resp.StatusCode, resp.Header, body)
	b := s.bill(t, key, resp.Header.Get(trial.RequestIDHeader))
	if err != nil || r.failed || r.words() != said || b.completion != said {
		t.Errorf("in flight: got %d of %d tokens (%v), billed %v, want all of them, paid", r.words(), said, err, b)
	}
	// The hub with the session notices within 5 s, and then the routers do.
	trial.UntilWithin(t, 10*time.Second, "every replica has taken the provider out of routing", func() bool {
		for range 8 {
			if s.Offers(t, id, p.ID) {
				return false
			}
		}
		return true
	})
	before := len(engine.Requests())
	if next := s.chat(t, key, trial.Chat(id, "")); next.status == http.StatusOK || len(engine.Requests()) != before {
		t.Errorf("after it: got %d, want no new request at a suspended provider", next.status)
	}
	return Outcome{Got: fmt.Sprintf("%d of %d tokens", r.words(), said), Paid: b.String(),
		Harm: short(p) + " paid for what was in flight"}
}

// deprecated is a model that has reached its end.
func deprecated(t testing.TB, s *stage) Outcome {
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.Env["SVC_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	// An end cannot be announced for the past, so time has passed.
	ended := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	if _, err := conn.Exec(ctx, `UPDATE catalog.model SET deprecated_at = $2 WHERE model_id = $1`, id, ended); err != nil {
		t.Skipf("the catalog keeps its models elsewhere: %v", err)
	}
	s.Admin(t, http.MethodPut, "/api/v1/admin/models/"+id,
		`{"name":"Ended","input_price":"1","output_price":"3","payout_input_price":"0.9",
		"payout_output_price":"2.7","context_length":8192,"max_output_tokens":1024,"capabilities":["chat"],"deprecated_at":"`+
			ended.Format(time.RFC3339)+`"}`)
	var r reply
	seen := 0
	deadline := time.Now().Add(trial.Patience)
	for seen < 6 && time.Now().Before(deadline) {
		if r = s.chat(t, key, trial.Chat(id, "")); trial.ErrorCode([]byte(r.body)) == "model_not_found" {
			seen++
			continue
		}
		seen = 0
		pass(t, 50*time.Millisecond)
	}
	if r.status != http.StatusNotFound {
		t.Errorf("got %d of a model whose end has come, want 404 model_not_found", r.status)
	}
	return Outcome{Got: fmt.Sprint(r.status), Paid: "nothing", Harm: "none"}
}

// fallbackReason is an error of a request that was pinned and fell back.
func fallbackReason(t testing.TB, s *stage) Outcome {
	id, _, first := s.served(t, model{}, fakeengine.Behaviour{Status: http.StatusServiceUnavailable})
	failing := fakeengine.New(t)
	failing.Script(id, fakeengine.Behaviour{Status: http.StatusServiceUnavailable})
	s.Join(t, s.title(), failing.URL, id)
	_, key := s.caller(t)
	r := s.chat(t, key, trial.Chat(id, ""), "X-Svc-Provider", first.ID)
	reason := r.header.Get("X-Svc-Fallback-Reason")
	if r.status != http.StatusBadGateway || reason == "" {
		t.Errorf("got %d with reason %q, want 502 with the reason of the fallback", r.status, reason)
	}
	return Outcome{Got: fmt.Sprintf("%d, reason %q", r.status, reason), Paid: "nothing", Harm: "none"}
}
