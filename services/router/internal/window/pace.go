package window

import (
	"slices"
	"time"
)

const (
	// ShortPrompt is up to how many tokens a prompt takes no time to speak of.
	ShortPrompt = 1_024
	// paceSamples is how many answers a pace is taken from at least, of either length.
	paceSamples = 5
	// priorBase and priorSlope are taken of a model whose pace is not known: 800 ms,
	// and 4,000 tokens of prompt a second.
	priorBase  = 800 * time.Millisecond
	priorSlope = 250 * time.Microsecond
	// maxFactor bounds what the length of a prompt can excuse.
	maxFactor = 100
)

// Pace is how the time to first content depends on the prompt: Base of a short one,
// and Slope for each token of a longer one. The zero Pace is not known.
type Pace struct {
	Base  time.Duration // 0 where too few short prompts were seen
	Slope time.Duration // for a token; 0 where too few long prompts were seen
}

// At is the usual time to first content at a prompt's length; 0 when too few prompts
// of its kind were seen.
func (p Pace) At(promptTokens int64) time.Duration {
	switch {
	case promptTokens <= ShortPrompt:
		return p.Base
	case p.Slope == 0:
		return 0
	}
	return p.Base + grow(p.Slope, promptTokens)
}

// grow is the time for a prompt, at most an hour.
func grow(slope time.Duration, promptTokens int64) time.Duration {
	const most = time.Hour
	if promptTokens > int64(most/max(slope, 1)) {
		return most
	}
	return slope * time.Duration(promptTokens)
}

// Short is what a time to first content at a prompt's length would have been for a
// short prompt: providers that are sent long prompts compare with others by it.
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

// Pace is what the answers of the last Span say; the zero Pace of fewer than
// paceSamples. It sorts the samples and is for a moment in which nobody waits.
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

// Median sorts all and returns the one in the middle; of an even number the greater
// of the two. All must not be empty.
func Median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
