package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestReadyWaitsForEveryURL(t *testing.T) {
	var asked atomic.Int32
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer slow.Close()
	if err := ready(t.Context(), []string{slow.URL, slow.URL}, "", 0); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if asked.Load() != 4 {
		t.Errorf("asked: got %d, want 4", asked.Load())
	}
}

func TestReadyWaitsForWhatTheLastAnswerMustHold(t *testing.T) {
	var asked atomic.Int32
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 2 {
			_, _ = w.Write([]byte(`{"id":"mock"}`))
		}
	}))
	defer models.Close()
	if err := ready(t.Context(), []string{models.URL}, `"mock"`, 0); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if asked.Load() != 2 {
		t.Errorf("asked: got %d, want 2", asked.Load())
	}
}

func TestReadySaysWhatIsMissing(t *testing.T) {
	never := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "router: no reports yet", http.StatusServiceUnavailable)
	}))
	defer never.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ready(ctx, []string{never.URL}, "", 0); err == nil {
		t.Error("error: got no error, want one")
	} else if !strings.Contains(err.Error(), "no reports yet") {
		t.Errorf(`error: got the error %q, want "no reports yet" in it`, err)
	}
}

func TestABenchmarkWithoutFlushesHasAnotherName(t *testing.T) {
	recs, err := benchmarks(
		strings.NewReader("BenchmarkS/fsync=on/a-2 1 5 ns/op 7 s/s\nBenchmarkS/fsync=off/a-2 1 5 ns/op 9 s/s\n"), "ledger")
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(recs) != 2 {
		t.Fatalf("len(recs): got %d, want 2, in %v", len(recs), recs)
	}
	switch {
	case recs[0].Measure != "S/a s/s":
		t.Errorf(`recs[0].Measure: got %q, want "S/a s/s"`, recs[0].Measure)
	case recs[0].Value != 7:
		t.Errorf("recs[0].Value: got %v, want 7", recs[0].Value)
	case recs[1].Measure != "S/fsync=off/a s/s":
		t.Errorf(`recs[1].Measure: got %q, want "S/fsync=off/a s/s"`, recs[1].Measure)
	}
}

func TestNoBenchmarkIsAnError(t *testing.T) {
	if _, err := benchmarks(strings.NewReader("PASS\n"), "ledger"); err == nil {
		t.Error("no error")
	}
}

// Nobody waits for a process that has ended.
func TestReadyGivesUpWhenTheProcessHasEnded(t *testing.T) {
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	err := ready(t.Context(), []string{"http://127.0.0.1:1"}, "", ended.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got %v, want it to say that the process has ended", err)
	}
}
