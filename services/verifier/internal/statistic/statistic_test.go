package statistic_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

// model makes positions of 30 tokens each. flat is the temperature of its logits.
func model(seed uint64, n int, flat float64) []positionFull {
	r := rand.New(rand.NewPCG(seed, 1))
	all := make([]positionFull, n)
	for t := range all {
		logits := make([]float64, 30)
		norm := 0.0
		for i := range logits {
			logits[i] = r.NormFloat64() * 2 / flat
			norm += math.Exp(logits[i])
		}
		for i := range logits {
			logits[i] -= math.Log(norm)
		}
		all[t] = positionFull{logits}
	}
	return all
}

// positionFull is a whole distribution: token i has the logarithm logits[i].
type positionFull struct{ logits []float64 }

func token(i int) string { return fmt.Sprintf(" t%02d", i) }

// at is the distribution with token own, as an engine lists it: the first k.
func (p positionFull) at(own, k int) statistic.Position {
	entries := make([]statistic.Entry, len(p.logits))
	for i, l := range p.logits {
		rounded, err := exact.Round(l)
		if err != nil {
			panic(err)
		}
		entries[i] = statistic.Entry{Token: token(i), Logprob: rounded}
	}
	mine := entries[own]
	slices.SortStableFunc(entries, func(a, b statistic.Entry) int { return int(b.Logprob - a.Logprob) })
	return statistic.Position{Own: mine, Top: entries[:k]}
}

// best and sample choose a token.
func (p positionFull) best() int { return slices.Index(p.logits, slices.Max(p.logits)) }

func (p positionFull) sample(r *rand.Rand, t float64) int {
	weights := make([]float64, len(p.logits))
	sum := 0.0
	for i, l := range p.logits {
		weights[i] = math.Exp(l / t)
		sum += weights[i]
	}
	x := r.Float64() * sum
	for i, w := range weights {
		if x -= w; x < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// noisy is the distribution with noise on its logits, normed again.
func (p positionFull) noisy(r *rand.Rand, size float64) positionFull {
	out := make([]float64, len(p.logits))
	norm := 0.0
	for i, l := range p.logits {
		out[i] = l + size*r.NormFloat64()
		norm += math.Exp(out[i])
	}
	for i := range out {
		out[i] -= math.Log(norm)
	}
	return positionFull{out}
}

// answer is what the chooser makes of the model, with lists of k.
func answer(m []positionFull, k int, choose func(positionFull) int) []statistic.Position {
	out := make([]statistic.Position, len(m))
	for t, p := range m {
		out[t] = p.at(choose(p), k)
	}
	return out
}

func text(ps []statistic.Position) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.Own.Token)
	}
	return b.String()
}

func greedyOf(m []positionFull) []statistic.Position {
	return answer(m, 20, positionFull.best)
}

func must(t *testing.T) func(statistic.Parts, statistic.Void) statistic.Parts {
	t.Helper()
	return func(p statistic.Parts, v statistic.Void) statistic.Parts {
		t.Helper()
		if v != statistic.None {
			t.Fatalf("got void %q, want none", v)
		}
		if len(p) == 0 {
			t.Fatalf("got %d parts, want 1 to %d", len(p), statistic.MaxParts)
		}
		if len(p) > statistic.MaxParts {
			t.Fatalf("got %d parts, want 1 to %d", len(p), statistic.MaxParts)
		}
		return p
	}
}

func TestTheBestTokensAreWithoutGreedyDistance(t *testing.T) {
	t.Parallel()
	if got := must(t)(statistic.Greedy(greedyOf(model(1, 60, 1)))); got[0] != 0 {
		t.Errorf("got %v, want 0", got)
	}
}

func TestGreedyIsTheMeanOfCappedGaps(t *testing.T) {
	t.Parallel()
	ps := greedyOf(model(2, 40, 1))
	ps[3].Own = ps[3].Top[1]
	ps[9].Own = statistic.Entry{Token: "rare", Logprob: -30 * exact.Nats}
	want := (min(2*exact.Nats, ps[3].Top[0].Logprob-ps[3].Top[1].Logprob) + 2*exact.Nats).Nats() / 40
	if got := must(t)(statistic.Greedy(ps)); got[0] != want {
		t.Errorf("got %v, want %v", got[0], want)
	}
}

func TestAnotherModelAndSamplingStandOutInGreedy(t *testing.T) {
	t.Parallel()
	m, other := model(3, 80, 1), model(4, 80, 1)
	r := rand.New(rand.NewPCG(3, 3))
	i := 0
	cheat := answer(m, 20, func(positionFull) int { i++; return other[i-1].best() })
	hot := answer(m, 20, func(p positionFull) int { return p.sample(r, 1) })
	honest := answer(m, 20, func(p positionFull) int { return p.noisy(r, 0.01).best() })
	h := must(t)(statistic.Greedy(honest))[0]
	for name, ps := range map[string][]statistic.Position{"other model": cheat, "sampled": hot} {
		if got := must(t)(statistic.Greedy(ps))[0]; got < 20*h+0.3 {
			t.Errorf("%s: got %v, want far above the honest %v", name, got, h)
		}
	}
}

