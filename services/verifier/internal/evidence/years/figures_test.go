package years_test

import (
	"math"
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
)

// fewer is n, and a tenth of it in short runs.
func fewer(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// The bound of the package's proof, at the border of honesty and with M set to 0 at each
// crossing. The true number is about half of it.
func TestCrossingsStayBelowTheBound(t *testing.T) {
	t.Parallel()
	full := years.Full(.01, years.HonestLaw(evidence.Class4))
	b, share := years.Of(evidence.Greedy, .01), evidence.Greedy.Share()
	for _, c := range []struct {
		name          string
		provider      years.Provider
		crossed, unit float64
		years         int
	}{
		{"one family's M_f", b, 5, share, 600}, {"one family's M_f", b, 20, share, 600},
		{"one family's M_f", b, 100, share, 600}, {"full process", full, 5, 1, 25},
	} {
		crossings, count := 0, fewer(c.years)
		for i := range count {
			year, err := c.provider.Year(years.NewSource(uint64(i), uint64(c.crossed)), c.crossed*c.unit, evidence.Horizon)
			if err != nil {
				t.Fatal(err)
			}
			crossings += year.Crossings
		}
		bound := float64(count) / c.crossed
		t.Logf("%s, c = %v: %d crossings in %d years, the bound is %v", c.name, c.crossed, crossings, count, bound)
		if testing.Short() {
			bound += 3 * math.Sqrt(bound)
		}
		if got := float64(crossings); got > bound {
			t.Errorf("%s, c = %v: got %v crossings, want at most %v", c.name, c.crossed, got, bound)
		}
	}
}

// §2 gives 3.4·10⁻⁷ and 5.1·10⁻⁴ for one mixture M_f. A full process, whose every probe
// feeds all families, has about the same.
func TestTheTailIsAsDesigned(t *testing.T) {
	t.Parallel()
	b := years.Of(evidence.Greedy, .01)
	share := evidence.Greedy.Share()
	full := years.Full(.01, years.HonestLaw(evidence.Class4))
	for _, c := range []struct {
		name      string
		provider  years.Provider
		threshold float64
		low, high float64
		paths     int
	}{
		{"full process at 10⁶", full, 1e6, 2e-7, 5e-7, 300},
		{"one family's M_f at 10⁶", b, 1e6 * share, 3e-7, 3.8e-7, 1_000},
		{"one family's M_f at 10³", b, 1e3 * share, 4.7e-4, 5.6e-4, 1_000},
	} {
		tail, err := c.provider.CrossingTail(years.NewSource(1, 2), c.threshold, evidence.Horizon, fewer(c.paths))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.3g ± %.2g, %.3f of the tilted paths", c.name, tail.P, tail.Error, tail.Reached)
		slack := 0.0
		if testing.Short() {
			slack = 3 * tail.Error
		}
		if tail.P < c.low-slack || tail.P > c.high+slack {
			t.Errorf("%s: got %v ± %v, want it in [%v, %v]", c.name, tail.P, tail.Error, c.low, c.high)
		}
	}
}

// The estimate by importance sampling agrees with counting where counting is possible.
func TestTheTailAgreesWithCounting(t *testing.T) {
	t.Parallel()
	// Two families, of which one has ratios.
	p := years.Full(.01, years.HonestLaw(evidence.Class4))
	p[0].Parts = p[0].Parts[:2]
	const probes, threshold = 2_000, .4
	tail, err := p.CrossingTail(years.NewSource(5, 5), threshold, probes, fewer(1_000))
	if err != nil {
		t.Fatal(err)
	}
	count, reached := fewer(3_000), 0
	for i := range count {
		_, ok, err := p.Until(years.NewSource(uint64(i), 77), threshold, probes)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			reached++
		}
	}
	counted := float64(reached) / float64(count)
	slack := 4 * (tail.Error + math.Sqrt(counted/float64(count)))
	t.Logf("counted %v, estimated %v ± %v", counted, tail.P, tail.Error)
	if math.Abs(counted-tail.P) > slack {
		t.Errorf("got %v by tilted paths, want %v ± %v as counted", tail.P, counted, slack)
	}
}

func TestATailNeedsOneKindOfProbe(t *testing.T) {
	t.Parallel()
	law := years.HonestLaw(evidence.Class4)
	for _, p := range []years.Provider{
		nil,
		append(years.Of(evidence.Greedy, .01), years.Of(evidence.Recall, .01)...),
		{{Weight: 1, Parts: []years.Part{{Family: evidence.Sampled, Laws: []years.Law{law, law}}}}},
	} {
		if _, err := p.CrossingTail(years.NewSource(1, 1), 1, 10, 10); err == nil {
			t.Errorf("%v: got no error, want %v", p, years.ErrProvider)
		}
	}
}

