// Package window keeps what recent attempts say about one provider and model: how often
// it serves, how soon the first content comes, and how fast the rest follows.
//
// It has two horizons. Health, which selection uses, is the last MaxSamples attempts of
// the last Span: the success rate and the quantiles are exact, and the latency for
// scoring is a moving average in which the newest attempt has a weight of a fifth. The
// public success rate covers 24 hours in hourly counts.
//
// Only attempts that say something about the provider are recorded: served or failed.
// Refused content, a caller who left and a full provider are not. At most
// FailuresOfAccount failures of one account count at a time, and a provider is degraded
// only after failures of DegradedBy accounts, because a consumer can make its own
// requests fail and must not take a provider from others that way.
//
// The latency for scoring is that of short prompts (see Pace), so that long prompts make
// no provider look slow.
//
// A pair takes at most about 2 KiB of memory.
package window

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/tag"
)

const (
	// MaxSamples bounds the attempts that health counts.
	MaxSamples = 64
	// Span is how far back health counts.
	Span = 10 * time.Minute
	// Enough is how many samples a judgement needs.
	Enough = 10
	// DegradedBelow is the success rate below which a provider gets probes only.
	DegradedBelow = 0.8
	// FailuresOfAccount bounds the failures of one account that count within Span.
	FailuresOfAccount = 2
	// DegradedBy is how many accounts must have a failure before a provider is degraded.
	DegradedBy   = 3
	hours        = 24
	newestWeight = 0.2
)

// Sample is one attempt. A latency or rate of zero is not known.
type Sample struct {
	At     time.Time
	Served bool
	// Account is the account whose request it was. It matters for failures.
	Account         tag.Account
	FirstContent    time.Duration
	TokensPerSecond float64
	// Prompt is the length of the prompt in tokens, and Pace how the model's time to
	// first content depends on it.
	Prompt int64
	Pace   Pace
}

// Health is what selection needs to know. The zero value is the health of a pair
// of which nothing is known.
type Health struct {
	Samples int
	// Success is the share of samples that were served, with one success and no failure
	// assumed beforehand; 1 where nothing is known.
	Success float64
	// FirstContent is the moving average for short prompts; 0 where nothing is known.
	FirstContent time.Duration
	// TokensPerSecond is a moving average too.
	TokensPerSecond float64
	Degraded        bool
}

// Figures are what the public sees. All are zero without samples.
type Figures struct {
	Samples            int
	FirstContentP50    time.Duration
	FirstContentP95    time.Duration
	TokensPerSecondP50 float64
	Success24h         float64
}

// kept is a sample as it is remembered, in less than half of its size.
type kept struct {
	at     int64 // Unix milliseconds
	first  uint32
	speed  float32
	prompt uint32
	// account is a part of the tag, which suffices to tell a few accounts apart. It is
	// set for failures.
	account uint16
	served  bool
}

// firstUnit is the unit in which the first content is remembered, up to 71 minutes.
const firstUnit = time.Microsecond

func keep(s Sample) kept {
	return kept{
		at: s.At.UnixMilli(), served: s.Served, speed: float32(s.TokensPerSecond),
		first:   uint32(min(max(s.FirstContent/firstUnit, 0), math.MaxUint32)),
		prompt:  uint32(min(max(s.Prompt, 0), math.MaxUint32)),
		account: uint16(s.Account), // the low bits of a digest
	}
}

type hour struct {
	index          int64 // hours since the epoch
	served, failed uint32
}

// Window is safe for concurrent use.
type Window struct {
	health atomic.Pointer[Health]

	mu      sync.Mutex
	samples []kept // a ring once it is full
	next    int
	average time.Duration
	speed   float64
	hours   [hours]hour
}

// unknown is the health of a pair without samples.
var unknown = Health{Success: 1}

// Health returns the judgement of the last Record or Refresh. It takes no lock.
func (w *Window) Health() Health {
	if h := w.health.Load(); h != nil {
		return *h
	}
	return unknown
}

