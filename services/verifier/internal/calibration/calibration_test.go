package calibration_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/quant"
)

var stratum = calibration.Stratum{
	Model: "acme/model-8b", Files: [32]byte{1, 2, 3}, Class: quant.Bits8, Engine: "vllm 0.15", GPU: "H100",
}

// challenges makes n honest challenges on two hosts with parts from draw.
func challenges(n, k int, draw func() float64) []calibration.Challenge {
	all := make([]calibration.Challenge, n)
	for i := range all {
		all[i].Host = fmt.Sprint("host ", i%2)
		for range k {
			all[i].Parts = append(all[i].Parts, draw())
		}
	}
	return all
}

func fit(t *testing.T, n, k int, draw func() float64) calibration.Calibration {
	t.Helper()
	c, err := calibration.Fit(stratum, evidence.Greedy, k, challenges(n, k, draw))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheRequiredNumbersAreThoseOfWilks(t *testing.T) {
	t.Parallel()
	for k, want := range map[int]int{1: 1604, 2: 1903, 3: 2158} {
		if got, ok := calibration.Wilks(k, calibration.Q0, calibration.Unsound); !ok {
			t.Errorf("Wilks(%d): got %d, want %d", k, got, want)
		} else if got != want {
			t.Errorf("Wilks(%d): got %d, want %d", k, got, want)
		}
		if got, ok := calibration.Required(k); !ok {
			t.Errorf("Required(%d): got %d, want %d", k, got, want)
		} else if got != want {
			t.Errorf("Required(%d): got %d, want %d", k, got, want)
		}
	}
	for _, k := range []int{-1, 0, 4} {
		if got, ok := calibration.Required(k); ok {
			t.Errorf("Required(%d): got %d, want none", k, got)
		}
	}
	for _, bad := range []struct {
		k          int
		q, unsound float64
	}{{0, .1, .1}, {1, 0, .1}, {1, 1, .1}, {1, .1, 0}, {1, 1e-5, 1e-7}, {1, math.NaN(), .1}} {
		if got, ok := calibration.Wilks(bad.k, bad.q, bad.unsound); ok {
			t.Errorf("Wilks(%+v): got %d, want none", bad, got)
		}
	}
}

// With a required number for q = .1 and an unsoundness of .05, calibrations that leave more
// than .1 above their maxima are as rare as promised, and not much rarer.
func TestWilksPromiseHolds(t *testing.T) {
	t.Parallel()
	const q, unsound, trials = 0.1, 0.05, 6000
	for k := 1; k <= calibration.MaxParts; k++ {
		n, _ := calibration.Wilks(k, q, unsound)
		r := rand.New(rand.NewPCG(uint64(k), 12))
		broken := 0
		for range trials {
			honest := 1.0 // parts are independent and uniform: P(all below their maxima)
			for range k {
				largest := 0.0
				for range n {
					largest = max(largest, r.Float64())
				}
				honest *= largest
			}
			if 1-honest > q {
				broken++
			}
		}
		rate := float64(broken) / trials
		if rate > unsound+0.01 {
			t.Errorf("k = %d, n = %d: got %v, want %v at most", k, n, rate, unsound)
		}
		if rate < unsound/3 {
			t.Errorf("k = %d, n = %d: got %v, want about %v", k, n, rate, unsound)
		}
	}
}

func TestHonestHostsExceedAtMostAtQ0(t *testing.T) {
	t.Parallel()
	for k := 1; k <= calibration.MaxParts; k++ {
		r := rand.New(rand.NewPCG(uint64(k), 13))
		draw := r.ExpFloat64 // a long tail
		n, _ := calibration.Required(k)
		for trial := range 20 {
			c := fit(t, n, k, draw)
			exceeded := 0
			for _, h := range challenges(10_000, k, draw) {
				if b, err := c.Exceeds(h.Parts); err != nil {
					t.Fatal(err)
				} else if b {
					exceeded++
				}
			}
			if exceeded > 100 {
				t.Errorf("k = %d, trial %d: got %d of 10,000, want 100 at most", k, trial, exceeded)
			}
		}
	}
}

func TestXIsTheLargestShareOfItsLimits(t *testing.T) {
	t.Parallel()
	c := calibration.Calibration{Largest: []float64{2, 10, 0}}
	for _, e := range []struct {
		parts []float64
		want  float64
		b     bool
	}{
		{[]float64{2, 10, 0}, 1, false}, {[]float64{1, 11, 0}, 1.1, false}, {[]float64{2.21, 0, 0}, 1.105, true},
		{[]float64{0, 0, 1e-9}, calibration.MaxX, true}, {[]float64{0, math.Inf(1), 0}, 1e8, true},
	} {
		x, err := c.X(e.parts)
		b, _ := c.Exceeds(e.parts)
		if err != nil {
			t.Errorf("%v: got %v, %v and the error %v, want %v, %v", e.parts, x, b, err, e.want, e.b)
		}
		if math.Abs(x-e.want) > 1e-12 {
			t.Errorf("%v: got %v, %v and the error %v, want %v, %v", e.parts, x, b, err, e.want, e.b)
		}
		if b != e.b {
			t.Errorf("%v: got %v, %v and the error %v, want %v, %v", e.parts, x, b, err, e.want, e.b)
		}
	}
	for _, bad := range [][]float64{nil, {1}, {1, 1, math.NaN()}, {-1, 1, 1}} {
		if _, err := c.X(bad); !errors.Is(err, calibration.ErrData) {
			t.Errorf("%v: got %v, want %v", bad, err, calibration.ErrData)
		}
	}
}

func TestFewChallengesReachWatchOnly(t *testing.T) {
	t.Parallel()
	whole := calibration.Calibration{N: 2 * 1903, Hosts: 2, Whole: 2, Largest: []float64{1, 1}}
	for _, e := range []struct {
		spoil      func(*calibration.Calibration)
		references int
		want       calibration.Reach
	}{
		{func(*calibration.Calibration) {}, 2, calibration.ReachPenalty},
		{func(*calibration.Calibration) {}, 1, calibration.ReachWatch},
		{func(*calibration.Calibration) {}, 0, calibration.ReachNothing},
		{func(c *calibration.Calibration) { c.N = 0 }, 2, calibration.ReachNothing},
		{func(c *calibration.Calibration) { c.Whole = 1 }, 2, calibration.ReachWatch},
		{func(c *calibration.Calibration) { c.Hosts, c.Whole = 9, 1 }, 2, calibration.ReachWatch},
	} {
		c := whole
		e.spoil(&c)
		if got := c.Reach(e.references); got != e.want {
			t.Errorf("%+v with %d references: got %q, want %q", c, e.references, got, e.want)
		}
	}
}

// A mixture hides a host: with half of the challenges it may exceed twice as often.
func TestEachHostNeedsTheRequiredChallenges(t *testing.T) {
	t.Parallel()
	for _, e := range []struct{ a, b, hosts, whole int }{
		{1604, 1604, 2, 2}, {3000, 1603, 2, 1}, {1603, 1603, 2, 0}, {1604, 99, 1, 1}, {1604, 100, 2, 1}, {99, 99, 0, 0},
	} {
		all := challenges(e.a+e.b, 1, func() float64 { return 1 })
		for i := range all {
			all[i].Host = "a"
			if i >= e.a {
				all[i].Host = "b"
			}
		}
		c, err := calibration.Fit(stratum, evidence.Greedy, 1, all)
		if err != nil {
			t.Fatal(err)
		}
		if c.Hosts != e.hosts {
			t.Errorf("%+v: got %d hosts, want %d", e, c.Hosts, e.hosts)
		}
		if c.Whole != e.whole {
			t.Errorf("%+v: got %d whole hosts, want %d", e, c.Whole, e.whole)
		}
	}
}

func TestHostsThatDifferAreSplit(t *testing.T) {
	t.Parallel()
	make2 := func(n int, factor float64) []calibration.Challenge {
		all := challenges(2*n, 1, func() float64 { return 1 })
		for i := range all {
			if i%2 == 1 {
				all[i].Parts[0] *= factor
			}
		}
		return all
	}
	for _, e := range []struct {
		n      int
		factor float64
		split  bool
	}{{100, 1.5, false}, {100, 1.6, true}, {99, 1.6, false}} {
		_, err := calibration.Fit(stratum, evidence.Greedy, 1, make2(e.n, e.factor))
		if got := errors.Is(err, calibration.ErrSplit); got != e.split {
			t.Errorf("%+v: got the error %v, want split %v", e, err, e.split)
		}
	}
	// Two hosts whose 99% quantiles are a hundredth and a tenth of the limit.
	quiet := append(make2(200, 10), calibration.Challenge{Host: "host 0", Parts: []float64{100}})
	if _, err := calibration.Fit(stratum, evidence.Greedy, 1, quiet); err != nil {
		t.Errorf("quantiles near 0: got the error %v, want none", err)
	}
}

func TestTheQuantileLeavesOneInAHundredAbove(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]float64{1: 1, 99: 99, 100: 99, 101: 100, 200: 198} {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = float64(n - i)
		}
		if got := calibration.Quantile99(xs); got != want {
			t.Errorf("1 to %d: got %v, want %v", n, got, want)
		}
	}
}

