package evidence_test

import (
	"errors"
	"math"
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
)

func TestAConfirmationFollowsItsFormula(t *testing.T) {
	t.Parallel()
	c := evidence.NewConfirmation()
	if got := c.E(); !near(got, .9) {
		t.Errorf("without probes: got E = %v, want .9", got)
	}
	confirm(t, &c, judged(t, evidence.Recall, true), weighed(t, 1.6, map[evidence.Alternative]float64{evidence.Class4: 8}))
	recall, sampled := 0.0, 0.0
	for _, q := range []float64{.1, .2, .4, .7, .95} {
		recall += q / .05 / 5
	}
	for _, share := range []float64{.05, .2, .6, .95} {
		sampled += (1 - share + share*8/1.6/1.25) / 4
	}
	if got, want := c.E(), .25+.15*sampled+.2+.15*recall+.15; !near(got, want) {
		t.Errorf("after one probe: got E = %v, want %v", got, want)
	}
	if got := c.Probes(); got != 1 {
		t.Errorf("a probe of two families: got %d probes, want 1", got)
	}
}

func TestAConfirmationEndsProvenOrSpentAndStays(t *testing.T) {
	t.Parallel()
	c := evidence.NewConfirmation()
	confirm(t, &c)
	if got := c.Probes(); got != 0 {
		t.Errorf("a probe without observations: got %d probes, want 0", got)
	}
	for confirm(t, &c, judged(t, evidence.Greedy, true)) == evidence.Open {
		continue
	}
	if got := c.Outcome(); got != evidence.Proven {
		t.Errorf("all exceeded: got %v, want proven", got)
	}
	if got := c.E(); got < evidence.ConfirmThreshold {
		t.Errorf("all exceeded: got E = %v, want at least %v", got, evidence.ConfirmThreshold)
	}
	for range 10 {
		confirm(t, &c, judged(t, evidence.Greedy, false))
	}
	if got := c.Outcome(); got != evidence.Proven {
		t.Errorf("later: got %v, want proven", got)
	}
	c = evidence.NewConfirmation()
	for range 399 {
		confirm(t, &c, judged(t, evidence.Usage, false))
	}
	if got := c.Outcome(); got != evidence.Open {
		t.Errorf("after 399: got %v, want open", got)
	}
	confirm(t, &c, judged(t, evidence.Greedy, false))
	if got := c.Outcome(); got != evidence.Spent {
		t.Errorf("after 400 of two families: got %v, want spent", got)
	}
	for range 100 {
		confirm(t, &c, judged(t, evidence.Greedy, true))
	}
	if got := c.Outcome(); got != evidence.Spent {
		t.Errorf("later: got %v, want spent", got)
	}
	if got := c.Probes(); got != evidence.MaxConfirmProbes {
		t.Errorf("later: got %d probes, want %d", got, evidence.MaxConfirmProbes)
	}
}

func TestAProofOnTheLastProbeCounts(t *testing.T) {
	t.Parallel()
	c := evidence.NewConfirmation()
	for range 395 {
		confirm(t, &c, judged(t, evidence.Files, false))
	}
	for range 4 {
		confirm(t, &c, judged(t, evidence.Greedy, true))
	}
	if got := c.Outcome(); got != evidence.Open {
		t.Fatalf("after 399: got %v at %v, want open", got, c.E())
	}
	if got := confirm(t, &c, judged(t, evidence.Greedy, true)); got != evidence.Proven {
		t.Errorf("after 400: got %v at %v, want proven", got, c.E())
	}
}

func TestSeventyThreeCleanObservationsRecover(t *testing.T) {
	t.Parallel()
	r := evidence.NewRecovery(evidence.Greedy)
	for range 72 {
		observe(t, &r, judged(t, evidence.Greedy, false))
	}
	if r.Recovered() {
		t.Errorf("after 72: got recovered at %v, want not", r.Ratio(evidence.Greedy))
	}
	observe(t, &r, judged(t, evidence.Greedy, false), judged(t, evidence.Usage, false))
	if !r.Recovered() {
		t.Errorf("after 73: got %v, want at least 20", r.Ratio(evidence.Greedy))
	}
	observe(t, &r, judged(t, evidence.Greedy, true))
	if got := r.Ratio(evidence.Greedy); got < 4 || got > 4.2 {
		t.Errorf("after an exceedance: got %v, want a fifth", got)
	}
}

// clean gives a recovery clean observations of a family.
func clean(t *testing.T, r *evidence.Recovery, f evidence.Family, n int) {
	t.Helper()
	for range n {
		observe(t, r, judged(t, f, false))
	}
}

