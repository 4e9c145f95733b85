package battery

import (
	"slices"
	"time"
)

// The bounds of what is measured.
const (
	// MaxTimings bounds the timings of a run, and MaxTokens a number of tokens.
	MaxTimings = 1024
	MaxTokens  = 1 << 30
)

// Timing is one answer: its tokens by our count, and the time from its first token to its
// last by the hub's clock. A fast engine's answer may come in one chunk: it is timed from its
// question, which understates its speed. An answer without a time has no speed, and spoils
// no other.
type Timing struct {
	Tokens int64
	Took   time.Duration
}

// timed reports whether the answer has a speed.
func (t Timing) timed() bool { return t.Tokens > 0 && t.Took > 0 }

// Speed is what was timed at one time: answers alone, and times to first token at 4,096
// tokens. FirstTokens is empty for models of smaller windows.
type Speed struct {
	Answers     []Timing
	FirstTokens []time.Duration
}

func (s Speed) possible() bool {
	if len(s.Answers) > MaxTimings || len(s.FirstTokens) > MaxTimings {
		return false
	}
	for _, a := range s.Answers {
		if a.Tokens < 0 || a.Tokens > MaxTokens || a.Took < 0 {
			return false
		}
	}
	return !slices.ContainsFunc(s.FirstTokens, func(d time.Duration) bool { return d < 0 })
}

// TokensPerSecond is the median speed of the answers that have one, the lower one of two
// middle ones, and 0 without any.
func TokensPerSecond(answers []Timing) float64 {
	var speeds []float64
	for _, a := range answers {
		if a.timed() {
			speeds = append(speeds, float64(a.Tokens)/(float64(a.Took)/float64(time.Second)))
		}
	}
	if len(speeds) == 0 {
		return 0
	}
	slices.Sort(speeds)
	return speeds[(len(speeds)-1)/2]
}

// Quantile95 is the smallest duration with at least 95% of all at or below it.
func Quantile95(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[(95*len(sorted)+99)/100-1]
}
