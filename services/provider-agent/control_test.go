package provideragent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
	"svc.internal/services/provider-agent/internal/control"
)

// controlled is an agent with a model that its engine serves and one that it does not.
func controlled(t *testing.T) (*control.Client, *hubtest.Session, *logBook, chan error) {
	t.Helper()
	engine := fakeengine.New(t)
	engine.Script("m", fakeengine.Behaviour{})
	hub, log, dir := hubtest.New(t), &logBook{}, t.TempDir()
	cfg := DefaultConfig()
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.NodeName = hub.URL, providerKey(t), dir, "rig"
	cfg.Capabilities = []string{"chat"}
	cfg.Models = []Model{{ModelID: "m", EngineURL: engine.URL + "/v1"},
		{ModelID: "away", EngineURL: "http://127.0.0.1:1/v1"}}
	agent, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil { // a test that looks at it puts it back
			t.Logf("Run: %v", err)
		}
	})
	s := hub.AcceptLive()
	<-agent.Registered()
	return control.NewClient(dir), s, log, done
}

func TestARunningAgentTellsWhatItKnows(t *testing.T) {
	owner, s, log, _ := controlled(t)
	if _, end := s.Open("m", `{"model":"m","messages":[]}`).Answer(); !end.GetComplete() {
		t.Fatalf("the request: got %v, want a complete one", end)
	}
	s.Open("away", `{"model":"away","messages":[]}`).Answer()
	now, err := owner.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if now.Connection != control.Connected {
		t.Errorf("connection: got %q, want %q", now.Connection, control.Connected)
	}
	if now.Account.Name != "tester" {
		t.Errorf(`account: got %q, want "tester"`, now.Account.Name)
	}
	if now.Account.Status != "active" {
		t.Errorf(`status: got %q, want "active"`, now.Account.Status)
	}
	if now.NodeName != "rig" {
		t.Errorf(`node: got %q, want "rig"`, now.NodeName)
	}
	if len(now.Models) != 2 {
		t.Fatalf("models: got %d, want 2", len(now.Models))
	}
	here, away := now.Models[0], now.Models[1]
	if !here.Healthy {
		t.Errorf("m: got it unhealthy (%s), want it healthy", here.Reason)
	}
	if here.Served != 1 {
		t.Errorf("m: served: got %d, want 1", here.Served)
	}
	if away.Reason == "" {
		t.Error("away: got no reason, want one")
	}
	if away.Failed != 1 {
		t.Errorf("away: failed: got %d, want 1", away.Failed)
	}
	if len(now.Failures) != 1 {
		t.Fatalf("failures: got %d, want 1", len(now.Failures))
	}
	if got := now.Failures[0].ModelID; got != "away" {
		t.Errorf(`the failure: got %q, want "away"`, got)
	}
	if text := log.String(); !strings.Contains(text, "a request failed") {
		t.Errorf("the log: got %q, want %q in it", text, "a request failed")
	}
}

func TestAnOwnerPausesAndDrainsTheAgentThatRuns(t *testing.T) {
	owner, s, _, done := controlled(t)
	told := func(command func(context.Context) (control.State, error)) control.State {
		t.Helper()
		now, err := command(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	if !told(owner.Pause).Paused {
		t.Error("pause: got it not paused, want it paused")
	}
	if _, end := s.Open("m", `{"model":"m","messages":[]}`).Answer(); !end.GetBusy() {
		t.Errorf("a request meanwhile: got %v, want it busy", end)
	}
	if told(owner.Resume).Paused {
		t.Error("resume: got it paused, want it not paused")
	}
	if _, end := s.Open("m", `{"model":"m","messages":[]}`).Answer(); !end.GetComplete() {
		t.Errorf("a request behind the pause: got %v, want it complete", end)
	}
	if got := told(owner.Drain).Connection; got != control.Draining {
		t.Errorf("drain: got %q, want %q", got, control.Draining)
	}
	select {
	case err := <-done:
		done <- err
		if err != nil {
			t.Errorf("Run: got the error %v, want none", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the agent has not ended")
	}
	if _, err := owner.State(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("behind its end: got the error %v, want %v", err, control.ErrNotRunning)
	}
}

// A failing engine fills no disk.
func TestFailuresAreLoggedOnceASecond(t *testing.T) {
	log := &logBook{}
	w := newWatched("1", "rig", "", clock.System, slog.New(slog.NewTextHandler(log, nil)))
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 1, 2, time.Second} {
		w.tell(control.Failure{At: at.Add(after), Reason: "why"})
	}
	if got := strings.Count(log.String(), "a request failed"); got != 2 {
		t.Errorf("lines: got %d, want 2", got)
	}
	if !strings.Contains(log.String(), "not_logged_before=2") {
		t.Errorf("the log: got %q, want the number of the others in it", log.String())
	}
}