func TestEveryFamilyThatCountsMustRecover(t *testing.T) {
	t.Parallel()
	const none, b, d, u = evidence.NoFamily, evidence.Greedy, evidence.Recall, evidence.Usage
	type passed map[evidence.Family]int
	for name, c := range map[string]struct {
		led, exceeds evidence.Family
		clean        passed
		want         bool
	}{
		"the family that led":              {b, none, passed{b: 73}, true},
		"another family alone":             {b, none, passed{u: 500}, false},
		"a family that is not clean":       {b, d, passed{b: 73}, false},
		"a family that is clean again":     {b, d, passed{b: 73, d: 112}, true},
		"one that was rarely observed":     {b, none, passed{b: 73, d: 1}, true},
		"files led, nothing was observed":  {evidence.Files, none, nil, false},
		"files led, all are clean":         {evidence.Files, none, passed{b: 73, u: 73}, true},
		"files led, one is not yet clean":  {evidence.Files, none, passed{b: 73, u: 72}, false},
		"none led, one exceeded":           {none, u, passed{u: 112}, true},
		"none led, one exceeded, is short": {none, u, passed{u: 111}, false},
	} {
		r := evidence.NewRecovery(c.led)
		if c.exceeds != evidence.NoFamily {
			observe(t, &r, judged(t, c.exceeds, true))
		}
		for f, n := range c.clean {
			clean(t, &r, f, n)
		}
		if got := r.Recovered(); got != c.want {
			t.Errorf("%s: got recovered %v, want %v", name, got, c.want)
		}
	}
}

func TestVisibleObservationsDoNotRecover(t *testing.T) {
	t.Parallel()
	r := evidence.NewRecovery(evidence.Visible)
	observe(t, &r, judged(t, evidence.Visible, false), judged(t, evidence.Files, true), evidence.Observation{})
	if r != evidence.NewRecovery(evidence.Visible) {
		t.Errorf("got %+v, want the beginning", r)
	}
	if got := r.Ratio(evidence.Visible); got != 0 {
		t.Errorf("ratio of a family without one: got %v, want 0", got)
	}
}

// The bound of a ratio is above 1, so that e = 20 is out of reach of e-values that are
// divided by it. The clipped ratio itself decides.
func TestASampledAnswerExceedsWhenARatioIsClipped(t *testing.T) {
	t.Parallel()
	for ratio, want := range map[float64]bool{19.9: false, 20: true, math.Inf(1): true} {
		o := weighed(t, 1.7, map[evidence.Alternative]float64{evidence.Class8: 0, evidence.Class2: ratio})
		if got := o.Exceeded(); got != want {
			t.Errorf("ratio %v: got %v, want %v", ratio, got, want)
		}
		r := evidence.NewRecovery(evidence.Greedy)
		observe(t, &r, o)
		if got := r.Ratio(evidence.Sampled) < 1; got != want {
			t.Errorf("ratio %v: the recovery fell is %v, want %v", ratio, got, want)
		}
	}
}

func TestALongCheatCanStillRecover(t *testing.T) {
	t.Parallel()
	r := evidence.NewRecovery(evidence.Greedy)
	for range 5_000 {
		observe(t, &r, judged(t, evidence.Greedy, true))
	}
	probes := 0
	for ; !r.Recovered() && probes < 2_000; probes++ {
		observe(t, &r, judged(t, evidence.Greedy, false))
	}
	if probes >= 2_000 {
		t.Errorf("not recovered after %d clean observations: %v", probes, r.Ratio(evidence.Greedy))
	}
}

func TestOnlyPairsOfWhichOneFailedMove(t *testing.T) {
	t.Parallel()
	var p evidence.Pairs
	p.Observe(false, false)
	p.Observe(true, true)
	if p != (evidence.Pairs{}) {
		t.Errorf("equal ends: got M = %v, want 0", p.M())
	}
	p.Observe(false, true)
	if got, want := p.M(), (1.2+1.5+1.8)/3/2_000; !near(got, want) {
		t.Errorf("the organic attempt failed: got %v, want %v", got, want)
	}
	p.Reset()
	p.Observe(true, false)
	if got, want := p.M(), (.8+.5+.2)/3/2_000; !near(got, want) {
		t.Errorf("the probe failed: got %v, want %v", got, want)
	}
}

