package stats

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"svc.internal/pkg/ids"
)

// What figures rest on, at least.
const (
	LeastShown = 10
	LeastTail  = 20
	// LeastAccounts is how many accounts figures are of.
	LeastAccounts = 5
)

// Bounds of an answer: those with the most requests are in it.
const (
	MaxModels    = 10_000
	MaxProviders = 5_000
	// Days is how many days are shown, today included.
	Days = 30
)

// Figures are what anybody may see of a sum. A figure is nil where it rests on too little.
type Figures struct {
	Requests, Tokens          int64
	SuccessRate, RetriedShare *float64
	FirstContentP50           *float64 // in milliseconds
	FirstContentP95           *float64
	SpeedP50                  *float64 // in tokens a second
}

// Of makes the figures of a sum.
func Of(s *Sum) Figures {
	f := Figures{Requests: Rounded(s.Requests), Tokens: Rounded(s.Tokens)}
	f.SuccessRate = share(s.Succeeded, s.Judged)
	f.RetriedShare = share(s.Retried, s.Requests)
	f.FirstContentP50 = percentile(&s.FirstContent, 0.5, LeastShown)
	f.FirstContentP95 = percentile(&s.FirstContent, 0.95, LeastTail)
	f.SpeedP50 = percentile(&s.Speed, 0.5, LeastShown)
	if f.SpeedP50 != nil {
		*f.SpeedP50 /= speedUnit
	}
	return f
}

func figuresOf(s *Sum) *Figures {
	f := Of(s)
	return &f
}

// Rounded returns a number with two significant digits, a number below 100 in tens, and 0 for one
// below LeastShown. So no number is exact.
func Rounded(n int64) int64 {
	if n < LeastShown {
		return 0
	}
	unit := int64(10)
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// shareScale is the scale of a rate: with more decimals, a rate would tell the numbers that it
// is made of.
const shareScale = 1000

func share(part, of int64) *float64 {
	if of < LeastShown {
		return nil
	}
	rate := math.Round(float64(part)/float64(of)*shareScale) / shareScale
	return &rate
}

func percentile(h *Histogram, part float64, least int64) *float64 {
	if h.Total() < least {
		return nil
	}
	value := h.Percentile(part)
	return &value
}

// Window is a span of time.
type Window struct{ From, Until time.Time }

// Last returns the window that ends with the five minutes in which a moment lies.
func Last(at time.Time, length time.Duration) Window {
	end := FiveMinutes.Start(at).Add(FiveMinutes.Duration())
	return Window{From: end.Add(-length), Until: end}
}

// LastHours returns the window of whole hours up to a moment.
func LastHours(at time.Time, length time.Duration) Window {
	end := Hour.Start(at)
	return Window{From: end.Add(-length), Until: end}
}

// Before returns the window of the same length that ends where this one begins.
func (w Window) Before() Window {
	return Window{From: w.From.Add(w.From.Sub(w.Until)), Until: w.From}
}

func (w Window) has(at time.Time) bool { return !at.Before(w.From) && at.Before(w.Until) }

// Group is what a store reads: the sum of a model or a provider in an hour.
type Group struct {
	Subject
	Sum Sum
}

// Answer has the figures of the service.
type Answer struct {
	// MadeAt is up to when reports are counted.
	MadeAt time.Time
	// LastHour and DayBefore are numbers of requests: of the last hour, and of the 24 hours
	// before the last ones. They and the figures of a span are nil where fewer than LeastAccounts
	// accounts are behind them.
	LastHour, DayBefore *int64
	LastDay             *Figures
	Days                []OfDay
	Models              []OfModel
	Providers           []OfProvider
}

// OfDay has the figures of a day (UTC); nil where they are withheld.
type OfDay struct {
	Day time.Time
	*Figures
}

// OfModel has the figures of a model.
type OfModel struct {
	Model string
	Figures
}

// OfProvider has the figures of a provider.
type OfProvider struct {
	Provider ids.ProviderID
	Figures
}

// gathering gathers the groups of 24 hours.
type gathering map[Subject]*Sum

func (g gathering) add(group *Group) {
	s := g[group.Subject]
	if s == nil {
		s = &Sum{}
		g[group.Subject] = s
	}
	s.Add(&group.Sum)
}

func (g gathering) models() []OfModel {
	var list []OfModel
	for of, s := range g {
		if of.Model != "" {
			list = append(list, OfModel{Model: of.Model, Figures: Of(s)})
		}
	}
	slices.SortFunc(list, func(a, b OfModel) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Model, b.Model))
	})
	return list[:min(len(list), MaxModels)]
}

func (g gathering) providers() []OfProvider {
	var list []OfProvider
	for of, s := range g {
		if !of.Provider.IsZero() {
			list = append(list, OfProvider{Provider: of.Provider, Figures: Of(s)})
		}
	}
	slices.SortFunc(list, func(a, b OfProvider) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), bytes.Compare(a.Provider[:], b.Provider[:]))
	})
	return list[:min(len(list), MaxProviders)]
}

// daysOf returns the days up to the one of a moment, the oldest first.
func daysOf(at time.Time, sums map[time.Time]*Sum) []OfDay {
	days := make([]OfDay, 0, Days)
	for day := Day.Start(at).AddDate(0, 0, 1-Days); len(days) < Days; day = day.AddDate(0, 0, 1) {
		of := OfDay{Day: day}
		if s := sums[day]; s != nil {
			of.Figures = figuresOf(s)
		}
		days = append(days, of)
	}
	return days
}
