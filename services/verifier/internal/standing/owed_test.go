package standing_test

import (
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// long applies a recall of so many tokens that a change may spoil, and returns how fresh the
// context is.
func (o *offer) long(tokens int, change func(*judge.Record)) float64 {
	o.t.Helper()
	o.wait(24 * time.Hour)
	r := judgetest.Recall(o.t, judgetest.Say{N: o.n})
	r.Plan.PromptTokens = tokens
	if change != nil {
		change(&r)
	}
	return o.judged(r).Published.Factors.C
}

func passes(*judge.Record) {}

func TestARecallThatProvesNothingKeepsNothingFresh(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*judge.Record){
		"no reference":   func(r *judge.Record) { r.Scores = nil },
		"no calibration": func(r *judge.Record) { r.Calibrations = nil },
		"a failure":      func(r *judge.Record) { r.Answer.Failed = true },
		"no answer":      func(r *judge.Record) { r.Answer.Raw = []byte("{") },
	} {
		o := proven(t)
		if got := o.long(6_000, change); got >= 1 {
			t.Errorf("%s: got a context that is fresh to %v, want it not to be", name, got)
		}
	}
}

// A provider with a short window would fail long prompts and pass short ones.
func TestShortRecallsKeepNothingFreshBesideALongOneThatFailed(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*judge.Record){
		"failed": func(r *judge.Record) { r.Answer.Failed = true },
		"void":   func(r *judge.Record) { r.Answer.Raw = []byte("{") },
	} {
		o := proven(t)
		is(t, name+": fresh at first", o.long(7_800, passes), 1)
		for range 3 {
			o.long(7_700, fail)
			for range 6 {
				o.long(5_900, passes)
			}
		}
		if got := o.last.Published.Factors.C; got >= .95 {
			t.Errorf("%s: got a context that is fresh to %v in the third week, want less than .95", name, got)
		}
		is(t, name+": fresh once a long one passes", o.long(7_600, passes), 1)
		is(t, name+": and once a short one does", o.long(4_000, passes), 1)
	}
}

func TestALongRecallIsNotOwedForEver(t *testing.T) {
	t.Parallel()
	o := proven(t)
	o.long(7_800, func(r *judge.Record) { r.Answer.Failed = true })
	o.wait(12 * 24 * time.Hour)
	if got := o.long(4_000, passes); got >= 1 {
		t.Errorf("13 days later: got a context that is fresh to %v, want it not to be", got)
	}
	is(t, "14 days later", o.long(4_000, passes), 1)
}

func TestWhatTheProviderDoesNotCauseOwesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*judge.Record){
		"no reference": func(r *judge.Record) { r.Scores = nil },
		"too long":     func(r *judge.Record) { r.Answer.TooLong, r.Answer.Status, r.Answer.Raw = true, 400, nil },
		"visible": func(r *judge.Record) {
			r.Plan.Flow, r.Plan.Feeds, r.Answer.Failed = probe.Visible, evidence.Recall, true
		},
	} {
		o := proven(t)
		o.long(7_800, change)
		is(t, name, o.long(4_000, passes), 1)
	}
	is(t, "a void of the reference", statistic.NoReference.Provider(), false)
}
