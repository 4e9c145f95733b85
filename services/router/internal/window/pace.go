package window

import (
	"slices"
	"time"
)

const (
	// ShortPrompt is the length up to which a prompt takes no noticeable time, in tokens.
	ShortPrompt = 1_024
	// paceSamples is the least number of answers to short prompts, and to long ones, that
	// a pace is made of.
	paceSamples = 5
	// priorBase and priorSlope are the pace of a model whose pace is not known: 800 ms,
	// and 4,000 tokens of prompt a second.
	priorBase  = 800 * time.Millisecond
	priorSlope = 250 * time.Microsecond
	// maxFactor bounds how much longer the length of a prompt can make the usual time.
	maxFactor = 100
)

// Pace is how the time to first content depends on the prompt: Base for a short prompt,
// and Slope more for each token of a longer one. The zero Pace is not known.
type Pace struct {
	Base  time.Duration // 0 where too few short prompts were seen
	Slope time.Duration // for each token; 0 where too few long prompts were seen
}

// At returns the usual time to first content for a prompt of this length; 0 where too few
// prompts of its kind were seen.
func (p Pace) At(promptTokens int64) time.Duration {
	switch {
	case promptTokens <= ShortPrompt:
		return p.Base
	case p.Slope == 0:
		return 0
	}
	return p.Base + grow(p.Slope, promptTokens)
}

// grow returns the time that a prompt of this length takes, at most an hour.
func grow(slope time.Duration, promptTokens int64) time.Duration {
	const longest = time.Hour
	if promptTokens > int64(longest/max(slope, 1)) {
		return longest
	}
	return slope * time.Duration(promptTokens)
}

// Short converts a time to first content for a prompt of this length to the time for a
// short prompt, so that providers with long prompts can be compared with others.
func (p Pace) Short(first time.Duration, promptTokens int64) time.Duration {
	if promptTokens <= ShortPrompt {
		return first
	}
	if p.Base == 0 {
		p.Base = priorBase
	}
	if p.Slope == 0 {
		p.Slope = priorSlope
	}
	factor := min(float64(p.Base+grow(p.Slope, promptTokens))/float64(p.Base), maxFactor)
	return max(time.Duration(float64(first)/factor), 1)
}

// Pace returns the pace of the answers of the last Span; the zero Pace where there are
// fewer than paceSamples. It sorts the samples, so it is called when nobody waits.
func (w *Window) Pace(now time.Time) Pace {
	w.mu.Lock()
	defer w.mu.Unlock()
	var short, long [MaxSamples]time.Duration
	shorts, longs, oldest := short[:0], long[:0], now.Add(-Span).UnixMilli()
	each := func(take func(s *kept, first time.Duration)) {
		for i := range w.samples {
			if s := &w.samples[i]; s.served && s.first > 0 && s.at > oldest {
				take(s, time.Duration(s.first)*firstUnit)
			}
		}
	}
	each(func(s *kept, first time.Duration) {
		if s.prompt <= ShortPrompt {
			shorts = append(shorts, first)
		}
	})
	var p Pace
	if len(shorts) >= paceSamples {
		p.Base = Median(shorts)
	}
	each(func(s *kept, first time.Duration) {
		if s.prompt > ShortPrompt {
			longs = append(longs, max(first-p.Base, 0)/time.Duration(s.prompt))
		}
	})
	if len(longs) >= paceSamples {
		p.Slope = max(Median(longs), 1)
	}
	return p
}

// Median sorts all and returns the middle one, and the greater of the two in the middle
// of an even number. all must not be empty.
func Median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
