package camouflage

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// requestsADay is how many requests an offer has, and session how many of them one
	// consumer makes in a row, in the mean.
	requestsADay = 2_000
	session      = 3
	// pause is the mean pause between two requests of a session.
	pause = 90 * time.Second
	// medianAnswer and spreadAnswer say how long answers are where nothing bounds them.
	medianAnswer = 180
	spreadAnswer = .8
	// payoutInput and payoutOutput are what a token earns, in nano-USD.
	payoutInput  = 90
	payoutOutput = 360
)

// monday is when the week begins that is played.
var monday = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// hourly is how many requests come in each hour of the day, relatively.
func hourly(hour int) float64 { return 1 + .8*math.Sin(float64(hour-8)*math.Pi/12) }

// arrivals returns when consumers ask one offer in a week: sessions that begin as a Poisson
// process along the day, each with a few requests.
func arrivals(d *rand.Rand) []time.Time {
	var all []time.Time
	perHour := float64(requestsADay) / session / 24
	for hour := range 7 * 24 {
		for at := 0.0; ; {
			if at += d.ExpFloat64() / (perHour * hourly(hour%24)); at >= 1 {
				break
			}
			when := monday.Add(time.Duration((float64(hour) + at) * float64(time.Hour)))
			for more := true; more; more = d.Float64() > 1.0/session {
				all = append(all, when)
				when = when.Add(time.Duration(d.ExpFloat64() * float64(pause)))
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// gapBefore returns how long before a time the last of the arrivals was.
func gapBefore(all []time.Time, at time.Time) time.Duration {
	i, _ := slices.BinarySearchFunc(all, at, time.Time.Compare)
	if i == 0 {
		return 0
	}
	return at.Sub(all[i-1])
}

// earned returns what a request earns: its prompt and an answer of a drawn length, as far
// as bound allows.
func earned(d *rand.Rand, promptBytes, bound int, hungUp bool) int64 {
	answer := medianAnswer * math.Exp(spreadAnswer*d.NormFloat64())
	if bound > 0 {
		answer = math.Min(answer, float64(bound))
	}
	if hungUp {
		answer = math.Min(answer, 4+28*d.Float64())
	}
	return int64(promptBytes/4)*payoutInput + int64(answer)*payoutOutput
}

// Played gives requests of consumers their times, gaps and earnings, by a fixed seed, and
// returns their samples.
func Played(requests []Request) ([]Sample, error) {
	d := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // the same week on every run
	times := arrivals(d)
	samples := make([]Sample, len(requests))
	for i, r := range requests {
		at := 1 + d.IntN(len(times)-1)
		r.At, r.Gap = times[at], times[at].Sub(times[at-1])
		s, err := withEarnings(d, r)
		if err != nil {
			return nil, err
		}
		samples[i] = s
	}
	return samples, nil
}

// withEarnings returns the sample of a request that is given its earnings.
func withEarnings(d *rand.Rand, r Request) (Sample, error) {
	s, err := Of(r)
	if err != nil {
		return nil, err
	}
	bound := int(s[index("max_tokens")])
	r.EarnedNano = earned(d, int(s[index("text_bytes")]), max(0, bound), r.HungUp)
	s[index("earned_log")] = math.Log1p(float64(r.EarnedNano))
	return s, nil
}
