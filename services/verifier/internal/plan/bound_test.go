package plan_test

import (
	"bytes"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
	"svc.internal/services/verifier/internal/window"
)

// bounded plans days of chats of an offer whose answers may have so many tokens.
func bounded(t *testing.T, maxOutput int, rates money.Rates) (chats []probe.Plan) {
	t.Helper()
	o := offer(1)
	o.MaxOutput, o.Rates = maxOutput, rates
	for _, p := range newWorld(o).run(t, 20) {
		if k := p.Plan.Kind; k == probe.Greedy || k == probe.Sampled {
			chats = append(chats, p.Plan)
		}
	}
	if len(chats) < 100 {
		t.Fatalf("chats: got %d, want 100 at least", len(chats))
	}
	return chats
}

func TestBoundsOfAnswersAreThoseOfConsumers(t *testing.T) {
	t.Parallel()
	unbounded, long := 0, 0
	chats := bounded(t, 4_096, prices)
	for _, p := range chats {
		if p.Unbounded {
			unbounded++
		} else if p.MaxTokens > 160 {
			long++
		}
	}
	within(t, "without a bound", float64(unbounded)/float64(len(chats)), .33, .12)
	within(t, "bounds above what is judged", float64(long)/float64(len(chats)), .47, .15)
}

func TestNoAnswerIsAskedForThatTheCatalogDoesNotAllow(t *testing.T) {
	t.Parallel()
	for _, allowed := range []int{24, 48, 100, 175, 176, 256, 1_024} {
		kinds := map[probe.Kind]int{}
		for _, p := range allowing(allowed).run(t, 20) {
			if p.Plan.Flow == probe.Visible {
				continue
			}
			kinds[p.Plan.Kind]++
			if p.Plan.MaxTokens > allowed {
				t.Fatalf("the bound of a %s probe: got %d, want %d at most", p.Plan.Kind, p.Plan.MaxTokens, allowed)
			}
		}
		if got := kinds[probe.Greedy] + kinds[probe.Sampled]; got < 100 {
			t.Errorf("chats where %d tokens are allowed: got %d, want 100 at least", allowed, got)
		}
		// A recall's answer needs 176 tokens at four bytes a token.
		if got, want := kinds[probe.Recall] > 0, allowed >= 176; got != want {
			t.Errorf("hidden recalls where %d tokens are allowed: got %t, want %t", allowed, got, want)
		}
		if got, want := kinds[probe.Measure] > 0, allowed >= 176; got != want {
			t.Errorf("hidden measurements where %d tokens are allowed: got %t, want %t", allowed, got, want)
		}
	}
}

// allowing is an offer under measurement whose answers may have so many tokens.
func allowing(tokens int) *world {
	o := offer(1)
	o.MaxOutput = tokens
	m, err := window.New(plan.Measurable(o.StatedTokens, o.BytesPerToken))
	if err != nil {
		panic(err)
	}
	o.Measurement = &m
	return newWorld(o)
}

func TestARecallThatNoRequestCanHoldIsAskedVisibly(t *testing.T) {
	t.Parallel()
	all := allowing(100).run(t, 28)
	visible := func(k probe.Kind) func(probe.Plan) bool {
		return func(p probe.Plan) bool { return p.Kind == k && p.Flow == probe.Visible }
	}
	within(t, "visible recalls in four weeks", float64(count(all, visible(probe.Recall))), 4, 1)
	within(t, "visible measurements in four weeks", float64(count(all, visible(probe.Measure))), 28*24, 1)
}

func TestWhereAnswersProveNothingNoChatIsPlanned(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[int]bool{statistic.MinTokens - 1: false, statistic.MinTokens: true} {
		all := allowing(allowed).run(t, 7)
		if got := count(all, kind(probe.Greedy))+count(all, kind(probe.Sampled)) > 0; got != want {
			t.Errorf("chats whose answers have %d tokens at most: got %t, want %t", allowed, got, want)
		}
	}
}

func TestAPromptReturnsOnlyWhereTheCatalogStillAllowsItsAnswer(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[int]bool{500: true, 499: false} {
		w := allowing(allowed)
		w.offers[0].Past.Waiting = []plan.Repeat{
			{ID: probe.ID{7, 15: 1}, After: monday, PromptTokens: 300, MaxTokens: 500, BytesPerToken: 4},
		}
		long := func(p probe.Plan) bool { return p.Kind == probe.Replay && p.MaxTokens == 500 }
		if got := count(w.run(t, 3), long) > 0; got != want {
			t.Errorf("a prompt returns with 500 tokens where %d are allowed: got %t, want %t", allowed, got, want)
		}
		for _, r := range w.offers[0].Past.Waiting {
			if r.MaxTokens > allowed {
				t.Errorf("a prompt waits for an answer of %d tokens, want %d at most", r.MaxTokens, allowed)
			}
		}
	}
}

func TestWithoutTheCatalogsBoundAnswersAreShort(t *testing.T) {
	t.Parallel()
	for _, p := range bounded(t, 0, prices) {
		if p.Unbounded {
			t.Fatal("an answer without a bound is planned")
		}
		if p.MaxTokens > 160 {
			t.Fatalf("a bound: got %d, want 160 at most", p.MaxTokens)
		}
	}
}

func TestLongAnswersTakeNoProbesOfADearModel(t *testing.T) {
	t.Parallel()
	dear := prices
	dear.Output *= 6
	for _, p := range bounded(t, 4_096, dear) {
		if p.MaxTokens > 400 {
			t.Fatalf("the bound at a model that is six times as dear: got %d, want 400 at most", p.MaxTokens)
		}
	}
}

func TestARequestWithoutABoundDoesNotNameOne(t *testing.T) {
	t.Parallel()
	for _, p := range bounded(t, 4_096, prices) {
		body, _, err := writer().Body(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(body, []byte(`"max_tokens"`)); got == p.Unbounded {
			t.Fatalf("it names a bound: got %t, want %t", got, !p.Unbounded)
		}
	}
}
