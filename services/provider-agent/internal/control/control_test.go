package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// agent notes what it is told.
type agent struct {
	mu     sync.Mutex
	paused bool
	drains int
	wait   chan struct{} // State waits for it; nil for not
}

func (a *agent) State() State {
	if a.wait != nil {
		<-a.wait
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return State{NodeID: "node-one", Paused: a.paused}
}

func (a *agent) Pause(paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = paused
}

func (a *agent) Drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drains++
}

func serve(t *testing.T, dir string, a *agent) {
	t.Helper()
	s, err := Listen(dir, a, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, socketName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket behind Close: got the error %v, want that it does not exist", err)
		}
	})
}

func TestCommandsReachTheAgentOfTheirFolder(t *testing.T) {
	dir, a := t.TempDir(), &agent{}
	serve(t, dir, a)
	c := NewClient(dir)
	for name, call := range map[string]struct {
		do     func(context.Context) (State, error)
		paused bool
	}{"pause": {c.Pause, true}, "resume": {c.Resume, false}} {
		for range 2 {
			got, err := call.do(t.Context())
			if err != nil {
				t.Fatalf("%s: got the error %v, want none", name, err)
			}
			if got.Paused != call.paused {
				t.Errorf("%s: paused: got %t, want %t", name, got.Paused, call.paused)
			}
		}
	}
	got, err := c.State(t.Context())
	if err != nil {
		t.Fatalf("the state: got the error %v, want none", err)
	}
	if got.NodeID != "node-one" {
		t.Errorf(`the state: node: got %q, want "node-one"`, got.NodeID)
	}
	if _, err := c.Drain(t.Context()); err != nil {
		t.Errorf("drain: got the error %v, want none", err)
	}
	if a.drains != 1 {
		t.Errorf("drains: got %d, want 1", a.drains)
	}
	if _, err := c.call(t.Context(), "GET", "pause"); err == nil {
		t.Error("a pause by GET: got no error, want one")
	}
}

func TestOnlyTheOwnerMayOpenTheSocket(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, &agent{})
	info, err := os.Stat(filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode: got %o, want 600", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("entries of the folder: got %d, want the socket alone", len(left))
	}
}

func TestAnAgentThatDoesNotRunIsToldFromOneThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	c := NewClient(dir)
	if _, err := c.State(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without a socket: got the error %v, want %v", err, ErrNotRunning)
	}
	// An agent that was killed leaves its socket.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.State(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("with a socket that was left: got the error %v, want %v", err, ErrNotRunning)
	}
	waits := &agent{wait: make(chan struct{})}
	serve(t, dir, waits)
	defer close(waits.wait)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.State(ctx)
	if err == nil {
		t.Error("an agent that hangs: got no error, want one")
	}
	if errors.Is(err, ErrNotRunning) {
		t.Errorf("an agent that hangs: got the error %v, want another", err)
	}
}

func TestConnectionsToTheSocketAreBounded(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, &agent{})
	for range maxConns {
		conn, err := net.Dial("unix", filepath.Join(dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := NewClient(dir).State(ctx); err == nil {
		t.Errorf("beyond %d connections: got no error, want one", maxConns)
	}
}

func TestATallyTellsServedFromFailedAndKeepsTheLastFailures(t *testing.T) {
	tally := NewTally()
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	end := func(r Result) bool {
		tally.Begin(r.ModelID)
		_, failed := tally.End(at, r)
		return failed
	}
	for name, c := range map[string]struct {
		result Result
		failed bool
	}{
		"served":          {Result{ModelID: "m", Status: 200}, false},
		"no answer":       {Result{ModelID: "m", Err: errors.New("refused\x1b[31m")}, true},
		"refused":         {Result{ModelID: "m", Status: 404}, true},
		"cut off":         {Result{ModelID: "n", Status: 200, Err: errors.New("cut off")}, true},
		"nobody wants it": {Result{ModelID: "n", Status: 200, Err: errors.New("cut off"), Cancelled: true}, false},
	} {
		if got := end(c.result); got != c.failed {
			t.Errorf("%s: failed: got %t, want %t", name, got, c.failed)
		}
	}
	if got, want := tally.Of("m"), (Counts{Served: 1, Failed: 2}); got != want {
		t.Errorf("of m: got %+v, want %+v", got, want)
	}
	sum, failures := tally.All()
	if want := (Counts{Served: 1, Failed: 3, Cancelled: 1}); sum != want {
		t.Errorf("in all: got %+v, want %+v", sum, want)
	}
	for _, f := range failures {
		if strings.Contains(f.Reason, "\x1b") {
			t.Errorf("a reason: got %q, want printable text", f.Reason)
		}
	}
	for n := range MaxFailures + 5 {
		end(Result{ModelID: "m", Status: 500 + n})
	}
	_, failures = tally.All()
	if len(failures) != MaxFailures {
		t.Errorf("failures kept: got %d, want %d", len(failures), MaxFailures)
	}
	if got, want := failures[0].Status, 500+MaxFailures+4; got != want {
		t.Errorf("the newest: got %d, want %d", got, want)
	}
}
