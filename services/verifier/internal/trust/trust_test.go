package trust_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
	"svc.internal/services/verifier/internal/trust"
)

const day = 24 * time.Hour

// honest is an offer that nothing speaks against.
func honest() trust.Facts { return trust.Facts{Passed: 80, M: .2, Recalled: true, SinceRecall: day} }

func TestTheFactorsAreTheFormula(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		k    trust.Facts
		want trust.Factors
	}{
		{"nothing known", trust.Facts{}, trust.Factors{V: .8, I: 1, C: .9, F: 1}},
		{"40 passed", trust.Facts{Passed: 40, Recalled: true}, trust.Factors{V: .9, I: 1, C: 1, F: 1}},
		{"120 passed", trust.Facts{Passed: 120, Recalled: true}, trust.Factors{V: .975, I: 1, C: 1, F: 1}},
		{"M = 10", trust.Facts{M: 10, Recalled: true}, trust.Factors{V: .8, I: 2.0 / 3, C: 1, F: 1}},
		{"M = 100", trust.Facts{M: 100, Recalled: true}, trust.Factors{V: .8, I: 1.0 / 3, C: 1, F: 1}},
		{"M = 1,000", trust.Facts{M: 1_000, Recalled: true}, trust.Factors{V: .8, I: 0, C: 1, F: 1}},
		{"M = 10⁹", trust.Facts{M: 1e9, Recalled: true}, trust.Factors{V: .8, I: 0, C: 1, F: 1}},
		{"7 days", trust.Facts{Recalled: true, SinceRecall: 7 * day}, trust.Factors{V: .8, I: 1, C: 1, F: 1}},
		{"18.5 days", trust.Facts{Recalled: true, SinceRecall: 444 * time.Hour}, trust.Factors{V: .8, I: 1, C: .95, F: 1}},
		{"30 days", trust.Facts{Recalled: true, SinceRecall: 30 * day}, trust.Factors{V: .8, I: 1, C: .9, F: 1}},
		{"a year", trust.Facts{Recalled: true, SinceRecall: 365 * day}, trust.Factors{V: .8, I: 1, C: .9, F: 1}},
		{"F 19.9", trust.Facts{Recalled: true, Pairs: 19.9}, trust.Factors{V: .8, I: 1, C: 1, F: 1}},
		{"F 20", trust.Facts{Recalled: true, Pairs: 20}, trust.Factors{V: .8, I: 1, C: 1, F: .5}},
		{"F 1,000", trust.Facts{Recalled: true, Pairs: 1_000}, trust.Factors{V: .8, I: 1, C: 1, F: .05}},
	} {
		got := trust.Of(c.k)
		for factor, pair := range map[string][2]float64{
			"V": {got.V, c.want.V}, "I": {got.I, c.want.I}, "C": {got.C, c.want.C}, "F": {got.F, c.want.F},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-14 {
				t.Errorf("%s: got %s = %v, want %v", c.name, factor, pair[0], pair[1])
			}
		}
		want := max(.05, c.want.V*c.want.I*c.want.C*c.want.F)
		if value := got.Value(); math.Abs(value-want) > 1e-14 {
			t.Errorf("%s: got the trust %v, want %v", c.name, value, want)
		}
	}
}

func TestHighNeedsEightyPassedObservations(t *testing.T) {
	t.Parallel()
	if f := trust.Of(honest()); !f.High() {
		t.Errorf("80 passed: got %v, want high", f.Value())
	}
	k := honest()
	k.Passed = 79.999
	if f := trust.Of(k); f.High() {
		t.Errorf("79.999 passed: got %v, want not high", f.Value())
	}
}

// An honest year: from its eightieth observation on an offer is high while M is below 1
// and recalls pass each week. Observations are counted without their age here.
func TestAnHonestOfferIsHighFromItsEightiethObservation(t *testing.T) {
	t.Parallel()
	for stream := range uint64(20) {
		s := years.NewSource(1, stream)
		var p evidence.Process
		passed := 0.0
		for n := 1; n <= 2_000; n++ {
			exceeded := s.Below(.0006)
			o, err := evidence.Judged(evidence.Greedy, exceeded)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Observe(o); err != nil {
				t.Fatal(err)
			}
			if !exceeded {
				passed++
			}
			k := trust.Facts{
				Passed: passed, M: p.M(), Recalled: true, SinceRecall: time.Duration(n%7) * day, Pairs: 20 * s.Float(),
			}
			if got := trust.Of(k); passed >= 80 && k.M < 1 && !got.High() {
				t.Fatalf("after %d: got the trust %v of %+v, want high", n, got.Value(), k)
			}
		}
	}
}

// With their age the eightieth counts on the twelfth day of eight a day.
func TestEightADayMakeHighInTwelveDays(t *testing.T) {
	t.Parallel()
	passed, days := 0.0, 0
	for k := honest(); !trust.Of(k).High() || days == 0; days++ {
		for range 8 {
			passed = trust.Decay(passed, 3*time.Hour) + 1
		}
		k.Passed = passed
	}
	if days != 12 {
		t.Errorf("got %d days, want 12", days)
	}
}