func TestImpossibleChallengesAreNoCalibration(t *testing.T) {
	t.Parallel()
	one := func() float64 { return 1 }
	bad := challenges(10, 2, one)
	bad[5].Parts[1] = math.NaN()
	negative := challenges(10, 2, one)
	negative[5].Parts[1] = -1
	uneven := challenges(10, 2, one)
	uneven[5].Parts = uneven[5].Parts[:1]
	many := challenges(calibration.MaxHosts+1, 2, one)
	for i := range many {
		many[i].Host = fmt.Sprint(i)
	}
	for name, honest := range map[string][]calibration.Challenge{
		"none": nil, "NaN": bad, "negative": negative, "uneven": uneven, "hosts": many,
		"too many": challenges(calibration.MaxChallenges+1, 2, one),
	} {
		if _, err := calibration.Fit(stratum, evidence.Greedy, 2, honest); !errors.Is(err, calibration.ErrData) {
			t.Errorf("%s: got %v, want %v", name, err, calibration.ErrData)
		}
	}
	for _, k := range []int{-1, 0, 4} {
		_, err := calibration.Fit(stratum, evidence.Greedy, k, challenges(10, max(k, 0), one))
		if !errors.Is(err, calibration.ErrData) {
			t.Errorf("%d parts: got %v, want %v", k, err, calibration.ErrData)
		}
	}
	_, err := calibration.Fit(calibration.Stratum{}, evidence.Greedy, 2, challenges(10, 2, one))
	if !errors.Is(err, calibration.ErrData) {
		t.Errorf("no model: got %v, want %v", err, calibration.ErrData)
	}
}