// §10: observations of the family until M ≥ 10³, 95 of 100. The tolerance is a tenth of the
// figure and at least one observation: the design rounds powers to two digits.
func TestCheatsAreSeenAsSoonAsDesigned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		family evidence.Family
		power  float64
		want   int
	}{
		{"other size", evidence.Greedy, 1, 5},
		{"other training", evidence.Greedy, .46, 23},
		{"4-bit for 16", evidence.Greedy, .85, 9},
		{"temperature trick", evidence.Greedy, .96, 6},
		{"truncated prompts", evidence.Greedy, .4, 29},
		{"other training by logprobs", evidence.Logprobs, 1, 5},
		{"truncated prompts by logprobs", evidence.Logprobs, .94, 6},
		{"window lie", evidence.Recall, 1, 5},
		{"cached replies", evidence.Usage, 1, 5},
		{"a fifth rerouted", evidence.Greedy, .2, 78},
		{"a tenth rerouted", evidence.Greedy, .1, 214},
		{"a twentieth rerouted", evidence.Greedy, .05, 706},
	} {
		numbers := make([]int, fewer(4_000))
		for i := range numbers {
			n, reached, err := years.Of(c.family, c.power).Until(years.NewSource(uint64(i), 10), 1_000, 20_000)
			if err != nil {
				t.Fatal(err)
			}
			if !reached {
				t.Fatalf("%s: not seen in 20,000", c.name)
			}
			numbers[i] = n
		}
		got := years.Quantile(numbers, .95)
		tolerance := max(1, float64(c.want)/10)
		if testing.Short() {
			tolerance *= 2
		}
		t.Logf("%s: %d, design %d", c.name, got, c.want)
		if math.Abs(float64(got-c.want)) > tolerance {
			t.Errorf("%s: got %d observations, want %d ± %.0f", c.name, got, c.want, tolerance)
		}
	}
}

// Probes fail now and then too, at 3% here.
func TestAlwaysAbortingShowsInTwentyEightPairs(t *testing.T) {
	t.Parallel()
	numbers := make([]int, 4_000)
	for i := range numbers {
		n, reached := years.PairsUntil(years.NewSource(uint64(i), 3), .03, 1, 1_000, 1_000)
		if !reached {
			t.Fatal("not seen in 1,000 pairs")
		}
		numbers[i] = n
	}
	if got := years.Quantile(numbers, .95); got < 27 || got > 29 {
		t.Errorf("got %d pairs, want 28 ± 1", got)
	}
}

func TestEqualFailuresStayBelowTheBoundOfPairs(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{.05, .3, .5} {
		reached := 0
		count := fewer(4_000)
		for i := range count {
			if _, ok := years.PairsUntil(years.NewSource(uint64(i), 9), rate, rate, 20, 2_000); ok {
				reached++
			}
		}
		// At most 2,000 discordant pairs: 1/20 of the runs.
		if got := float64(reached) / float64(count); got > .05 {
			t.Errorf("rate %v: got %v of the runs at 20, want at most .05", rate, got)
		}
	}
}

// Three times the exceedance that was calibrated, in every family: no confirmation proves.
func TestHonestExceedanceOfThreePercentIsNeverConfirmed(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]years.Provider{
		"one family":   years.Of(evidence.Greedy, .03),
		"all families": years.Full(.03, years.HonestLaw(evidence.Class4)),
	} {
		for i := range fewer(5_000) {
			outcome, probes, err := p.Confirm(years.NewSource(uint64(i), 30))
			if err != nil {
				t.Fatal(err)
			}
			if outcome != evidence.Spent {
				t.Fatalf("%s, confirmation %d: got %v after %d, want spent", name, i, outcome, probes)
			}
		}
	}
}

// Rates of §7's confirmation: a cheat of a fifth and more is proven within 400 probes.
func TestCheatsAreConfirmed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate float64
		want float64 // the share of proven confirmations is at least
	}{{.8, 1}, {.4, 1}, {.2, .99}} {
		proven, count := 0, fewer(2_000)
		for i := range count {
			outcome, _, err := years.Of(evidence.Greedy, c.rate).Confirm(years.NewSource(uint64(i), 31))
			if err != nil {
				t.Fatal(err)
			}
			if outcome == evidence.Proven {
				proven++
			}
		}
		if got := float64(proven) / float64(count); got < c.want {
			t.Errorf("rate %v: got %v proven, want at least %v", c.rate, got, c.want)
		}
	}
}

