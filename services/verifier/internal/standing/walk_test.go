package standing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/trust"
)

// walk observes probes of which a share is void by the provider's doing, and returns in how
// many of them the offer was in the probe lane.
func walk(seed uint64, probes int, void float64) (held int) {
	var k Unjudged
	r := rand.New(rand.NewPCG(seed, 1))
	at := time.UnixMicro(1).UTC()
	for range probes {
		at = at.Add(time.Minute)
		k.observe(evidence.Greedy, r.Float64() < void, at)
		if k.Lane() == trust.Probe {
			held++
		}
	}
	return held
}

// chance is the bound of a year in the comment of UnjudgedVoids.
func chance(void float64) float64 {
	const families = 5
	low, high := math.Pow(unjudgedCounts*(1-void)/void, .25), 1/void+1
	for range 100 {
		x := (low + high) / 2
		if void*x+(1-void)*math.Pow(x, -unjudgedCounts) > 1 {
			high = x
		} else {
			low = x
		}
	}
	return families * evidence.Horizon * math.Pow(low, -UnjudgedVoids)
}

func TestHonestYearsAreNeverInTheProbeLane(t *testing.T) {
	t.Parallel()
	for void, most := range map[float64]float64{.001: 1e-54, .01: 1e-34, .05: 1e-20, .15: 4e-12, .25: 2e-7} {
		if got := chance(void); got > most {
			t.Errorf("a share of %v void: got the chance %v, want at most %v", void, got, most)
		}
	}
	for year := range uint64(100) {
		if got := walk(year, evidence.Horizon, .15); got != 0 {
			t.Errorf("year %d at a share of .15: got %d probes in the probe lane, want none", year, got)
		}
	}
}

func TestTheBoundHoldsWhereItCanBeCounted(t *testing.T) {
	t.Parallel()
	const probes, void = 2_000_000, .5
	if got, want := float64(walk(7, probes, void))/probes, chance(void)/5/evidence.Horizon; got > want {
		t.Errorf("got a share of %v in the probe lane, want at most %v", got, want)
	}
}

// A provider that is judged by one probe of twenty gains little.
func TestWhoIsSeldomJudgedIsMostlyInTheProbeLane(t *testing.T) {
	t.Parallel()
	const probes = 100_000
	if got := float64(walk(8, probes, .95)) / probes; got < .8 {
		t.Errorf("got a share of %v in the probe lane, want at least .8", got)
	}
}
