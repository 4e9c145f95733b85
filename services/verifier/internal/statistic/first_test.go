package statistic_test

import (
	"testing"

	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

// declaredLie returns the first part of family C of 200 tokens, of which the provider
// declares one improbable.
func declaredLie(t *testing.T, at int) float64 {
	t.Helper()
	m := model(21, 200, 1)
	ours, theirs := greedyOf(m), answer(m, 5, positionFull.best)
	top := append([]statistic.Entry(nil), theirs[at].Top...)
	for i := range top {
		top[i].Logprob -= 20 * exact.Nats
	}
	theirs[at].Top = top
	return must(t)(statistic.Declared(ours, theirs, text(ours), false))[0]
}

func TestTheLastJudgedTokenCounts(t *testing.T) {
	t.Parallel()
	if got := declaredLie(t, statistic.JudgedTokens-1); got == 0 {
		t.Error("a lie about the last judged token: got 0, want more")
	}
}

func TestTokensBehindTheJudgedOnesCountForNothing(t *testing.T) {
	t.Parallel()
	if got := declaredLie(t, statistic.JudgedTokens); got != 0 {
		t.Errorf("a lie about the first token that is not judged: got %v, want 0", got)
	}
}

func TestOfShortAnswersAllIsJudged(t *testing.T) {
	t.Parallel()
	if got := len(statistic.First(make([]int, 30))); got != 30 {
		t.Errorf("judged of 30 tokens: got %d, want 30", got)
	}
}