// §2: the largest M of 10⁵ years at a rate of .0006 is .2.
func TestOrdinaryYearsStayFarBelowWatch(t *testing.T) {
	t.Parallel()
	largest := 0.0
	for i := range fewer(3_000) {
		year, err := years.Of(evidence.Greedy, .0006).Year(years.NewSource(uint64(i), 6), 20, 2_920)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, year.Largest)
	}
	t.Logf("the largest M is %v", largest)
	if largest > .5 {
		t.Errorf("got M = %v, want at most .5", largest)
	}
}

// §2: at twice q₀ 8–10% of years see a notice, at three times 95%. This is why a common
// cause stops the ladder and why confirmations have a wider null. The figures here are of
// 8 probes a day only, without the 48 of a watched provider, and so a little smaller.
func TestYearsAboveTheNullSeeNotices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rate, low, high float64 }{{.01, 0, .005}, {.02, .04, .1}, {.03, .86, .97}} {
		noticed, count := 0, fewer(2_000)
		for i := range count {
			_, reached, err := years.Of(evidence.Greedy, c.rate).Until(years.NewSource(uint64(i), 8), 1_000, 2_920)
			if err != nil {
				t.Fatal(err)
			}
			if reached {
				noticed++
			}
		}
		got := float64(noticed) / float64(count)
		t.Logf("rate %v: %.3f of the years", c.rate, got)
		if got < c.low || got > c.high {
			t.Errorf("rate %v: got %v of the years, want %v to %v", c.rate, got, c.low, c.high)
		}
	}
}

func TestAnHonestProviderRecovers(t *testing.T) {
	t.Parallel()
	numbers := make([]int, 1_000)
	for i := range numbers {
		n, reached, err := years.Of(evidence.Usage, .0006).Recover(years.NewSource(uint64(i), 12), evidence.Usage, 2_000)
		if err != nil {
			t.Fatal(err)
		}
		if !reached {
			t.Fatalf("not recovered after %d probes", n)
		}
		numbers[i] = n
	}
	if got := years.Quantile(numbers, .5); got != 73 {
		t.Errorf("got %d probes, want 73", got)
	}
}

// manyFamilies is a provider whose every probe feeds B at a rate, and two families that
// are as clean as an honest provider's.
func manyFamilies(rate float64) years.Provider {
	return years.Provider{{Weight: 1, Parts: []years.Part{
		{Family: evidence.Greedy, Rate: rate}, {Family: evidence.Recall, Rate: .0006},
		{Family: evidence.Usage, Rate: .0006},
	}}}
}

// One ratio for all families would let two clean ones hide a tenth.
func TestCleanFamiliesDoNotHideACheatThatRecovers(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{.05, .1} {
		recovered, count := 0, fewer(4_000)
		for i := range count {
			_, reached, err := manyFamilies(rate).Recover(years.NewSource(uint64(i), 14), evidence.Greedy, 5_000)
			if err != nil {
				t.Fatal(err)
			}
			if reached {
				recovered++
			}
		}
		got, bound := float64(recovered)/float64(count), 1.0/evidence.RecoveryThreshold
		t.Logf("rate %v: %.4f recovered", rate, got)
		if testing.Short() {
			bound += 3 * math.Sqrt(bound/float64(count))
		}
		if got > bound {
			t.Errorf("rate %v: got %v recovered, want at most %v", rate, got, bound)
		}
	}
}

func TestAnHonestProviderOfManyFamiliesRecoversInTime(t *testing.T) {
	t.Parallel()
	numbers := make([]int, 1_000)
	for i := range numbers {
		n, reached, err := manyFamilies(.0006).Recover(years.NewSource(uint64(i), 15), evidence.Greedy, 2_000)
		if err != nil {
			t.Fatal(err)
		}
		if !reached {
			t.Fatalf("not recovered after %d probes", n)
		}
		numbers[i] = n
	}
	if got := years.Quantile(numbers, .8); got > 75 {
		t.Errorf("four of five: got %d probes, want at most 75", got)
	}
}

func TestAQuantileIsANumberOfTheList(t *testing.T) {
	t.Parallel()
	for q, want := range map[float64]int{0: 1, .5: 5, .55: 6, .95: 10, 1: 10} {
		if got := years.Quantile([]int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, q); got != want {
			t.Errorf("q = %v: got %d, want %d", q, got, want)
		}
	}
}

func TestEqualSeedsGiveEqualYears(t *testing.T) {
	t.Parallel()
	run := func(stream uint64) years.Year {
		year, err := years.Full(.02, years.HonestLaw(evidence.Hotter)).Year(years.NewSource(4, stream), 1_000, 1_000)
		if err != nil {
			t.Fatal(err)
		}
		return year
	}
	if got, want := run(1), run(1); got != want {
		t.Errorf("the same stream: got %v, want %v", got, want)
	}
	if run(1) == run(2) {
		t.Error("two streams gave the same year")
	}
}
