package lab

import (
	"context"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
)

const (
	// noticeFrom is the M from which notice is given.
	noticeFrom = 1_000
	// longestCareer bounds the observations until a notice.
	longestCareer = 20_000
	// probesPerDay is the rate of an offer at level normal.
	probesPerDay = 8
	// slotsPerDay is how finely days are told apart.
	slotsPerDay = 48
	// daysPerYear is the length of a simulated year on the ladder.
	daysPerYear = 365
)

// until returns how many observations of one family a notice takes, in 95 of 100 runs.
func until(ctx context.Context, o Options, f evidence.Family, rate float64) (int, error) {
	numbers, err := spread(ctx, o, o.scale(4_000, 1_000), func(_ context.Context, i int) (int, error) {
		n, _, err := years.Of(f, rate).Until(years.NewSource(uint64(i), 81), noticeFrom, longestCareer)
		return n, err
	})
	if err != nil {
		return 0, err
	}
	return years.Quantile(numbers, .95), nil
}

// untilNotice returns how many of these observations a notice takes, drawn again and again,
// in 95 of 100 runs.
func (o Options) untilNotice(from []evidence.Observation) (int, error) {
	numbers := make([]int, o.scale(4_000, 1_000))
	for i := range numbers {
		s := years.NewSource(uint64(i), 41)
		var p evidence.Process
		for len(from) > 0 && numbers[i] < longestCareer && p.M() < noticeFrom {
			if err := p.Observe(from[s.Index(len(from))]); err != nil {
				return 0, err
			}
			numbers[i]++
		}
	}
	return years.Quantile(numbers, .95), nil
}

// days are how long something takes in 50 and 95 of 100 years.
type days struct{ median, late float64 }

// daysToNotice are the days to the first notice of a provider on the ladder. A year without
// one counts as a year.
func daysToNotice(ctx context.Context, o Options, d years.Draw) (days, error) {
	slots, err := spread(ctx, o, o.scale(2_000, 500), func(_ context.Context, i int) (int, error) {
		c, err := d.Career(years.NewSource(uint64(i), 42), daysPerYear)
		if c.Notices == 0 {
			return daysPerYear * slotsPerDay, err
		}
		return int(c.FirstNotice * slotsPerDay), err
	})
	if err != nil {
		return days{}, err
	}
	return days{
		float64(years.Quantile(slots, .5)) / slotsPerDay, float64(years.Quantile(slots, .95)) / slotsPerDay,
	}, nil
}

// untilSlash are the days to the first penalty. A year without one counts as a year.
func untilSlash(ctx context.Context, o Options, share float64) (days, error) {
	hours, err := spread(ctx, o, o.scale(1_000, 300), func(_ context.Context, i int) (int, error) {
		c, err := years.Of(evidence.Greedy, share).Career(years.NewSource(uint64(i), 82), daysPerYear)
		return int(c.Days * 24), err
	})
	if err != nil {
		return days{}, err
	}
	return days{float64(years.Quantile(hours, .5)) / 24, float64(years.Quantile(hours, .95)) / 24}, nil
}
