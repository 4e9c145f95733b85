// Package uptime measures in what part of a window a provider was connected. Times in
// which the provider could not be connected do not count.
//
// Up is the union of the intervals in which any of the provider's nodes was connected.
// Excused is every time in which no hub ran. Excused is also, after each such time and
// after each connection that the platform ended, the time until the node is back, up to
// Grace. The total is the window without the excused times that were not up. So the
// restart of a hub costs a provider nothing, and the provider's own absence before or
// after the restart counts in full.
//
//	up    = |∪ connected ∩ window|
//	total = |window| − |excused \ connected|
//
// The package is pure: times come in, and a fraction goes out.
package uptime

import (
	"slices"
	"time"
)

// Grace is how long a node may take to come back after the platform's fault.
const Grace = 5 * time.Minute

// Span is the time from From up to, and without, To.
type Span struct{ From, To time.Time }

// Connection is one connection of a node.
type Connection struct {
	Span
	Node string
	// Excused reports that the platform ended it.
	Excused bool
}

// Uptime is a measurement. Total is the time that could be measured.
type Uptime struct{ Up, Total time.Duration }

// Plus is the measurement of two windows that do not overlap.
func (u Uptime) Plus(v Uptime) Uptime { return Uptime{Up: u.Up + v.Up, Total: u.Total + v.Total} }

// Fraction is the part of the total that was up, 0 to 1; nil where nothing could be
// measured.
func (u Uptime) Fraction() *float64 {
	if u.Total <= 0 {
		return nil
	}
	f := float64(u.Up) / float64(u.Total)
	return &f
}

// Measure is how much of window a provider was up whose nodes made these connections,
// while hubs ran in those spans. Neither list need be sorted, and spans may overlap.
func Measure(window Span, connections []Connection, hubs []Span) Uptime {
	spans := make([]Span, 0, len(connections))
	for _, c := range connections {
		spans = append(spans, c.Span)
	}
	up := clip(union(spans), window)
	// An outage that ended just before the window has its grace within the window.
	wide := Span{window.From.Add(-Grace), window.To}
	away := without(wide, clip(union(hubs), wide))
	excused := union(append(graces(connections, away), away...))
	missed := length(subtract(clip(excused, window), up))
	return Uptime{Up: length(up), Total: max(window.To.Sub(window.From), 0) - missed}
}

// graces are the times that nodes had to come back: after connections that the platform
// ended, and after times without a hub.
func graces(connections []Connection, away []Span) []Span {
	byNode := map[string][]Connection{}
	for _, c := range connections {
		byNode[c.Node] = append(byNode[c.Node], c)
	}
	var all []Span
	for _, list := range byNode {
		node := newTimeline(list)
		for _, c := range list {
			if c.Excused {
				all = append(all, node.grace(c.To))
			}
		}
	}
	whole := newTimeline(connections)
	for _, a := range away {
		all = append(all, whole.grace(a.To))
	}
	return all
}

// timeline holds connections in the order of their beginnings, each with the latest end
// of all connections up to it.
type timeline struct {
	sorted []Connection
	latest []time.Time
}

func newTimeline(connections []Connection) timeline {
	l := timeline{sorted: slices.Clone(connections), latest: make([]time.Time, len(connections))}
	slices.SortFunc(l.sorted, func(a, b Connection) int { return a.From.Compare(b.From) })
	for i, c := range l.sorted {
		if l.latest[i] = c.To; i > 0 && c.To.Before(l.latest[i-1]) {
			l.latest[i] = l.latest[i-1]
		}
	}
	return l
}

// grace lasts from a time until a connection stands, at most Grace.
func (l timeline) grace(from time.Time) Span {
	to := from.Add(Grace)
	next, _ := slices.BinarySearchFunc(l.sorted, from, func(c Connection, t time.Time) int { return c.From.Compare(t) })
	if next > 0 && from.Before(l.latest[next-1]) {
		return Span{from, from}
	}
	if next < len(l.sorted) && l.sorted[next].From.Before(to) {
		to = l.sorted[next].From
	}
	return Span{from, to}
}

// union sorts spans and joins spans that touch or overlap. Empty spans vanish.
func union(spans []Span) []Span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b Span) int { return a.From.Compare(b.From) })
	joined := sorted[:0]
	for _, s := range sorted {
		if !s.From.Before(s.To) {
			continue
		}
		if n := len(joined); n > 0 && !joined[n-1].To.Before(s.From) {
			if joined[n-1].To.Before(s.To) {
				joined[n-1].To = s.To
			}
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// clip cuts spans that do not overlap to a window.
func clip(spans []Span, window Span) []Span {
	var cut []Span
	for _, s := range spans {
		if s.From.Before(window.From) {
			s.From = window.From
		}
		if window.To.Before(s.To) {
			s.To = window.To
		}
		if s.From.Before(s.To) {
			cut = append(cut, s)
		}
	}
	return cut
}

// without is a span less other spans, which are sorted and do not overlap.
func without(s Span, others []Span) []Span {
	var left []Span
	from := s.From
	for _, o := range others {
		if o.To.Before(from) {
			continue
		}
		if !o.From.Before(s.To) {
			break
		}
		if from.Before(o.From) {
			left = append(left, Span{from, o.From})
		}
		from = o.To
	}
	if from.Before(s.To) {
		left = append(left, Span{from, s.To})
	}
	return left
}

// subtract is the spans less others. Both are sorted and do not overlap.
func subtract(spans, others []Span) []Span {
	var left []Span
	for _, s := range spans {
		for len(others) > 0 && !s.From.Before(others[0].To) {
			others = others[1:]
		}
		left = append(left, without(s, others)...)
	}
	return left
}

func length(spans []Span) time.Duration {
	var sum time.Duration
	for _, s := range spans {
		sum += s.To.Sub(s.From)
	}
	return sum
}