func TestAFamilyOfLittlePowerJudgesNoQuantization(t *testing.T) {
	t.Parallel()
	c := fit(t, 200, 1, func() float64 { return 1 })
	for exceeded, want := range map[int]bool{0: false, 200: false, 230: true, 1000: true} {
		parts := make([][]float64, 1000)
		for i := range parts {
			parts[i] = []float64{1}
			if i < exceeded {
				parts[i][0] = 2
			}
		}
		got, err := c.WithPower(quant.Bits4, parts)
		if err != nil {
			t.Errorf("got %+v and the error %v, want %d exceedances", got.Power, err, exceeded)
		}
		if got.Power.Exceeded != exceeded {
			t.Errorf("got %+v and the error %v, want %d exceedances", got.Power, err, exceeded)
		}
		if got.JudgesQuantization() != want {
			t.Errorf("%d of 1,000: got %v, want %v", exceeded, !want, want)
		}
	}
	if c.JudgesQuantization() {
		t.Error("without a second tolerance: got true, want false")
	}
}

// ratios are n uniform numbers up to high from a host.
func ratios(r *rand.Rand, host string, n int, high float64) []calibration.Ratio {
	all := make([]calibration.Ratio, n)
	for i := range all {
		all[i] = calibration.Ratio{Host: host, Value: high * r.Float64()}
	}
	return all
}

