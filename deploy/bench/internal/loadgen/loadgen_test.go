package loadgen

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheMeasuredTimeIsOverWhenEnoughCameThrough(t *testing.T) {
	s := Spec{Dur: 2 * time.Second, Enough: 2000, MaxDur: 5 * time.Second}
	for _, c := range []struct {
		after time.Duration
		done  int64
		want  bool
	}{
		{time.Second, 9000, false}, {2 * time.Second, 2000, true}, {2 * time.Second, 1999, false},
		{4900 * time.Millisecond, 1999, false}, {5 * time.Second, 0, true},
	} {
		if got := s.over(c.after, c.done); got != c.want {
			t.Errorf("after %v and %d requests: got %v, want %v", c.after, c.done, got, c.want)
		}
	}
	if plain := (Spec{Dur: time.Second}); !plain.over(time.Second, 0) {
		t.Error("a load that nothing prolongs, after its time: got false, want true")
	}
}

func TestThePauseEndsWithTheTime(t *testing.T) {
	s := Spec{Dur: time.Second}
	for after, want := range map[time.Duration]time.Duration{
		0: 200 * time.Millisecond, 950 * time.Millisecond: 50 * time.Millisecond, 2 * time.Second: 200 * time.Millisecond,
	} {
		if got := s.pause(after); got != want {
			t.Errorf("pause after %v: got %v, want %v", after, got, want)
		}
	}
}

func TestAnOpenLoopIsDueAtItsRate(t *testing.T) {
	s := Spec{Rate: 300}
	if got := s.due(0); got != 0 {
		t.Errorf("first: got %v, want 0", got)
	}
	if got := s.due(600); got != 2*time.Second {
		t.Errorf("six hundredth: got %v, want 2 s", got)
	}
}

// seen is what a server was asked.
type seen struct {
	mu     sync.Mutex
	keys   map[string]int
	bodies map[string]int
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.keys[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]++
	s.bodies[string(body)]++
	s.mu.Unlock()
	_, _ = io.WriteString(w, `{"usage":{"total_tokens":1}}`)
}

func serve(t *testing.T) (*seen, string) {
	t.Helper()
	s := &seen{keys: map[string]int{}, bodies: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL + "/v1"
}

func TestConnectionsUseAllKeysInTurn(t *testing.T) {
	server, base := serve(t)
	spec := Spec{Base: base, Keys: []string{"a", "b", "c", "d"}, Conns: 2, PromptBytes: 10}
	for id := range 2 {
		c, err := newClient(&spec, id)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.do(time.Minute, nil); err != nil {
				t.Fatal(err)
			}
		}
		c.close()
	}
	for _, key := range spec.Keys {
		if got := server.keys[key]; got != 1 {
			t.Errorf("requests of key %q: got %d, want 1", key, got)
		}
	}
	if got := len(server.bodies); got != 4 {
		t.Errorf("different bodies: got %d, want 4", got)
	}
}

func TestARunSaysItsRateAndKeepsIt(t *testing.T) {
	_, base := serve(t)
	r, err := Run(t.Context(), Spec{Base: base, Key: "k", Conns: 8, Rate: 200, Dur: 300 * time.Millisecond, Enough: 80,
		MaxDur: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rate != 200 {
		t.Errorf("rate: got %v, want 200", r.Rate)
	}
	if r.Requests < 80 {
		t.Errorf("requests: got %d, want at least 80", r.Requests)
	}
	// A busy machine may fall behind, and none may run ahead.
	if limit := uint64(200*r.Seconds) + 9; r.Requests > limit {
		t.Errorf("requests in %.2f s: got %d, want at most %d", r.Seconds, r.Requests, limit)
	}
	if r.NoUsage != 0 {
		t.Errorf("answers without usage: got %d, want 0", r.NoUsage)
	}
}

func TestALoadEndsWithItsContext(t *testing.T) {
	_, base := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, spec := range map[string]Spec{
		"in its warm-up": {Warm: time.Hour}, "in its measured time": {Dur: time.Hour, MaxDur: time.Hour},
	} {
		spec.Base, spec.Key, spec.Conns = base, "k", 1
		if _, err := Run(ctx, spec); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got the error %v, want %v", name, err, context.Canceled)
		}
	}
}

func TestAllocationsOfAllProgramsAreAddedUp(t *testing.T) {
	program := func(text string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	one, other := program("x 1\ngo_memstats_mallocs_total 1.5e+03\n"), program("go_memstats_mallocs_total 500\n")
	got, err := mallocs([]string{one, other})
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	if got != 2000 {
		t.Errorf("allocations: got %v, want 2000", got)
	}
	if _, err := mallocs([]string{one, program("x 1\n")}); err == nil {
		t.Error("a program that tells none: got no error, want one")
	}
}
