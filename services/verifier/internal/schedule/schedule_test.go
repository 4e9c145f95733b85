package schedule_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/schedule"
)

func TestTheRateFollowsTheOffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		standing schedule.Standing
		want     float64
	}{
		"idle":               {schedule.Standing{}, 8},
		"small":              {schedule.Standing{RequestsADay: 1_000}, 8},
		"some":               {schedule.Standing{RequestsADay: 3_000}, 15},
		"much":               {schedule.Standing{RequestsADay: 1e9}, 24},
		"absurd":             {schedule.Standing{RequestsADay: math.NaN()}, 8},
		"below nothing":      {schedule.Standing{RequestsADay: math.Inf(-1)}, 8},
		"new files":          {schedule.Standing{Changed: true}, 16},
		"earns most":         {schedule.Standing{RequestsADay: 1e6, TopEarner: true, Changed: true}, 48},
		"first day":          {schedule.Standing{New: true}, 48},
		"watched":            {schedule.Standing{Watched: true, Changed: true}, 48},
		"one is left":        {schedule.Standing{Watched: true, Observations: evidence.Horizon - 1}, 48},
		"has had its year":   {schedule.Standing{Watched: true, Observations: evidence.Horizon}, 0},
		"more than its year": {schedule.Standing{Observations: evidence.Horizon + 5}, 0},
	} {
		if got := schedule.Rate(c.standing); got != c.want {
			t.Errorf("%s: got %v a day, want %v", name, got, c.want)
		}
	}
}

// Nobody is probed so often that the bound of false alarms would not hold for a year.
func TestNoRateExceedsTheYear(t *testing.T) {
	t.Parallel()
	if got := schedule.Highest * 365; got > evidence.Horizon {
		t.Errorf("a year at the highest rate: got %d probes, want at most %d", got, evidence.Horizon)
	}
}

var monday = time.Date(2026, 3, 2, 5, 30, 0, 0, time.UTC)

// arrivals draws the times of a number of days.
func arrivals(perDay float64, hours schedule.Hours, days int) []time.Time {
	dice := rand.New(rand.NewPCG(1, 2))
	var all []time.Time
	for at := monday; ; {
		at = schedule.Next(at, perDay, hours, 1-dice.Float64())
		if at.Sub(monday) > time.Duration(days)*24*time.Hour {
			return all
		}
		all = append(all, at)
	}
}

func TestProbesFollowTheHoursOfTheOffer(t *testing.T) {
	t.Parallel()
	var day schedule.Hours
	for h := 9; h < 17; h++ {
		day[h] = 5
	}
	const days = 2_000
	all := arrivals(24, day, days)
	if got, want := float64(len(all)), 24.0*days; math.Abs(got-want) > 5*math.Sqrt(want) {
		t.Errorf("probes: got %v, want %v ± %v", got, want, 5*math.Sqrt(want))
	}
	within := 0.0
	for _, at := range all {
		if h := at.Hour(); h >= 9 && h < 17 {
			within++
		}
	}
	// Nine tenths by the hours, and a third of the even tenth.
	want := (.9 + .1*8/24) * float64(len(all))
	if math.Abs(within-want) > 5*math.Sqrt(want) {
		t.Errorf("probes in the offer's hours: got %v, want %v ± %v", within, want, 5*math.Sqrt(want))
	}
}

// The variance of the counts of a Poisson process is their mean.
func TestAServedProbeSaysNothingOfTheNext(t *testing.T) {
	t.Parallel()
	const days = 4_000
	counts := make([]float64, days)
	for _, at := range arrivals(8, schedule.Hours{}, days) {
		counts[min(int(at.Sub(monday).Hours()/24), days-1)]++
	}
	mean, spread := 0.0, 0.0
	for _, n := range counts {
		mean += n / days
	}
	for _, n := range counts {
		spread += (n - mean) * (n - mean) / days
	}
	if got := spread / mean; got < .85 || got > 1.15 {
		t.Errorf("variance ÷ mean: got %v, want 1 ± .15", got)
	}
}

func TestNextIsBoundedForEveryInput(t *testing.T) {
	t.Parallel()
	absurd := schedule.Hours{math.NaN(), math.Inf(1), -5, math.MaxFloat64, math.MaxFloat64}
	for _, perDay := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-300, 1e300, 24} {
		for _, u := range []float64{0, -1, math.NaN(), math.SmallestNonzeroFloat64, .5, 1, 2, math.Inf(1)} {
			for _, hours := range []schedule.Hours{{}, absurd, {3: 1}} {
				got := schedule.Next(monday, perDay, hours, u)
				if ahead := got.Sub(monday); ahead < 0 || ahead > 7*24*time.Hour {
					t.Errorf("rate %v, u %v, hours %v: got %v ahead, want at most a week", perDay, u, hours, ahead)
				}
			}
		}
	}
}
