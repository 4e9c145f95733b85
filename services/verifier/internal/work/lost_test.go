package work

import (
	"context"
	"net/http"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

// leaving is a provider that answers one question of each run and is not connected then.
type leaving struct {
	answering
	answered map[probe.RunID]bool
}

func (l *leaving) Run(ctx context.Context, p probe.Plan) (judge.Record, error) {
	if l.answered[p.Run] {
		return judge.Record{}, &flow.Void{Reason: flow.Offline}
	}
	l.answered[p.Run] = true
	return l.answering.Run(ctx, p)
}

// end carries runs on until none is under way.
func (s *spoilt) end() {
	s.t.Helper()
	for range 60 {
		due, err := s.Stores[0].DueRuns(s.t.Context(), 10)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, row := range due {
			if err := s.benchmarks.carryOn(s.t.Context(), row); err != nil {
				s.t.Fatal(err)
			}
		}
		if running, err := s.benchmarks.running(s.t.Context(), s.offer); err != nil || running.ID.IsZero() {
			return
		}
		s.pass(retryPause)
	}
	s.t.Fatal("the run does not end")
}

// Whoever leaves in mid-run could else be benchmarked every hour for ever.
func TestAProviderThatLeavesInMidRunIsAskedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	s.benchmarks.Quick = false
	s.benchmarks.Runner = &leaving{answering{t: t, status: http.StatusOK}, map[probe.RunID]bool{}}
	begin := func(want int) {
		t.Helper()
		if err := s.benchmarks.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.runs(want)
	}
	begin(1)
	for i, hours := range []int{1, 2, 4, 8, 16, 24, 24} {
		s.end()
		if got, want := s.runs(i + 1)[0].State, store.RunVoid; got != want {
			t.Errorf("run %d: got %s, want %s", i+1, got, want)
		}
		s.pass(time.Duration(hours)*time.Hour - lookAgain)
		begin(i + 1) // too soon
		s.pass(lookAgain)
		begin(i + 2)
	}
	st, err := s.Stores[0].Standing(t.Context(), s.offer)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := st.State.Run, ladder.Unproven; got != want {
		t.Errorf("the offer: got %s, want %s: a bad line is no failure", got, want)
	}
	if n := s.Count(t, `SELECT count(*) FROM verdict`); n != 0 {
		t.Errorf("verdicts: got %d, want none", n)
	}
}

func TestARowOfVoidRunsEndsWithOneThatWasJudged(t *testing.T) {
	t.Parallel()
	lost, little := []battery.Finding{battery.Unanswered}, []battery.Finding{battery.TooLittle}
	disturbed := []battery.Finding{battery.Disturbed}
	type row struct {
		basis store.Basis
		state store.RunState
		found []battery.Finding
	}
	void := func(found []battery.Finding) row { return row{store.Again, store.RunVoid, found} }
	passed := row{store.Asked, store.RunPassed, nil}
	for name, c := range map[string]struct {
		rows []row // the first one first
		want time.Duration
	}{
		"none":                     {nil, time.Hour},
		"three":                    {[]row{void(lost), void(little), void(lost)}, 4 * time.Hour},
		"a pass between":           {[]row{void(lost), void(lost), passed, void(lost)}, time.Hour},
		"the platform's fault":     {[]row{void(disturbed), void(disturbed), void(disturbed)}, time.Hour},
		"the platform's between":   {[]row{void(lost), void(disturbed), void(lost)}, 2 * time.Hour},
		"traffic that was refused": {[]row{void(lost), {store.Traffic, store.RunVoid, nil}, void(lost)}, 2 * time.Hour},
	} {
		s := newSpoilt(t)
		for i, r := range c.rows {
			run := store.Run{ID: probe.RunID{15: byte(i + 1)}, Offer: s.offer, Basis: r.basis, State: r.state,
				Revision: 1, Body: []byte("over"), NextAt: s.at.Now(), Findings: r.found}
			if err := s.Stores[0].StartRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			if err := s.Stores[0].StepRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
		got, err := pauseAfter(t.Context(), s.Stores[0], s.offer)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
