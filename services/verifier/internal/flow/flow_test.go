package flow_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

func judged(t *testing.T, r judge.Record) judge.Judgement {
	t.Helper()
	j, err := judge.Judge(r)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// A hidden probe that an engine answers can be judged in each family that it asks.
func TestAHiddenProbeIsJudgedInItsFamilies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, tc := range map[string]struct {
		change func(*probe.Plan)
		want   []evidence.Family
	}{
		"greedy, whole": {func(*probe.Plan) {}, []evidence.Family{evidence.Greedy, evidence.Usage}},
		"greedy, streamed": {
			func(p *probe.Plan) { p.Streamed = true }, []evidence.Family{evidence.Greedy, evidence.Usage},
		},
		"logprobs": {
			func(p *probe.Plan) { p.Kind, p.TopLogprobs = probe.Logprobs, 5 },
			[]evidence.Family{evidence.Greedy, evidence.Logprobs, evidence.Usage},
		},
		"left": {func(p *probe.Plan) { p.Streamed, p.HangUp = true, 8 }, []evidence.Family{evidence.Greedy}},
	} {
		// Not every answer leaves choices; of a few prompts one does.
		var got map[evidence.Family]statistic.Parts
		for n := range 12 {
			p := plan(n)
			tc.change(&p)
			if got = judged(t, w.run(p)).Parts; len(got) == len(tc.want) {
				break
			}
		}
		for _, f := range tc.want {
			if got[f] == nil {
				t.Errorf("%s: got no parts of %v in %v", name, f, got)
			}
		}
	}
}

func TestASampledAnswerIsWeighedAgainstClassesAndTheSibling(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := plan(1)
	p.Kind, p.Greedy = probe.Sampled, false
	p.Alternatives = []evidence.Alternative{evidence.Class4, evidence.Sibling, evidence.Cooler, evidence.Hotter}
	var ratios map[evidence.Alternative]float64
	for n := range 12 {
		p.ID[15] = byte(n)
		r := w.run(p)
		if got := len(r.Scores); got != 3 {
			continue // an empty answer, or a second score beside
		}
		if ratios = judged(t, r).Ratios; len(ratios) == 4 {
			break
		}
	}
	for _, g := range p.Alternatives {
		if _, ok := ratios[g]; !ok {
			t.Errorf("%v: got no ratio, want one", g)
		}
	}
}

func TestARecordNamesRequestProviderAndClaim(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.run(plan(1))
	if got, want := r.Answer.Served, provider(0).String(); got != want {
		t.Errorf("served by: got %q, want %q", got, want)
	}
	if r.Answer.RequestID == "" {
		t.Error("the request id: got none, want one")
	}
	if !r.Answer.Complete {
		t.Error("complete: got false, want true")
	}
	if r.Answer.Failed {
		t.Error("failed: got true, want false")
	}
	if got := r.Answer.ClaimedPrompt; got != 11 {
		t.Errorf("claimed prompt: got %d, want 11", got)
	}
	if got := r.Answer.ClaimedOutput; got != 22 {
		t.Errorf("claimed output: got %d, want 22", got)
	}
	if !r.Sent.Equal(start) {
		t.Errorf("sent: got %v, want %v", r.Sent, start)
	}
	total := 0
	for _, c := range r.Answer.Chunks {
		total += c.Bytes
	}
	if want := len(r.Answer.Raw); total != want {
		t.Errorf("bytes of chunks: got %d, want %d", total, want)
	}
}

func TestTheScorerIsDrawnAndNeverTheHostToAvoid(t *testing.T) {
	t.Parallel()
	w := setup(t)
	hosts := map[string]int{}
	for n := range 200 {
		hosts[w.runner.Draw(plan(n))[0].Host]++
	}
	for n := 1; n <= 2; n++ {
		if got := hosts[provider(n).String()+"/ref"]; got < 70 {
			t.Errorf("reference %d: drawn %d times of 200, want about 100", n, got)
		}
	}
	avoided := provider(1).String() + "/ref"
	for n := range 50 {
		p := plan(n)
		p.AvoidHost = avoided
		for _, d := range w.runner.Draw(p) {
			if d.Host == avoided {
				t.Fatalf("probe %d: got the host to avoid", n)
			}
		}
	}
	p := plan(1)
	w.end(provider(2).String() + "/ref")
	p.AvoidHost = avoided
	w.wantVoid(p, flow.NoReference)
}

