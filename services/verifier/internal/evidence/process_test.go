package evidence_test

import (
	"encoding"
	"errors"
	"hash/fnv"
	"math"
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
)

// judged is evidence.Judged for families that have a threshold.
func judged(t testing.TB, f evidence.Family, exceeded bool) evidence.Observation {
	t.Helper()
	o, err := evidence.Judged(f, exceeded)
	if err != nil {
		t.Fatalf("%v: %v", f, err)
	}
	return o
}

// weighed is an observation of family R with one ratio per alternative, all with the bound u.
func weighed(t testing.TB, u float64, ratios map[evidence.Alternative]float64) evidence.Observation {
	t.Helper()
	var r evidence.Ratios
	for g, ratio := range ratios {
		if err := r.Set(g, ratio, evidence.RatioBound(u)); err != nil {
			t.Fatal(err)
		}
	}
	o, err := evidence.Weighed(r)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// observer is a state that takes a whole probe and says nothing.
type observer interface {
	Observe(probe ...evidence.Observation) error
}

// observe gives a state the observations of one probe.
func observe(t testing.TB, to observer, probe ...evidence.Observation) {
	t.Helper()
	if err := to.Observe(probe...); err != nil {
		t.Fatal(err)
	}
}

// confirm gives a confirmation the observations of one probe and returns the outcome.
func confirm(t testing.TB, c *evidence.Confirmation, probe ...evidence.Observation) evidence.Outcome {
	t.Helper()
	outcome, err := c.Observe(probe...)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-12*math.Abs(want) }

func TestAProcessFollowsTheRecursion(t *testing.T) {
	t.Parallel()
	var p evidence.Process
	products := [6]float64{}
	for i, exceeded := range []bool{true, false, true, true, false} {
		sum := 0.0
		for j, q := range []float64{.05, .1, .2, .4, .7, .95} {
			e := (1 - q) / .99
			if exceeded {
				e = q / .01
			}
			products[j] = (products[j] + 1.0/20_000) * e
			sum += products[j]
		}
		observe(t, &p, judged(t, evidence.Logprobs, exceeded))
		if got, want := p.Of(evidence.Logprobs), sum/6; !near(got, want) {
			t.Errorf("M_C after %d: got %v, want %v", i+1, got, want)
		}
		if got, want := p.M(), .2*sum/6; !near(got, want) {
			t.Errorf("M after %d: got %v, want %v", i+1, got, want)
		}
	}
}

func TestSampledAnswersMoveTheMeanOverAlternativesAndBets(t *testing.T) {
	t.Parallel()
	var p evidence.Process
	observe(t, &p, weighed(t, 1.6, map[evidence.Alternative]float64{evidence.Class4: 1e9, evidence.Hotter: .08}))
	sum := 0.0
	for _, e := range []float64{20 / 1.6, .05} {
		for _, share := range []float64{.05, .2, .6, .95} {
			sum += (1 - share + share*e) / 20_000
		}
	}
	if got, want := p.Of(evidence.Sampled), sum/8; !near(got, want) {
		t.Errorf("M_R: got %v, want %v", got, want)
	}
	if got, want := p.M(), .15*sum/8; !near(got, want) {
		t.Errorf("M: got %v, want %v", got, want)
	}
}

// Were the mean raised by an alternative that joins, evidence would come of nothing.
func TestAnAlternativeThatJoinsDoesNotMoveTheMean(t *testing.T) {
	t.Parallel()
	var p evidence.Process
	c := evidence.NewConfirmation()
	for range 3 {
		observe(t, &p, weighed(t, 1, map[evidence.Alternative]float64{evidence.Class4: 0}))
		confirm(t, &c, weighed(t, 1, map[evidence.Alternative]float64{evidence.Class4: 0}))
	}
	before, beforeE := p.Of(evidence.Sampled), c.E()
	// e = 1 for the new one leaves each of its products, but for the capital.
	observe(t, &p, weighed(t, 1, map[evidence.Alternative]float64{evidence.Sibling: 1}))
	confirm(t, &c, weighed(t, 1, map[evidence.Alternative]float64{evidence.Sibling: 1.25}))
	if got, want := p.Of(evidence.Sampled), before+.5/20_000; !near(got, want) {
		t.Errorf("M_R: got %v, want %v", got, want)
	}
	if got := c.E(); !near(got, beforeE) {
		t.Errorf("E: got %v, want %v", got, beforeE)
	}
}

func TestLeadingIsTheFamilyWithTheLargestTerm(t *testing.T) {
	t.Parallel()
	var p evidence.Process
	if got := p.Leading(); got != evidence.NoFamily {
		t.Errorf("without observations: got %v, want %v", got, evidence.NoFamily)
	}
	observe(t, &p, judged(t, evidence.Usage, true))
	observe(t, &p, judged(t, evidence.Recall, true))
	if got := p.Leading(); got != evidence.Recall {
		t.Errorf("one exceedance each, recall has the larger share: got %v, want %v", got, evidence.Recall)
	}
	observe(t, &p, judged(t, evidence.Usage, true))
	if got := p.Leading(); got != evidence.Usage {
		t.Errorf("two against one: got %v, want %v", got, evidence.Usage)
	}
	p.Reset()
	if got := p.M(); got != 0 {
		t.Errorf("M after a reset: got %v, want 0", got)
	}
	if p != (evidence.Process{}) {
		t.Error("a reset left something")
	}
}

func TestOnlyTheFamilyOfAnObservationMoves(t *testing.T) {
	t.Parallel()
	for _, f := range evidence.Families() {
		var p evidence.Process
		if f == evidence.Sampled {
			observe(t, &p, weighed(t, 1, map[evidence.Alternative]float64{evidence.Cooler: 3}))
		} else {
			observe(t, &p, judged(t, f, true))
		}
		for _, other := range evidence.Families() {
			if got := p.Of(other) > 0; got != (other == f) {
				t.Errorf("observed %v: moved %v is %v", f, other, got)
			}
		}
	}
	var p evidence.Process
	observe(t, &p, evidence.Observation{}, evidence.Observation{})
	if p != (evidence.Process{}) {
		t.Error("the zero observation moved a process")
	}
}

// Two bits of one answer may both be 1 as often as one of them is.
func TestAProbeObservesEachFamilyOnce(t *testing.T) {
	t.Parallel()
	twice := []evidence.Observation{
		judged(t, evidence.Usage, true), judged(t, evidence.Greedy, false), judged(t, evidence.Usage, false),
	}
	var p evidence.Process
	if err := p.Observe(twice...); !errors.Is(err, evidence.ErrFamily) {
		t.Errorf("process: got the error %v, want %v", err, evidence.ErrFamily)
	}
	if p != (evidence.Process{}) {
		t.Error("process: a refused probe moved it")
	}
	c := evidence.NewConfirmation()
	if _, err := c.Observe(twice...); !errors.Is(err, evidence.ErrFamily) {
		t.Errorf("confirmation: got the error %v, want %v", err, evidence.ErrFamily)
	}
	if c != evidence.NewConfirmation() {
		t.Error("confirmation: a refused probe moved it")
	}
	r := evidence.NewRecovery(evidence.Greedy)
	if err := r.Observe(twice...); !errors.Is(err, evidence.ErrFamily) {
		t.Errorf("recovery: got the error %v, want %v", err, evidence.ErrFamily)
	}
	if r != evidence.NewRecovery(evidence.Greedy) {
		t.Error("recovery: a refused probe moved it")
	}
}

func TestNoStreakLeavesTheNumbers(t *testing.T) {
	t.Parallel()
	var p evidence.Process
	c, r := evidence.NewConfirmation(), evidence.NewRecovery(evidence.Greedy)
	var f evidence.Pairs
	for range 2_000 {
		for _, family := range evidence.Families() {
			o := weighed(t, 1, map[evidence.Alternative]float64{evidence.Class8: math.Inf(1)})
			if family != evidence.Sampled {
				o = judged(t, family, true)
			}
			observe(t, &p, o)
			observe(t, &r, o)
		}
		confirm(t, &c, judged(t, evidence.Greedy, false))
		f.Observe(false, true)
	}
	for name, got := range map[string]float64{"M": p.M(), "E": c.E(), "R": r.Ratio(evidence.Greedy), "F": f.M()} {
		if !(got > 0 && got <= math.MaxFloat64) {
			t.Errorf("%s: got %v, want an ordinary number", name, got)
		}
	}
	for _, s := range []state{&p, &c, &r, &f} {
		roundTrip(t, s)
	}
	if got := p.M(); got > 0x1p100 {
		t.Errorf("M: got %v, want at most 2^100", got)
	}
}

// The bits are those of every machine and every later version: replays compare them.
func TestTheBitsOfAHundredThousandObservationsAreKnown(t *testing.T) {
	t.Parallel()
	s := years.NewSource(20_250_101, 7)
	hash := fnv.New64a()
	var p evidence.Process
	c, r := evidence.NewConfirmation(), evidence.NewRecovery(evidence.Greedy)
	var f evidence.Pairs
	write := func(x float64) {
		bits := math.Float64bits(x)
		for i := range 8 {
			_, _ = hash.Write([]byte{byte(bits >> (8 * i))})
		}
	}
	for i := range 100_000 {
		o := anyObservation(t, s)
		observe(t, &p, o)
		observe(t, &r, o)
		if confirm(t, &c, o) != evidence.Open {
			c = evidence.NewConfirmation()
		}
		f.Observe(s.Below(.1), s.Below(.12))
		for _, x := range []float64{p.M(), c.E(), r.Ratio(evidence.Greedy), f.M()} {
			write(x)
		}
		if p.M() > 1e12 {
			p.Reset()
		}
		if i%1_000 == 0 {
			for _, m := range []encoding.BinaryMarshaler{&p, &c, &r, &f} {
				b, err := m.MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				_, _ = hash.Write(b)
			}
		}
	}
	if got, want := hash.Sum64(), uint64(0x236ae6912b549017); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}

// anyObservation draws an observation of any family, mostly honest ones.
func anyObservation(t testing.TB, s years.Source) evidence.Observation {
	t.Helper()
	families := evidence.Families()
	f := families[s.Index(len(families))]
	if f != evidence.Sampled {
		return judged(t, f, s.Below(.03))
	}
	var r evidence.Ratios
	for g := range evidence.Alternative(evidence.Alternatives) {
		if g != evidence.Hotter && s.Below(.5) {
			continue
		}
		bound, err := evidence.NewRatioBound(s.Float(), 3*s.Float(), 1_604+s.Index(1_000))
		if err != nil {
			t.Fatal(err)
		}
		x := s.Float()
		// The product is converted, because arm64 would fuse it with the sum.
		if err := r.Set(g, float64(4*x*x)+float64(s.Index(2)*s.Index(15)), bound); err != nil {
			t.Fatal(err)
		}
	}
	o, err := evidence.Weighed(r)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