// Record adds an attempt, unless it is a failure of an account that already has
// FailuresOfAccount of them.
func (w *Window) Record(s Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.Served && w.failuresOfLocked(uint16(s.Account), s.At) >= FailuresOfAccount {
		return
	}
	if len(w.samples) < MaxSamples {
		w.samples = append(w.samples, keep(s))
	} else {
		w.samples[w.next] = keep(s)
		w.next = (w.next + 1) % MaxSamples
	}
	w.count(s)
	if s.Served && s.FirstContent > 0 {
		first := s.Pace.Short(s.FirstContent, s.Prompt)
		if w.average == 0 {
			w.average = first
		}
		w.average += time.Duration(newestWeight * float64(first-w.average))
	}
	if s.Served && s.TokensPerSecond > 0 {
		if w.speed == 0 {
			w.speed = s.TokensPerSecond
		}
		w.speed += newestWeight * (s.TokensPerSecond - w.speed)
	}
	w.judgeLocked(s.At)
}

// failuresOfLocked counts the recent failures of an account.
func (w *Window) failuresOfLocked(account uint16, now time.Time) int {
	n, oldest := 0, now.Add(-Span).UnixMilli()
	for i := range w.samples {
		if s := &w.samples[i]; !s.served && s.account == account && s.at > oldest {
			n++
		}
	}
	return n
}

func (w *Window) count(s Sample) {
	index := s.At.Unix() / 3600
	h := &w.hours[index%hours]
	if h.index != index {
		*h = hour{index: index}
	}
	if s.Served {
		h.served++
	} else {
		h.failed++
	}
}

// Refresh drops samples that have become too old, and reports whether none is left.
func (w *Window) Refresh(now time.Time) (empty bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judgeLocked(now)
	served, failed := w.day(now)
	return served+failed == 0
}

func (w *Window) judgeLocked(now time.Time) {
	var served, all int
	var seen [DegradedBy]uint16 // different accounts that saw a failure
	accounts := 0
	oldest := now.Add(-Span).UnixMilli()
	for i := range w.samples {
		s := &w.samples[i]
		if s.at <= oldest {
			continue
		}
		all++
		switch {
		case s.served:
			served++
		case accounts < DegradedBy && !slices.Contains(seen[:accounts], s.account):
			seen[accounts] = s.account
			accounts++
		}
	}
	if all == 0 {
		w.average, w.speed = 0, 0
		w.health.Store(nil)
		return
	}
	h := Health{
		Samples: all, FirstContent: w.average, TokensPerSecond: w.speed,
		Success: float64(served+1) / float64(all+1),
	}
	h.Degraded = all >= Enough && accounts >= DegradedBy && h.Success < DegradedBelow
	w.health.Store(&h)
}

func (w *Window) day(now time.Time) (served, failed int64) {
	newest := now.Unix() / 3600
	for _, h := range w.hours {
		if h.index > newest-hours && h.index <= newest {
			served += int64(h.served)
			failed += int64(h.failed)
		}
	}
	return served, failed
}

// Figures sums up what the public sees. Latency and speed are of the samples that health
// counts, or of older ones where there are no newer.
func (w *Window) Figures(now time.Time) Figures {
	w.mu.Lock()
	defer w.mu.Unlock()
	served, failed := w.day(now)
	if served+failed == 0 {
		return Figures{}
	}
	firsts := make([]float64, 0, MaxSamples)
	speeds := make([]float64, 0, MaxSamples)
	for _, s := range w.samples {
		if s.served && s.first > 0 {
			firsts = append(firsts, float64(s.first))
		}
		if s.served && s.speed > 0 {
			speeds = append(speeds, float64(s.speed))
		}
	}
	slices.Sort(firsts)
	slices.Sort(speeds)
	return Figures{
		Samples:            int(min(served+failed, math.MaxInt32)),
		FirstContentP50:    time.Duration(quantile(firsts, 0.5)) * firstUnit,
		FirstContentP95:    time.Duration(quantile(firsts, 0.95)) * firstUnit,
		TokensPerSecondP50: quantile(speeds, 0.5),
		Success24h:         float64(served) / float64(served+failed),
	}
}

// quantile returns the nearest rank of sorted values; 0 for none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