func TestTheRatioBoundIsTheFormula(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m, v float64
		n    int
		want float64
	}{
		{1, 4, 1_604, 2.0189447}, {1, 0, 1_604, 1.7110399}, {.1, 0, 100_000, 1}, {20, 400, 5, 303.2501},
	} {
		got, err := evidence.NewRatioBound(c.m, c.v, c.n)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(got)-c.want) > 1e-4*c.want {
			t.Errorf("m %v, v %v, n %d: got %v, want %v", c.m, c.v, c.n, got, c.want)
		}
	}
	for _, c := range []struct {
		m, v float64
		n    int
	}{
		{math.NaN(), 1, 100}, {1, math.NaN(), 100}, {-1, 1, 100}, {21, 1, 100}, {1, -1, 100},
		{1, math.Inf(1), 100}, {1, 1, 4}, {1, 1, -1},
	} {
		if got, err := evidence.NewRatioBound(c.m, c.v, c.n); !errors.Is(err, evidence.ErrRatio) {
			t.Errorf("%v: got %v and the error %v, want %v", c, got, err, evidence.ErrRatio)
		}
	}
}

// The bound must lie above the true expectation even of a law whose weight is in rare
// large ratios: 1 in 400 answers has a ratio of 20.
func TestTheRatioBoundCoversRareLargeRatios(t *testing.T) {
	t.Parallel()
	s := years.NewSource(11, 1)
	for range 2_000 {
		const n = 1_604
		sum, squares := 0.0, 0.0
		for range n {
			x := .95
			if s.Below(1.0 / 400) {
				x = 20
			}
			sum += x
			squares += x * x
		}
		m := sum / n
		u, err := evidence.NewRatioBound(m, max(0, squares-n*m*m)/(n-1), n)
		if err != nil {
			t.Fatal(err)
		}
		if want := .95 + (20-.95)/400; float64(u) < want {
			t.Fatalf("got %v, want at least %v", u, want)
		}
	}
}

func TestRatiosThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	var r evidence.Ratios
	for _, err := range []error{
		r.Set(evidence.Alternatives, 1, 1), r.Set(evidence.Hotter, math.NaN(), 1), r.Set(evidence.Hotter, -1, 1),
		r.Set(evidence.Hotter, 1, .5), r.Set(evidence.Hotter, 1, evidence.RatioBound(math.NaN())),
		r.Set(evidence.Hotter, 1, evidence.RatioBound(math.Inf(1))),
	} {
		if !errors.Is(err, evidence.ErrRatio) {
			t.Errorf("got the error %v, want %v", err, evidence.ErrRatio)
		}
	}
	if _, ok := r.E(evidence.Hotter); ok {
		t.Error("a refused ratio was kept")
	}
	if _, err := evidence.Weighed(r); !errors.Is(err, evidence.ErrRatio) {
		t.Errorf("without a ratio: got the error %v, want %v", err, evidence.ErrRatio)
	}
	for _, f := range []evidence.Family{evidence.NoFamily, evidence.Sampled, evidence.Battery, 99} {
		if _, err := evidence.Judged(f, true); !errors.Is(err, evidence.ErrFamily) {
			t.Errorf("%v: got the error %v, want %v", f, err, evidence.ErrFamily)
		}
	}
}

func TestAlternativesHaveNames(t *testing.T) {
	t.Parallel()
	for g := range evidence.Alternative(evidence.Alternatives) {
		got, err := evidence.ParseAlternative(g.String())
		if err != nil {
			t.Fatal(err)
		}
		if got != g {
			t.Errorf("got %v, want %v", got, g)
		}
	}
	if got, err := evidence.ParseAlternative("hot"); !errors.Is(err, evidence.ErrRatio) {
		t.Errorf("got %v and the error %v, want %v", got, err, evidence.ErrRatio)
	}
}

func TestFamiliesHaveNamesAndShares(t *testing.T) {
	t.Parallel()
	sum, letters := evidence.Battery.Share(), ""
	for _, f := range evidence.Families() {
		sum += f.Share()
		letters += f.Letter()
		got, err := evidence.ParseFamily(f.String())
		if err != nil {
			t.Fatal(err)
		}
		if got != f {
			t.Errorf("got %v, want %v", got, f)
		}
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("shares: got the sum %v, want 1", sum)
	}
	if want := "BRCDUEV"; letters != want {
		t.Errorf("letters: got %s, want %s", letters, want)
	}
	for _, name := range []string{"", "none", "B", "greedy "} {
		if got, err := evidence.ParseFamily(name); !errors.Is(err, evidence.ErrFamily) {
			t.Errorf("%q: got %v and the error %v, want %v", name, got, err, evidence.ErrFamily)
		}
	}
}
