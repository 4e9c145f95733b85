package years_test

import (
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
)

func career(t *testing.T, p years.Provider, seed uint64) years.Career {
	t.Helper()
	c, err := p.Career(years.NewSource(seed, 1), 365)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// §11's gate: three times the exceedance that was calibrated costs a year of notices and
// confirmations, and never money.
func TestHonestYearsAreNeverSlashed(t *testing.T) {
	t.Parallel()
	for rate, count := range map[float64]int{.0006: 1_000, .01: 300, .03: 1_000} {
		notices := 0
		for i := range fewer(count) {
			c := career(t, years.Of(evidence.Greedy, rate), uint64(i))
			notices += c.Notices
			if c.Slashed {
				t.Errorf("rate %v, year %d: slashed after %v days", rate, i, c.Days)
			}
		}
		t.Logf("rate %v: %d notices", rate, notices)
		if rate < .01 && notices > 0 {
			t.Errorf("rate %v: got %d notices, want 0", rate, notices)
		}
	}
}

// §10: the first slash comes within these days in 95 of 100 years. A tenth rerouted takes
// most of a year.
func TestCheatsAreSlashedInTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rate, days float64 }{{.8, 2.7}, {.2, 13}, {.1, 300}} {
		hours := make([]int, fewer(1_000))
		for i := range hours {
			hours[i] = 366 * 24
			if got := career(t, years.Of(evidence.Greedy, c.rate), uint64(i)); got.Slashed {
				hours[i] = int(got.Days * 24)
			}
		}
		median, late := float64(years.Quantile(hours, .5))/24, float64(years.Quantile(hours, .95))/24
		t.Logf("rate %v: slashed after %.1f days, 95 of 100 after %.1f", c.rate, median, late)
		if late > c.days {
			t.Errorf("rate %v: got %v days, want at most %v", c.rate, late, c.days)
		}
	}
}

// A rate of exactly the confirmation's null is proven in at most 10⁻⁴ of confirmations.
func TestTheBorderOfTheSecondNullIsHardlyEverSlashed(t *testing.T) {
	t.Parallel()
	slashed, confirmations := 0, 0
	for i := range fewer(400) {
		c := career(t, years.Of(evidence.Greedy, .05), uint64(1_000+i))
		confirmations += c.Confirmations
		if c.Slashed {
			slashed++
		}
	}
	t.Logf("%d slashed in %d confirmations", slashed, confirmations)
	// An expectation of .45 at most: more than 3 has a chance below 2 in 1,000.
	if slashed > 3 {
		t.Errorf("got %d slashed in %d confirmations, want at most 3", slashed, confirmations)
	}
}
