package engine

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/config"
)

// paths is an engine that answers each path with a text, and anything else with
// 404; the test may change it between probes.
type paths struct {
	mu     sync.Mutex
	texts  map[string]string
	asked  map[string]int
	bodies []string
	key    string
	before map[string]func() // what is done when a path is asked for
	status map[string]int    // answered instead of a text
}

func newPaths(t *testing.T, texts map[string]string) (*paths, *Pool) {
	t.Helper()
	p := &paths{texts: texts, asked: map[string]int{}}
	if texts["/v1/models"] == "" {
		texts["/v1/models"] = `{"object":"list","data":[{"id":"local"}]}`
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return p, New(Config{}, []Target{{ModelID: "m", URL: server.URL + "/v1", LocalModel: "local", Capacity: 4,
		APIKey: config.NewSecret("k")}}, slog.New(slog.DiscardHandler))
}

func (p *paths) set(path, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts[path] = text
}

func (p *paths) onAsked(path string, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = map[string]func(){path: do}
}

// fails has a path answer a status; 0 has it answer its text again.
func (p *paths) fails(path string, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = map[string]int{path: status}
}

func (p *paths) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a test sees what is missing
	p.mu.Lock()
	p.asked[r.URL.Path]++
	p.bodies = append(p.bodies, r.URL.Path+" "+string(body))
	p.key = r.Header.Get("Authorization")
	text, ok := p.texts[r.URL.Path]
	before, status := p.before[r.URL.Path], p.status[r.URL.Path]
	p.mu.Unlock()
	if before != nil {
		before()
	}
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, text) // the agent may have left
}