// What one person's reference said is confirmed by a reference of another person, as long as
// there is one.
func TestTheOwnerOfTheHostToAvoidScoresOnlyWhereNobodyElseCan(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := plan(1)
	p.AvoidHost, p.AvoidAccounts = provider(9).String()+"/ref", []ids.ProviderID{provider(9), provider(1)}
	hosts := func() []string {
		var all []string
		for _, d := range w.runner.Draw(p) {
			if d.Alternative == "" {
				all = append(all, d.Host)
			}
		}
		return all
	}
	if got, want := hosts(), []string{provider(2).String() + "/ref"}; !slices.Equal(got, want) {
		t.Errorf("hosts that score: got %v, want %v", got, want)
	}
	w.end(provider(2).String() + "/ref")
	if got, want := hosts(), []string{provider(1).String() + "/ref"}; !slices.Equal(got, want) {
		t.Errorf("hosts where the owner's alone are there: got %v, want %v", got, want)
	}
}

func TestOneProbeInFiftyHasASecondScoreOfAnotherHost(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var second probe.Plan
	seconds := 0
	for n := range 5_000 {
		p := plan(n)
		p.ID[1] = byte(n >> 8)
		if d := w.runner.Draw(p); len(d) > 2 {
			second, seconds = p, seconds+1
		}
	}
	if seconds < 65 || seconds > 140 {
		t.Errorf("second scores of 5,000: got %d, want about 100", seconds)
	}
	for n := range 20 {
		second.ID[0] = 2
		second.Stratum.Class = 16
		second.MaxTokens = 32 + n // another answer, until one is not empty
		r := w.run(second)
		if len(r.Scores) == 0 {
			continue
		}
		if got := len(r.Scores); got != 2 {
			t.Fatalf("scores: got %d, want 2", got)
		}
		if a, b := r.Scores[0].Host, r.Scores[1].Host; a == b {
			t.Errorf("the second host: got %q as the first", b)
		}
		if got := r.Scores[1].Alternative; got != "" {
			t.Errorf("the second score: got the alternative %q, want none", got)
		}
		down, _, _ := strings.Cut(r.Host(), "/")
		w.hub.run = func(m *runRequest, _ runStream) (bool, error) {
			return m.GetProviderId() == down, errors.New("down")
		}
		if got := len(w.run(second).Scores); got != 1 {
			t.Errorf("scores by the one host that is left: got %d, want 1", got)
		}
		return
	}
	t.Error("no answer was scored")
}

func TestWithoutAReferenceNothingIsSent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := plan(1)
	p.Stratum.Class = 8
	w.wantVoid(p, flow.NoReference)
	if got := len(w.edge.seen); got != 0 {
		t.Errorf("requests: got %d, want 0", got)
	}
}

func TestABenchmarkOfSpeedNeedsNoReference(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n := range 5 {
		w.end(provider(n+1).String() + "/ref")
	}
	p := plan(1)
	p.Flow, p.Purpose, p.Streamed = probe.Visible, probe.Benchmark, true
	if r := w.run(p); !r.Answer.Complete {
		t.Error("complete: got false, want true")
	}
}

func TestAReferenceThatCannotScoreIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	w := setup(t)
	down := provider(1).String()
	w.hub.run = func(m *runRequest, _ runStream) (bool, error) {
		return m.GetProviderId() == down, fault.New(fault.Unavailable, fault.HubDraining, "drains")
	}
	for n := range 4 {
		p := plan(n)
		p.MaxTokens = 8
		r := w.run(p)
		if got, want := r.Host(), provider(2).String()+"/ref"; len(r.Scores) > 0 && got != want {
			t.Errorf("probe %d: scored by %q, want %q", n, got, want)
		}
	}
}

func TestABusyReferenceIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var refusals int
	w.hub.run = func(*runRequest, runStream) (bool, error) {
		refusals++
		return refusals <= 2, fault.New(fault.Unavailable, fault.ProviderBusy, "no slot")
	}
	if r := w.run(plan(3)); len(r.Scores) == 0 {
		t.Error("scores: got none, want one")
	}
}

func TestAnAnswerStaysThoughNobodyScoresIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.hub.run = func(*runRequest, runStream) (bool, error) { return true, errors.New("broken") }
	r := w.run(plan(1))
	if got := len(r.Scores); got != 0 {
		t.Errorf("scores: got %d, want 0", got)
	}
	if got := judged(t, r).Voids[evidence.Greedy]; got != statistic.NoReference {
		t.Errorf("B: got %q, want %q", got, statistic.NoReference)
	}
}

func TestAReplayHasTheEarlierAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := plan(1)
	p.Kind, p.Greedy, p.Repeats = probe.Replay, false, probe.ID{9}
	w.wantVoid(p, flow.NoEarlier)
	w.deps.Earlier = earlier{[]byte(`{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`)}
	w.build()
	if r := w.run(p); !bytes.Contains(r.Earlier, []byte("message")) {
		t.Errorf("the earlier answer: got %q", r.Earlier)
	}
}

func TestAPlanThatCannotBeIsVoid(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bad := plan(1)
	bad.PromptTokens = 0
	w.wantVoid(bad, flow.BadPlan)
	w.deps.Writer = brokenWriter{}
	w.build()
	w.wantVoid(plan(1), flow.BadPlan)
}

func TestAHiddenProbeNeedsAnActiveProvider(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.join(session(0, "node", false, false, model, "fp16"))
	w.wantVoid(plan(1), flow.Inactive)
	w.join(session(0, "other", true, false, model, "fp16"))
	w.run(plan(1))
	w.end(provider(0).String() + "/node")
	w.end(provider(0).String() + "/other")
	w.wantVoid(plan(1), flow.Offline)
}

func TestScoresFollowTheOrderOfThePlan(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := plan(2)
	p.Kind, p.Greedy = probe.Sampled, false
	p.Alternatives = []evidence.Alternative{evidence.Class8, evidence.Class4, evidence.Sibling}
	r := w.run(p)
	var got []string
	for _, s := range r.Scores {
		got = append(got, s.Alternative)
	}
	if want := []string{"", "4-bit", "sibling"}; len(got) > 0 && !slices.Equal(slices.Compact(got), want) {
		t.Errorf("alternatives of scores: got %q, want %q", got, want)
	}
}

// A probe whose provider has answered is never asked again: not when the program stops, and
// not when its database is away.
func TestAnAnswerIsKeptWhateverHappensAfterIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	calls := 0
	w.deps.Now = func(context.Context) (time.Time, error) {
		if calls++; calls > 1 {
			return time.Time{}, errors.New("no database")
		}
		return start, nil
	}
	w.build()
	ctx, cancel := context.WithCancel(t.Context())
	w.hub.run = func(*runRequest, runStream) (bool, error) {
		cancel()
		return true, errors.New("stopped")
	}
	r, err := w.runner.Run(ctx, plan(1))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Answer.Complete {
		t.Error("complete: got false, want true")
	}
	if r.Ended.Before(r.Sent) {
		t.Errorf("ended: got %v, want it after %v", r.Ended, r.Sent)
	}
}

func TestReferencesThatAreBusyForEverAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.ScoreTimeout = 500 * time.Millisecond
	w.build()
	w.hub.run = func(*runRequest, runStream) (bool, error) {
		return true, fault.New(fault.Unavailable, fault.ProviderBusy, "no slot")
	}
	if got := len(w.run(plan(1)).Scores); got != 0 {
		t.Errorf("scores: got %d, want 0", got)
	}
}
