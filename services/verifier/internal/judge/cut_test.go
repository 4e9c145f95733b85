package judge_test

import (
	"errors"
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/statistic"
)

// cut is the record of an answer that was left before its end.
func cut(t *testing.T, why judge.Cut) judge.Record {
	t.Helper()
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Answer.Complete, r.Answer.Cut = false, why
	return r
}

func TestWhatWasCutIsVoidByTheProvidersDoingWhereItHadBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why    judge.Cut
		change func(*judge.Record)
		want   statistic.Void
	}{
		"slow":               {why: judge.Slow, want: statistic.TooSlow},
		"large":              {why: judge.Large, want: statistic.TooLarge},
		"nothing but broken": {want: statistic.Failed},
		"slow, without a bound": {
			judge.Slow, func(r *judge.Record) { r.Plan.Unbounded = true }, statistic.Failed,
		},
		"large, without a bound": {
			judge.Large, func(r *judge.Record) { r.Plan.Unbounded = true }, statistic.Failed,
		},
		"slow, behind a long prompt": {
			judge.Slow, func(r *judge.Record) { r.Plan.PromptTokens = 4_097 }, statistic.Failed,
		},
		"slow, of a long answer": {
			judge.Slow, func(r *judge.Record) { r.Plan.MaxTokens = 513 }, statistic.Failed,
		},
		"large, behind a long prompt": {
			judge.Large, func(r *judge.Record) { r.Plan.PromptTokens = 4_097 }, statistic.TooLarge,
		},
		"a failure": {judge.Slow, func(r *judge.Record) { r.Answer.Failed = true }, statistic.Failed},
		"of another provider": {
			judge.Slow, func(r *judge.Record) { r.Answer.Served = "another" }, statistic.Failed,
		},
		"by earlier rules": {judge.Large, func(r *judge.Record) { r.Version = 2 }, statistic.Failed},
	} {
		r := cut(t, c.why)
		if c.change != nil {
			c.change(&r)
		}
		if got := must(t, r).Voids[evidence.Greedy]; got != c.want {
			t.Errorf("%s: got the void %q, want %q", name, got, c.want)
		}
	}
}

// A machine may be slow for a day, and no honest engine writes several times too much.
func TestOnlyAnAnswerThatIsTooLargeBeginsAWatch(t *testing.T) {
	t.Parallel()
	for why, want := range map[judge.Cut]bool{judge.Slow: false, judge.Large: true} {
		if got := must(t, cut(t, why)).Silent; got != want {
			t.Errorf("%s: silent is %t, want %t", why, got, want)
		}
	}
}

func TestAnUnknownReasonOfACutIsNoRecord(t *testing.T) {
	t.Parallel()
	if _, err := judge.Judge(cut(t, "bored")); !errors.Is(err, judge.ErrRecord) {
		t.Errorf("got the error %v, want %v", err, judge.ErrRecord)
	}
}
