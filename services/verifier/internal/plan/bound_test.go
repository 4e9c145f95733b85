package plan_test

import (
	"bytes"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/probe"
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
	for _, p := range bounded(t, 256, prices) {
		if p.MaxTokens > 256 {
			t.Fatalf("a bound: got %d, want 256 at most", p.MaxTokens)
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
