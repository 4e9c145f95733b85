package calibration_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"svc.internal/services/verifier/internal/calibration"
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
	c, err := calibration.Fit(stratum, "B", k, challenges(n, k, draw))
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
	whole := calibration.Calibration{N: 1903, Hosts: 2, Largest: []float64{1, 1}}
	for _, e := range []struct {
		spoil      func(*calibration.Calibration)
		references int
		want       calibration.Reach
	}{
		{func(*calibration.Calibration) {}, 2, calibration.ReachPenalty},
		{func(*calibration.Calibration) {}, 1, calibration.ReachWatch},
		{func(*calibration.Calibration) {}, 0, calibration.ReachNothing},
		{func(c *calibration.Calibration) { c.N-- }, 2, calibration.ReachWatch},
		{func(c *calibration.Calibration) { c.N = 0 }, 2, calibration.ReachNothing},
		{func(c *calibration.Calibration) { c.Hosts = 1 }, 2, calibration.ReachWatch},
		{func(c *calibration.Calibration) { c.Largest = []float64{1, 1, 1} }, 2, calibration.ReachWatch},
		{func(c *calibration.Calibration) { c.Largest = make([]float64, 4) }, 2, calibration.ReachWatch},
	} {
		c := whole
		e.spoil(&c)
		if got := c.Reach(e.references); got != e.want {
			t.Errorf("%+v with %d references: got %q, want %q", c, e.references, got, e.want)
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
		_, err := calibration.Fit(stratum, "B", 1, make2(e.n, e.factor))
		if got := errors.Is(err, calibration.ErrSplit); got != e.split {
			t.Errorf("%+v: got the error %v, want split %v", e, err, e.split)
		}
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
		if _, err := calibration.Fit(stratum, "B", 2, honest); !errors.Is(err, calibration.ErrData) {
			t.Errorf("%s: got %v, want %v", name, err, calibration.ErrData)
		}
	}
	for _, k := range []int{-1, 0, 4} {
		_, err := calibration.Fit(stratum, "B", k, challenges(10, max(k, 0), one))
		if !errors.Is(err, calibration.ErrData) {
			t.Errorf("%d parts: got %v, want %v", k, err, calibration.ErrData)
		}
	}
	_, err := calibration.Fit(calibration.Stratum{}, "B", 2, challenges(10, 2, one))
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

func TestTheBoundOfRatiosIsBernsteins(t *testing.T) {
	t.Parallel()
	m := calibration.Moments{Mean: 0.9, Variance: 4, N: 2000}
	l := math.Log(3e7)
	want := 0.9 + math.Sqrt(2*4*l/2000) + 60*l/2000
	if got, ok := m.Bound(); !ok {
		t.Errorf("got %v, want %v", got, want)
	} else if math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, _ := (calibration.Moments{N: 20_000}).Bound(); got != 1 {
		t.Errorf("got %v, want 1", got)
	}
	if _, ok := (calibration.Moments{}).Bound(); ok {
		t.Error("no ratios: got a bound, want none")
	}
	r := rand.New(rand.NewPCG(3, 14))
	values := make([]float64, 5000)
	for i := range values {
		values[i] = r.Float64()
	}
	c, err := calibration.FitRatios(stratum, "R", 2, map[string][]float64{"hot": values, "class 4": values[:3000]})
	if err != nil {
		t.Fatalf("got %+v and the error %v, want two alternatives in order and 3,000", c, err)
	}
	if c.N != 3000 {
		t.Fatalf("got %+v and the error %v, want two alternatives in order and 3,000", c, err)
	}
	if c.Ratios[0].Alternative != "class 4" {
		t.Fatalf("got %+v and the error %v, want two alternatives in order and 3,000", c, err)
	}
	if hot, ok := c.Ratio("hot"); !ok {
		t.Errorf("got %+v, want mean .5 and variance 1/12", hot)
	} else if math.Abs(hot.Mean-0.5) > 0.02 {
		t.Errorf("got %+v, want mean .5 and variance 1/12", hot)
	} else if math.Abs(hot.Variance-1.0/12) > 0.005 {
		t.Errorf("got %+v, want mean .5 and variance 1/12", hot)
	}
	for _, bad := range [][]float64{nil, {1}, {1, math.NaN()}, {1, -1}, {1, 21}} {
		_, err := calibration.FitRatios(stratum, "R", 2, map[string][]float64{"hot": bad})
		if !errors.Is(err, calibration.ErrData) {
			t.Errorf("%v: got %v, want %v", bad, err, calibration.ErrData)
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