const vllmMetrics = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a} b"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 2.0
vllm:num_requests_waiting{engine="0",model_name="a"} 7.0 1795231432000
vllm:num_requests_waiting_by_reason{reason="capacity"} 50.0
`

func TestEnginesTellTheirLoad(t *testing.T) {
	for name, c := range map[string]struct {
		text            string
		active, waiting int
	}{
		"vLLM":      {vllmMetrics, 5, 7},
		"SGLang":    {"sglang:num_running_reqs{model_name=\"m\"} 4\nsglang:num_queue_reqs{model_name=\"m\"} 1\n", 4, 1},
		"llama.cpp": {"llamacpp:requests_processing 2\nllamacpp:requests_deferred 9\n", 2, 9},
		"nonsense": {
			"vllm:num_requests_running NaN\nvllm:num_requests_waiting -3\nvllm:num_requests_running{ 4\n" +
				"vllm:num_requests_running\n", 0, 0},
		"too much": {"vllm:num_requests_running 1e300\nvllm:num_requests_running +Inf\nvllm:num_requests_waiting 5\n",
			maxCount, 5},
		"no text": {"<html>", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, pool := newPaths(t, map[string]string{"/metrics": c.text})
			pool.Probe(t.Context())
			if active, waiting := pool.Load(); active != c.active {
				t.Errorf("%d are under way, %d wait: active: got %d, want %d", active, waiting, active, c.active)
			} else if waiting != c.waiting {
				t.Errorf("%d are under way, %d wait: waiting: got %d, want %d", active, waiting, waiting, c.waiting)
			}
		})
	}
}

func TestEngineWithoutMetricsIsSeldomAsked(t *testing.T) {
	engine, pool := newPaths(t, map[string]string{})
	for range withoutMetrics + 1 {
		pool.Probe(t.Context())
	}
	if n := engine.count("/metrics"); n != 1 {
		t.Errorf("it was asked: got %d, want 1", n)
	}
	engine.set("/metrics", vllmMetrics)
	pool.Probe(t.Context())
	if active, _ := pool.Load(); active != 5 {
		t.Errorf("under way once it tells: got %d, want 5", active)
	}
	engine.set("/v1/models", "broken")
	pool.Probe(t.Context())
	if active, waiting := pool.Load(); active != 0 {
		t.Errorf("of an engine that is gone: got %d, want 0", active)
	} else if waiting != 0 {
		t.Errorf("waiting: got %d, want 0", waiting)
	}
}

func TestRequestsOfTheAgentCountWhereTheEngineDoesNotTell(t *testing.T) {
	engine, pool := newPaths(t, map[string]string{"/v1/chat/completions": "{}"})
	pool.Probe(t.Context())
	seen := make(chan int, 1)
	body := []byte(`{"model":"m"}`)
	answer := pool.Forward(t.Context(), Request{ModelID: "m", Body: body, ModelOffset: 9, ModelLength: 3},
		writerFunc(func(p []byte) (int, error) {
			active, _ := pool.Load()
			seen <- active
			return len(p), nil
		}))
	if n := <-seen; n != 1 {
		t.Errorf("n: got %d, want 1", n)
	} else if answer.Err != nil {
		t.Errorf("answer.Err: got the error %v, want none", answer.Err)
	}
	if active, _ := pool.Load(); active != 0 {
		t.Errorf("under way behind it: active: got %d, want 0", active)
	} else if got := engine.count("/v1/chat/completions"); got != 1 {
		t.Errorf(`behind it %d are under way: engine.count("/v1/chat/completions"): got %d, want 1`, active, got)
	}
}

func TestOwnRequestsThatHaveEndedAreNotThoseOfOthers(t *testing.T) {
	engine, pool := newPaths(t, map[string]string{"/metrics": "vllm:num_requests_running 5\n"})
	target := pool.targets["m"]
	ends := []func(){pool.forwarding(target), pool.forwarding(target), pool.forwarding(target)}
	engine.onAsked("/metrics", func() { // one begins while the engine counts, and two end
		ends = append(ends, pool.forwarding(target))
		ends[0]()
		ends[1]()
		ends = ends[2:]
	})
	pool.Probe(t.Context())
	if active, _ := pool.Load(); active != 2+1 {
		t.Errorf("under way beside two of its own: got %d, want 2+1", active)
	}
	for _, end := range ends {
		end()
	}
	if active, _ := pool.Load(); active != 1 {
		t.Errorf("under way behind the last of its own: got %d, want 1", active)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestKindsOfEnginesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		texts map[string]string
		want  string
	}{
		"SGLang":            {map[string]string{"/get_server_args": `{"model_path":"x"}`}, "sglang"},
		"vLLM that says so": {map[string]string{"/version": `{"version":"vLLM 0.11"}`}, "vllm"},
		"vLLM as it comes": {map[string]string{"/version": `{"version":"0.11.0"}`,
			"/v1/models": `{"object":"list","data":[{"id":"local","owned_by":"vllm"}]}`}, "vllm"},
		"llama.cpp": {
			map[string]string{"/v1/models": `{"object":"list","data":[{"id":"local","owned_by":"llamacpp"}]}`,
				"/api/tags": `{"models":[{"name":"local"}]}`}, "llamacpp"},
		"Ollama": {map[string]string{"/api/tags": `{"models":[]}`, "/version": `{"version":"0.17"}`},
			"ollama"},
		"something": {map[string]string{"/version": `{"version":"1"}`}, "unknown"},
		"a page for every path": {map[string]string{"/get_server_args": "<html>", "/version": "<html>",
			"/api/tags": "<html>"}, "unknown"},
		"an engine that is not there": {map[string]string{"/v1/models": "broken", "/api/tags": `{"models":[]}`}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			engine, pool := newPaths(t, c.texts)
			for range 3 {
				pool.Probe(t.Context())
			}
			if got := pool.Kind(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if n := engine.count("/get_server_args"); n > 1 {
				t.Errorf("it was asked: got %d, want at most 1", n)
			}
		})
	}
}

func TestEngineIsRecognisedOnlyByDefiniteAnswers(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		for path := range map[string]bool{"/get_server_args": true, "/version": true, "/api/tags": true} {
			engine, pool := newPaths(t, map[string]string{"/api/tags": `{"models":[]}`})
			engine.fails(path, status)
			for range 3 {
				pool.Probe(t.Context())
			}
			if got := pool.Kind(); got != "unknown" {
				t.Errorf(`%s answers %d: pool.Kind(): got %q, want "unknown"`, path, status, got)
			} else if engine.count(path) != 3 {
				t.Errorf("%s answers %d: engine.count(path): got %d, want 3", path, status, engine.count(path))
			}
			engine.fails(path, 0)
			pool.Probe(t.Context())
			if got := pool.Kind(); got != "ollama" {
				t.Errorf(`%s has answered %d: it stays: got %q, want "ollama"`, path, status, got)
			}
		}
	}
	engine, pool := newPaths(t, map[string]string{"/api/tags": `{"models":[]}`})
	engine.fails("/get_server_args", http.StatusMethodNotAllowed)
	pool.Probe(t.Context())
	if got := pool.Kind(); got != "ollama" {
		t.Errorf(`405 is an answer: got %q, want "ollama"`, got)
	}
}

func TestEngineThatCameBackIsRecognisedAnew(t *testing.T) {
	engine, pool := newPaths(t, map[string]string{"/api/tags": `{"models":[]}`})
	pool.Probe(t.Context())
	engine.set("/v1/models", "broken")
	pool.Probe(t.Context())
	if got := pool.Kind(); got != "ollama" {
		t.Errorf(`while it is away: got %q, want "ollama"`, got)
	}
	engine.set("/v1/models", `{"object":"list","data":[{"id":"local"}]}`)
	engine.set("/get_server_args", `{"model_path":"x"}`)
	pool.Probe(t.Context())
	if got := pool.Kind(); got != "sglang" {
		t.Errorf(`then: got %q, want "sglang"`, got)
	}
}

func TestWarmUpAsksForOneToken(t *testing.T) {
	engine, pool := newPaths(t, map[string]string{"/v1/chat/completions": "{}", "/api/tags": `{"models":[]}`})
	pool.Probe(t.Context())
	engine.bodies = nil
	if err := pool.Warm(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`/v1/chat/completions {"model":"local","messages":[{"role":"user","content":"Hi"}],"max_tokens":1,"stream":false}`,
		`/api/generate {"model":"local","keep_alive":"30m","stream":false}`, // its 404 does no harm
	}
	if got := strings.Join(engine.bodies, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the engine is asked: got %q, want %q", got, strings.Join(want, "\n"))
	} else if engine.key != "Bearer k" {
		t.Errorf(`engine.key: got %q, want "Bearer k"`, engine.key)
	}
	_, pool = newPaths(t, map[string]string{})
	if err := pool.Warm(t.Context(), "m"); err == nil {
		t.Error("without the model: got no error, want one")
	} else if err.Error() != "the engine answers 404" {
		t.Errorf(`without the model: got the error %q, want "the engine answers 404"`, err)
	}
	if err := pool.Warm(t.Context(), "other"); err == nil {
		t.Error("a model that is not served is warm")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := pool.Warm(ended, "m"); err == nil {
		t.Error("it is warm behind its time")
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add(vllmMetrics)
	f.Add("a{ 1\nb} 2\n{} 3\n 4\nvllm:num_requests_running 1e400")
	f.Fuzz(func(t *testing.T, text string) {
		running, waiting, told := parseMetrics(strings.NewReader(text))
		switch {
		case running < 0:
			t.Fatalf("%d %d %v: running: got %d, want at least 0", running, waiting, told, running)
		case waiting < 0:
			t.Fatalf("%d %d %v: waiting: got %d, want at least 0", running, waiting, told, waiting)
		case running > maxCount:
			t.Fatalf("%d %d %v: running: got %d, want at most %d", running, waiting, told, running, maxCount)
		case waiting > maxCount:
			t.Fatalf("%d %d %v: waiting: got %d, want at most %d", running, waiting, told, waiting, maxCount)
		case !told && running+waiting > 0:
			t.Fatalf("%d %d %v: running+waiting: got %d, want 0, where !told", running, waiting, told, running+waiting)
		}
	})
}