func TestTheBoundOfRatiosIsThatOfTheWidestHost(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 14))
	narrow, wide := ratios(r, "a", 5000, 1), ratios(r, "b", 3000, 4)
	few := ratios(r, "c", 99, 20)
	c, err := calibration.FitRatios(stratum, map[evidence.Alternative][]calibration.Ratio{
		evidence.Hotter: slices.Concat(narrow, wide, few), evidence.Class4: slices.Concat(narrow, wide[:1603]),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.N, 6603; got != want {
		t.Errorf("got n = %d, want %d", got, want)
	}
	if got, want := [2]int{c.Hosts, c.Whole}, [2]int{2, 1}; got != want {
		t.Errorf("got %v hosts and whole hosts, want %v", got, want)
	}
	if got := c.Ratios[0].Alternative; got != evidence.Class4 {
		t.Errorf("the first alternative: got %v, want %v", got, evidence.Class4)
	}
	hot, ok := c.Ratio(evidence.Hotter)
	if !ok {
		t.Fatal("got no moments of the hotter alternative, want them")
	}
	if got, want := hot.N, 3000; got != want {
		t.Errorf("got the moments of %d ratios, want those of the wider host's %d", got, want)
	}
	if got, want := hot.Mean, 2.0; math.Abs(got-want) > .1 {
		t.Errorf("got the mean %v, want about %v", got, want)
	}
	bound, err := hot.Bound()
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := evidence.NewRatioBound(hot.Mean, hot.Variance, hot.N); bound != want {
		t.Errorf("got the bound %v, want %v", bound, want)
	}
	if _, ok := c.Ratio(evidence.Cooler); ok {
		t.Error("an alternative that was not fitted: got moments, want none")
	}
}

func TestRatiosOfFewAreThoseOfAllAndReachNoPenalty(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 14))
	c, err := calibration.FitRatios(stratum, map[evidence.Alternative][]calibration.Ratio{
		evidence.Cooler: append(ratios(r, "a", 60, 1), ratios(r, "b", 60, 1)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Ratios[0].N, 120; got != want {
		t.Errorf("got the moments of %d ratios, want %d", got, want)
	}
	if got := c.Reach(2); got != calibration.ReachWatch {
		t.Errorf("got %q, want %q", got, calibration.ReachWatch)
	}
}

func TestImpossibleRatiosAreNoCalibration(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]float64{
		"none": nil, "few": {1, 1, 1, 1}, "NaN": {1, 1, 1, 1, math.NaN()}, "negative": {1, 1, 1, 1, -1},
		"beyond the clip": {1, 1, 1, 1, 21}, "too many": make([]float64, calibration.MaxChallenges+1),
	} {
		var all []calibration.Ratio
		for _, v := range values {
			all = append(all, calibration.Ratio{Host: "a", Value: v})
		}
		_, err := calibration.FitRatios(stratum, map[evidence.Alternative][]calibration.Ratio{evidence.Hotter: all})
		if !errors.Is(err, calibration.ErrData) {
			t.Errorf("%s: got %v, want %v", name, err, calibration.ErrData)
		}
	}
	good := ratios(rand.New(rand.NewPCG(1, 1)), "a", 10, 1)
	for name, bad := range map[string]map[evidence.Alternative][]calibration.Ratio{
		"no alternative": {}, "an unknown alternative": {evidence.Alternatives: good},
	} {
		if _, err := calibration.FitRatios(stratum, bad); !errors.Is(err, calibration.ErrData) {
			t.Errorf("%s: got %v, want %v", name, err, calibration.ErrData)
		}
	}
}

func TestTailsAreThoseOfTheBinomial(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		n, k int
		p    float64
		want float64
	}{
		{10, 0, 0.3, 1}, {10, 10, 0.5, math.Pow(0.5, 10)}, {3, 2, 0.5, 0.5}, {20_000, 20_001, 0.1, 0},
		{40, 1, 0.01, 1 - math.Pow(0.99, 40)}, {20_000, 1, 0.001, 1 - math.Pow(0.999, 20_000)},
	} {
		if got := calibration.UpperTail(e.n, e.k, e.p); math.Abs(got-e.want) > 1e-12*max(1, e.want) {
			t.Errorf("%+v: got %v", e, got)
		}
		if got := calibration.LowerTail(e.n, e.k, e.p); math.Abs(got-(1-e.want)) > 1e-11 {
			t.Errorf("lower %+v: got %v", e, got)
		}
	}
	if got := calibration.UpperTail(calibration.MaxChallenges+1, 5, 0.5); got != 1 {
		t.Errorf("beyond the bound: got %v, want 1", got)
	}
}
