package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// poison is in the prompts that the engine of this test fails on.
const poison = "poison"

// touchyEngine is a good engine that answers 500 to prompts with poison, and to all
// prompts once it is broken.
func touchyEngine(t *testing.T, model string) (engineURL string, broken *atomic.Bool) {
	t.Helper()
	good := fakeengine.New(t)
	good.Script(model, fakeengine.Behaviour{})
	target, err := url.Parse(good.URL)
	if err != nil {
		t.Fatal(err)
	}
	broken = &atomic.Bool{}
	forward := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || broken.Load() || bytes.Contains(body, []byte(poison)) {
			http.Error(w, "CUDA error", http.StatusInternalServerError)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, broken
}

// customer is a consumer account with enough credit and no limits.
func customer(t *testing.T, m *trial.Market) (key string) {
	t.Helper()
	account, key := m.Consumer(t, "1")
	m.Unlimit(t, account)
	return key
}

func poisoned(model string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"` + poison + `"}]}`
}

// failing sends requests that the engine fails on, and checks that each fails.
func failing(t *testing.T, m *trial.Market, key, model string, requests int) {
	t.Helper()
	for i := range requests {
		if status, _, answer := m.Call(t, http.MethodPost, trial.ChatPath, key,
			poisoned(model)); status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
			t.Fatalf("poisoned request %d: got %d %s, want a failure", i+1, status, answer)
		}
	}
}

// A consumer can make its own requests fail on any engine, and must not thereby take the
// engine from others.
func TestFailingRequestsOfOneAccountTakeNothingFromAnother(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const model = "test/touchy"
	m.PutModel(t, model)
	engine, _ := touchyEngine(t, model)
	m.JoinWarm(t, "one", engine, model)
	attacker, victim := customer(t, m), customer(t, m)
	for _, requests := range []int{5, 50} {
		failing(t, m, attacker, model, requests)
		for range 20 { // longer than a router takes to hear of the failures
			status, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, victim, trial.Chat(model, ""))
			if status != http.StatusOK || header.Get("X-Svc-Attempts") != "1" {
				t.Fatalf("after %d failing requests of another account: got %d in %s attempts: %s; want 200 in 1",
					requests, status, header.Get("X-Svc-Attempts"), answer)
			}
		}
	}
	// Without a success between them, the failures of three accounts are enough.
	for range 3 {
		failing(t, m, customer(t, m), model, 1)
	}
	trial.Until(t, "the failures of three accounts open the breaker", func() bool {
		status, _, answer := m.Call(t, http.MethodPost, trial.ChatPath, attacker, poisoned(model))
		return status == http.StatusServiceUnavailable && trial.ErrorCode(answer) == "no_provider_online"
	})
	trial.Until(t, "what the breaker kept away is served after its rest", func() bool {
		status, _, _ := m.Call(t, http.MethodPost, trial.ChatPath, victim, trial.Chat(model, ""))
		return status == http.StatusOK
	})
}

// A single account is enough for the platform to probe by itself.
func TestAnEngineThatFailsEverythingIsFoundByTheWarmUpThatOneAccountsFailuresAskFor(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const model = "test/broken-down"
	m.PutModel(t, model)
	engine, broken := touchyEngine(t, model)
	m.JoinWarm(t, "one", engine, model)
	key := customer(t, m)
	if status, _, answer := m.Call(t, http.MethodPost, trial.ChatPath, key,
		trial.Chat(model, "")); status != http.StatusOK {
		t.Fatalf("before the engine breaks: got %d %s, want 200", status, answer)
	}
	broken.Store(true)
	trial.Until(t, "the warm-up that failed opens the breaker", func() bool {
		_, _, answer := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
		return trial.ErrorCode(answer) == "no_provider_online"
	})
	broken.Store(false)
	trial.Until(t, "an engine that is well again is served from", func() bool {
		status, _, _ := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
		return status == http.StatusOK
	})
}

func TestAnAccountWhoseRequestsAllFailGetsOneAttemptForEach(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const model, providers, perMinute = "test/thrice", 3, 60
	m.PutModel(t, model)
	engine, _ := touchyEngine(t, model)
	for _, name := range []string{"one", "two", "three"} {
		m.Join(t, name, engine, model)
	}
	attacker, other := customer(t, m), customer(t, m)
	attempts := 0
	for range 2 * perMinute {
		_, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, attacker, poisoned(model))
		switch header.Get("X-Svc-Attempts") {
		case "3":
			attempts += providers
			continue
		case "1":
		default:
			t.Fatalf("got %s attempts: %s; want 3 or 1", header.Get("X-Svc-Attempts"), answer)
		}
		break
	}
	// One or two requests' events may be on their way to the router.
	if attempts < perMinute || attempts > 2*perMinute {
		t.Errorf("got %d failed attempts before retries ended, want about %d", attempts, perMinute)
	}
	if _, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, other, poisoned(model)); header.Get(
		"X-Svc-Attempts") != "3" {
		t.Errorf("another account: got %s attempts: %s; want 3", header.Get("X-Svc-Attempts"), answer)
	}
}