func TestScreeningVoidsWhatProvesNothing(t *testing.T) {
	t.Parallel()
	sure := greedyOf(model(5, 60, 0.05))
	for i := range sure { // no position leaves a choice
		sure[i].Top = sure[i].Top[:1]
	}
	fewer := slices.Clone(sure)
	for i, p := range greedyOf(model(5, 8, 4)) {
		fewer[i] = p
	}
	enough := slices.Clone(sure)
	for i, p := range greedyOf(model(5, 9, 4)) {
		enough[i] = p
	}
	for _, c := range []struct {
		name string
		ps   []statistic.Position
		want statistic.Void
	}{
		{"nothing", nil, statistic.TooShort},
		{"23 tokens", greedyOf(model(1, 23, 1)), statistic.TooShort},
		{"24 tokens", greedyOf(model(1, 24, 1)), statistic.None},
		{"no choice", sure, statistic.NotInformative},
		{"8 of 60 informative", fewer, statistic.NotInformative},
		{"9 of 60 informative", enough, statistic.None},
		{"too many", greedyOf(model(1, statistic.MaxAnswerTokens+1, 1)), statistic.NoReference},
	} {
		if got := statistic.Screen(c.ps); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestImpossiblePositionsAreVoidEverywhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*statistic.Position)
		want  statistic.Void
	}{
		"positive":       {func(p *statistic.Position) { p.Own.Logprob = 1 }, statistic.Malformed},
		"below all":      {func(p *statistic.Position) { p.Own.Logprob = exact.MinLogprob - 1 }, statistic.Malformed},
		"out of order":   {func(p *statistic.Position) { p.Top[0], p.Top[1] = p.Top[1], p.Top[0] }, statistic.Malformed},
		"above one":      {func(p *statistic.Position) { p.Top[0].Logprob, p.Top[1].Logprob = 0, 0 }, statistic.Malformed},
		"long list":      {func(p *statistic.Position) { p.Top = make([]statistic.Entry, 21) }, statistic.TooLarge},
		"long token":     {func(p *statistic.Position) { p.Own.Token = strings.Repeat("x", 513) }, statistic.TooLarge},
		"long listed":    {func(p *statistic.Position) { p.Top[3].Token = strings.Repeat("x", 513) }, statistic.TooLarge},
		"list with hole": {func(p *statistic.Position) { p.Top[7].Logprob = 5 }, statistic.Malformed},
	} {
		ps, good := greedyOf(model(6, 40, 1)), greedyOf(model(6, 40, 1))
		c.spoil(&ps[20])
		_, greedy := statistic.Greedy(ps)
		_, ours := statistic.Declared(ps, good, text(good), true)
		_, theirs := statistic.Declared(good, ps, text(good), true)
		_, against := statistic.RatioAgainst(good, ps)
		_, tempered := statistic.RatioAtTemperature(ps, statistic.Hot)
		if theirs != c.want {
			t.Errorf("%s of the provider: got %q, want %q", name, theirs, c.want)
		}
		for i, got := range []statistic.Void{greedy, ours, against, tempered} {
			if got != statistic.NoReference {
				t.Errorf("%s of the reference, function %d: got %q, want %q", name, i, got, statistic.NoReference)
			}
		}
	}
}

func TestManyLongTokensAreTooLarge(t *testing.T) {
	t.Parallel()
	ps := greedyOf(model(6, 40, 1))
	for i := range ps {
		ps[i].Own.Token = strings.Repeat("x", 512)
	}
	good := greedyOf(model(6, 40, 1))
	if _, got := statistic.Declared(good, ps, text(good), true); got != statistic.TooLarge {
		t.Errorf("got %q, want %q", got, statistic.TooLarge)
	}
}

func TestAProviderCausesWhatItSends(t *testing.T) {
	t.Parallel()
	caused := []statistic.Void{
		statistic.NoLogprobs, statistic.NotJoined, statistic.Blank, statistic.Misaligned, statistic.Malformed,
		statistic.TooLarge,
	}
	for _, v := range append(statistic.Voids(), statistic.None) {
		if got, want := v.Provider(), slices.Contains(caused, v); got != want {
			t.Errorf("%q: got %v, want %v", v, got, want)
		}
	}
}

func TestRepliesAreVoidForTheFirstReason(t *testing.T) {
	t.Parallel()
	good := statistic.Reply{Complete: true, Asked: "a", Answered: "a", Text: "x", WantLogprobs: true, HasLogprobs: true}
	for want, spoil := range map[statistic.Void]func(*statistic.Reply){
		statistic.None:          func(*statistic.Reply) {},
		statistic.Failed:        func(r *statistic.Reply) { r.Complete, r.Answered = false, "b" },
		statistic.OtherProvider: func(r *statistic.Reply) { r.Answered, r.HasLogprobs = "b", false },
		statistic.NoLogprobs:    func(r *statistic.Reply) { r.HasLogprobs = false },
		statistic.TooLarge:      func(r *statistic.Reply) { r.Text = strings.Repeat("x", statistic.MaxAnswerBytes+1) },
	} {
		r := good
		spoil(&r)
		if got := r.Check(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
