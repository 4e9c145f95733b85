package stats

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"svc.internal/pkg/ids"
)

// What figures rest on, at least.
const (
	LeastShown = 10
	LeastTail  = 20
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
	f := Figures{Requests: s.Requests, Tokens: s.Tokens}
	f.SuccessRate = share(s.Succeeded, s.Judged+s.FailedOver)
	f.RetriedShare = share(s.Retried, s.Requests)
	f.FirstContentP50 = percentile(&s.FirstContent, 0.5, LeastShown)
	f.FirstContentP95 = percentile(&s.FirstContent, 0.95, LeastTail)
	f.SpeedP50 = percentile(&s.Speed, 0.5, LeastShown)
	if f.SpeedP50 != nil {
		*f.SpeedP50 /= speedUnit
	}
	return f
}

func share(part, of int64) *float64 {
	if of < LeastShown {
		return nil
	}
	rate := float64(part) / float64(of)
	return &rate
}

func percentile(h *Histogram, part float64, least int64) *float64 {
	if h.Total() < least {
		return nil
	}
	value := h.Percentile(part)
	return &value
}

// Window is a span of time whose ends are at whole five minutes.
type Window struct{ From, Until time.Time }

// Last returns the window that ends with the five minutes in which a moment lies.
func Last(at time.Time, length time.Duration) Window {
	end := FiveMinutes.Start(at).Add(FiveMinutes.Duration())
	return Window{From: end.Add(-length), Until: end}
}

// Before returns the window of the same length that ends where this one begins.
func (w Window) Before() Window {
	return Window{From: w.From.Add(w.From.Sub(w.Until)), Until: w.From}
}

// Hours returns the whole hours of a window. The rest of it lies before and behind them.
func (w Window) Hours() Window {
	from, until := Hour.Start(w.From.Add(Hour.Duration()-1)), Hour.Start(w.Until)
	if until.Before(from) {
		until = from
	}
	return Window{From: from, Until: until}
}

// Group is what a store reads: the sum of a model at a provider.
type Group struct {
	Model    string
	Provider ids.ProviderID
	Sum      Sum
}

// Answer has the figures of the service.
type Answer struct {
	// MadeAt is up to when reports are counted.
	MadeAt time.Time
	// LastHour and DayBefore are numbers of requests: of the last hour, and of the 24 hours
	// before the last ones.
	LastHour, DayBefore int64
	LastDay             Figures
	Days                []OfDay
	Models              []OfModel
	Providers           []OfProvider
}

// OfDay has the figures of a day (UTC).
type OfDay struct {
	Day time.Time
	Figures
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

// gathering gathers the groups of the last 24 hours.
type gathering struct {
	all        Sum
	byModel    map[string]*Sum
	byProvider map[ids.ProviderID]*Sum
}

func newGathering() *gathering {
	return &gathering{byModel: map[string]*Sum{}, byProvider: map[ids.ProviderID]*Sum{}}
}

// add adds a group. An attempt that failed and that another followed is no failure of the
// request, so it counts against its provider only.
func (g *gathering) add(group *Group) {
	if !group.Provider.IsZero() {
		into(g.byProvider, group.Provider, &group.Sum)
	}
	group.Sum.FailedOver = 0
	g.all.Add(&group.Sum)
	into(g.byModel, group.Model, &group.Sum)
}

func into[K comparable](sums map[K]*Sum, k K, more *Sum) {
	s := sums[k]
	if s == nil {
		s = &Sum{}
		sums[k] = s
	}
	s.Add(more)
}

func (g *gathering) models() []OfModel {
	list := make([]OfModel, 0, len(g.byModel))
	for id, s := range g.byModel {
		list = append(list, OfModel{Model: id, Figures: Of(s)})
	}
	slices.SortFunc(list, func(a, b OfModel) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Model, b.Model))
	})
	return list[:min(len(list), MaxModels)]
}

func (g *gathering) providers() []OfProvider {
	list := make([]OfProvider, 0, len(g.byProvider))
	for id, s := range g.byProvider {
		list = append(list, OfProvider{Provider: id, Figures: Of(s)})
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
		s := sums[day]
		if s == nil {
			s = &Sum{}
		}
		s.FailedOver = 0
		days = append(days, OfDay{Day: day, Figures: Of(s)})
	}
	return days
}
