package flow_test

import (
	"testing"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/probe"
)

// A provider that answers a byte a second holds a place for no longer than the answer needs.
func TestAShortAnswerIsNotWaitedForAsLongAsALongOne(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[int]time.Duration{16: 3 * time.Minute, 128: 4 * time.Minute, 256: 6 * time.Minute} {
		p := plan(1)
		p.MaxTokens = tokens
		if got := flow.AnswerTime(p); got > want {
			t.Errorf("%d tokens: got %v, want at most %v", tokens, got, want)
		}
	}
}

// The slowest answers that pass a benchmark come four at a time, or eight of 64 tokens.
func TestTheSlowestAnswerThatPassesIsWaitedFor(t *testing.T) {
	t.Parallel()
	for tokens, together := range map[int]int{64: bench.MaxCapacity, 128: 4, 160: 4, 256: 1, probe.MaxAnswerTokens: 1} {
		p := plan(1)
		p.PromptTokens, p.MaxTokens = 4_096, tokens
		want := time.Duration(float64(tokens*together)/battery.MinSpeed*float64(time.Second)) +
			time.Duration(together)*battery.MaxFirstToken
		if got := flow.AnswerTime(p); got < want {
			t.Errorf("%d tokens, %d at once: got %v, want at least %v", tokens, together, got, want)
		}
	}
}

func TestAHubIsAskedToWaitForWhatTheTokensNeed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg = flow.DefaultConfig()
	w.build()
	p := visible(1)
	w.run(p)
	want := flow.AnswerTime(p).Milliseconds()
	if got := w.hub.asked[0].GetTimeoutMs(); got != want {
		t.Errorf("the challenge's timeout in ms: got %d, want %d", got, want)
	}
	w.cfg.AnswerTimeout = time.Minute
	w.build()
	before := len(w.hub.asked)
	w.run(visible(2))
	if got, want := w.hub.asked[before].GetTimeoutMs(), time.Minute.Milliseconds(); got != want {
		t.Errorf("beyond the bound: timeout in ms: got %d, want %d", got, want)
	}
}