func TestTrustIsMonotoneInEachFact(t *testing.T) {
	t.Parallel()
	s := years.NewSource(2, 2)
	wide := func() float64 { return math.Exp(40*s.Float() - 20) }
	for range 50_000 {
		k := trust.Facts{
			Passed: wide(), M: wide(), Recalled: s.Below(.9), SinceRecall: time.Duration(40 * s.Float() * float64(day)),
			Pairs: wide(),
		}
		better := map[string]trust.Facts{}
		for _, change := range []struct {
			name string
			to   func(*trust.Facts)
		}{
			{"more passed", func(k *trust.Facts) { k.Passed *= 1 + s.Float() }},
			{"smaller M", func(k *trust.Facts) { k.M *= s.Float() }},
			{"later recall", func(k *trust.Facts) {
				k.Recalled, k.SinceRecall = true, time.Duration(s.Float()*float64(k.SinceRecall))
			}},
			{"smaller F", func(k *trust.Facts) { k.Pairs *= s.Float() }},
		} {
			other := k
			change.to(&other)
			better[change.name] = other
		}
		value := trust.Of(k).Value()
		if value < trust.Min || value > trust.Max {
			t.Fatalf("%+v: got %v", k, value)
		}
		for name, other := range better {
			// The logarithm is right to 2⁻⁵⁰ and not monotone below that.
			if got := trust.Of(other).Value(); got < value-1e-14 {
				t.Fatalf("%s: got %v of %+v, want at least %v of %+v", name, got, other, value, k)
			}
		}
	}
}

func TestNothingLeavesTheRangeOfTrust(t *testing.T) {
	t.Parallel()
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 5e-324, math.MaxFloat64, 80}
	for _, passed := range odd {
		for _, m := range odd {
			for _, pairs := range odd {
				for _, since := range []time.Duration{math.MinInt64, -1, 0, math.MaxInt64} {
					f := trust.Of(trust.Facts{Passed: passed, M: m, Recalled: true, SinceRecall: since, Pairs: pairs})
					if got := f.Value(); !(got >= trust.Min && got <= trust.Max) {
						t.Errorf("%v, %v, %v, %v: got %v", passed, m, pairs, since, got)
					}
					for _, factor := range []float64{f.V, f.I, f.C, f.F} {
						if !(factor >= 0 && factor <= 1) {
							t.Errorf("%v, %v, %v, %v: got the factors %+v", passed, m, pairs, since, f)
						}
					}
				}
			}
		}
	}
	for _, f := range []trust.Factors{{V: math.NaN(), I: 1, C: 1, F: 1}, {}} {
		if got := f.Value(); got != trust.Min {
			t.Errorf("%+v: got %v, want %v", f, got, trust.Min)
		}
	}
	if got := (trust.Factors{V: 2, I: 2, C: 2, F: 2}).Value(); got != trust.Max {
		t.Errorf("got %v, want %v", got, trust.Max)
	}
}

func TestWhatIsNoNumberCountsAsTheWorst(t *testing.T) {
	t.Parallel()
	f := trust.Of(trust.Facts{Passed: math.NaN(), M: math.NaN(), Recalled: true, Pairs: math.NaN()})
	if want := (trust.Factors{V: .8, I: 0, C: 1, F: .05}); f != want {
		t.Errorf("got %+v, want %+v", f, want)
	}
}

func TestPassedObservationsHalveInThirtyDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		passed  float64
		elapsed time.Duration
		want    float64
	}{
		{80, trust.HalfLife, 40}, {80, 2 * trust.HalfLife, 20}, {80, 0, 80}, {80, -day, 80}, {-1, day, 0},
		{math.NaN(), day, 0}, {80, math.MaxInt64, 0},
	} {
		if got := trust.Decay(c.passed, c.elapsed); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v after %v: got %v, want %v", c.passed, c.elapsed, got, c.want)
		}
	}
	if got := trust.Decay(trust.Decay(80, 10*day), 20*day); math.Abs(got-40) > 1e-12 {
		t.Errorf("in two steps: got %v, want 40", got)
	}
}

func TestTheBitsOfTrustAreKnown(t *testing.T) {
	t.Parallel()
	s := years.NewSource(3, 3)
	sum := uint64(0)
	for range 20_000 {
		k := trust.Facts{
			Passed: trust.Decay(200*s.Float(), time.Duration(s.Float()*1e16)), M: 1_200 * s.Float() * s.Float(),
			Recalled: true, SinceRecall: time.Duration(s.Float() * 3e15), Pairs: 30 * s.Float(),
		}
		sum = sum*31 + math.Float64bits(trust.Of(k).Value())
	}
	if want := uint64(0xaf1d19b9a36747f9); sum != want {
		t.Errorf("got %#x, want %#x", sum, want)
	}
}

func TestLanesHaveNames(t *testing.T) {
	t.Parallel()
	for _, l := range []trust.Lane{trust.Main, trust.Probe, trust.Shut} {
		got, err := trust.ParseLane(l.String())
		if err != nil {
			t.Fatal(err)
		}
		if got != l {
			t.Errorf("got %v, want %v", got, l)
		}
	}
	for _, name := range []string{"", "Main", "lane 7"} {
		got, err := trust.ParseLane(name)
		if !errors.Is(err, trust.ErrLane) {
			t.Errorf("%q: got the error %v, want %v", name, err, trust.ErrLane)
		}
		if got != trust.Shut {
			t.Errorf("%q: got %v, want %v", name, got, trust.Shut)
		}
	}
}

func TestAnOfferHasTheWorseOfTwoLanes(t *testing.T) {
	t.Parallel()
	order := []trust.Lane{trust.Main, trust.Probe, trust.Shut}
	for i, a := range order {
		for j, b := range order {
			if got, want := trust.Worse(a, b), order[max(i, j)]; got != want {
				t.Errorf("%q and %q: got %q, want %q", a, b, got, want)
			}
		}
		if got := trust.Worse("", a); got != a {
			t.Errorf("none and %q: got %q, want %q", a, got, a)
		}
	}
	if got := trust.Worse("other", trust.Main); got != trust.Shut {
		t.Errorf("an unknown lane: got %q, want %q", got, trust.Shut)
	}
	if got := trust.Worse("", ""); got != trust.Main {
		t.Errorf("no lane: got %q, want %q", got, trust.Main)
	}
}
