package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"svc.internal/pkg/config"
)

// lists is an engine that has only a model list, changed by the test.
type lists struct {
	mu     sync.Mutex
	status int
	body   string
	asked  int
	key    string
}

func (l *lists) set(status int, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status, l.body = status, body
}

func (l *lists) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func (l *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		http.NotFound(w, r) // what it is and how busy it does not tell
		return
	}
	l.asked++
	l.key = r.Header.Get("Authorization")
	if r.URL.Path != "/v1/models" || r.Method != http.MethodGet {
		l.status = http.StatusTeapot
	}
	w.WriteHeader(l.status)
	fmt.Fprint(w, l.body)
}

// inMemory answers requests without a network, so that a bubble's time runs.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	m.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

const listed = `{"data":[{"id":"local","max_model_len":32768},{"id":"big:latest"}]}`

func watched(engine http.Handler, log *bytes.Buffer, targets ...Target) *Pool {
	for i := range targets {
		targets[i].URL = "http://engine.invalid/v1"
	}
	return New(Config{Client: &http.Client{Transport: inMemory{engine}}}, targets, slog.New(slog.NewTextHandler(log, nil)))
}

func TestModelsAreHealthyWhenTheirEngineListsThem(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		local   string
		healthy bool
		context int64
	}{
		"listed":           {200, listed, "local", true, 32768},
		"Ollama's default": {200, listed, "big", true, 0},
		"not listed":       {200, listed, "other", false, 0},
		"lists nothing":    {200, `{"data":[]}`, "local", false, 0},
		"Ollama is empty":  {200, `{"object":"list","data":null}`, "local", false, 0},
		"says nothing":     {200, `{}`, "local", true, 0},
		"has no list":      {404, "not found", "local", true, 0},
		"key refused":      {401, listed, "local", false, 0},
		"still loading":    {503, "loading", "local", false, 0},
		"not JSON":         {200, "<html>", "local", false, 0},
		"too large":        {200, strings.Repeat(" ", maxList) + listed, "local", false, 0},
		"context made up":  {200, `{"data":[{"id":"local","max_model_len":-1}]}`, "local", true, 0},
		"redirects":        {302, "", "local", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &lists{status: c.status, body: c.body}
			p := watched(engine, &bytes.Buffer{}, Target{ModelID: "m", LocalModel: c.local})
			p.Probe(t.Context())
			got := p.States()[0]
			switch {
			case got.Healthy != c.healthy:
				t.Errorf("the state: Healthy: got %t, want %t", got.Healthy, c.healthy)
			case got.ContextLength != c.context:
				t.Errorf("the state: ContextLength: got %d, want %d", got.ContextLength, c.context)
			case (got.Reason == "") != c.healthy:
				t.Errorf(`the state: Reason == "": got %t, want %t`, got.Reason == "", c.healthy)
			}
		})
	}
}

func TestOwnersContextWins(t *testing.T) {
	engine := &lists{status: 200, body: listed}
	p := watched(engine, &bytes.Buffer{}, Target{ModelID: "m", LocalModel: "local", ContextLength: 8192,
		APIKey: config.NewSecret("k")})
	p.Probe(t.Context())
	if got := p.States()[0].ContextLength; got != 8192 {
		t.Errorf("the context: got %d, want 8192", got)
	}
	if engine.key != "Bearer k" {
		t.Errorf(`the engine was asked: got %q, want "Bearer k"`, engine.key)
	}
}

func TestThirdFailureMakesAModelUnhealthyAndOneAnswerHealsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, log := &lists{status: 200, body: listed}, &bytes.Buffer{}
		p := watched(engine, log, Target{ModelID: "a", LocalModel: "local"}, Target{ModelID: "b", LocalModel: "big"})
		p.Probe(t.Context())
		<-p.Changed()
		ctx, cancel := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		watch.Go(func() { p.Watch(ctx) })
		synctest.Wait()
		began := time.Now()
		engine.set(500, "")
		<-p.Changed()
		// The first failure comes with the interval, the others sooner.
		if took := time.Since(began); took != 10*time.Second+2*2*time.Second {
			t.Errorf("unhealthy: got %v, want %v", took, 10*time.Second+2*2*time.Second)
		} else if engine.count() != 4 {
			t.Errorf("engine.count(): got %d, want 4", engine.count())
		}
		for _, s := range p.States() {
			if s.Healthy {
				t.Error("the state: s.Healthy: got true, want false")
			} else if !strings.Contains(s.Reason, "500") {
				t.Errorf(`the state: s.Reason: got %q, want "500" in it`, s.Reason)
			}
		}
		began = time.Now()
		engine.set(200, listed)
		<-p.Changed()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("healthy again: got %v, want %v", took, 2*time.Second)
		}
		before := engine.count()
		<-time.After(time.Minute)
		synctest.Wait()
		if n := engine.count() - before; n != 6 {
			t.Errorf("a healthy engine was probed: got %d, want 6", n)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 2 {
			t.Errorf("two models failed once, the log says it %d times:\n%s", n, log)
		}
		cancel()
		watch.Wait()
	})
}

func TestEngineThatFailsARequestIsProbedAtOnce(t *testing.T) {
	for name, fails := range map[string]func(*http.Request) (*http.Response, error){
		"does not answer": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"breaks off": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK,
				Body: io.NopCloser(iotest.ErrReader(errors.New("connection reset")))}, nil
		},
		"has lost the model": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { probedAtOnce(t, fails) }) })
	}
}

func probedAtOnce(t *testing.T, fails func(*http.Request) (*http.Response, error)) {
	lists := &lists{status: 200, body: listed}
	engine := &switched{up: lists, fails: fails}
	p := New(Config{Client: &http.Client{Transport: engine}},
		[]Target{{ModelID: "m", URL: "http://engine.invalid/v1", LocalModel: "local"}}, slog.New(slog.DiscardHandler))
	p.Probe(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { p.Watch(ctx) })
	synctest.Wait()
	began := time.Now()
	engine.turnOff()
	lists.set(500, "")
	<-p.Changed() // from the first probe
	for range 3 {
		p.Forward(ctx, asking(`{"model":"catalog/m"}`), &bytes.Buffer{})
	}
	<-p.Changed()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("unhealthy: got %v, want at most %v", took, 5*time.Second)
	}
	cancel()
	watch.Wait()
}

// switched is an engine that fails requests from when it is turned off.
type switched struct {
	up    http.Handler
	fails func(*http.Request) (*http.Response, error)
	mu    sync.Mutex
	off   bool
}

func (s *switched) turnOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
}

func (s *switched) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off && r.Method == http.MethodPost {
		return s.fails(r)
	}
	return inMemory{s.up}.RoundTrip(r)
}
