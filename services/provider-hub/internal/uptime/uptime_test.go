package uptime

import (
	"math/rand/v2"
	"testing"
	"time"
)

var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func at(minutes float64) time.Time { return epoch.Add(time.Duration(minutes * float64(time.Minute))) }

func span(from, to float64) Span { return Span{at(from), at(to)} }

func by(node string, from, to float64, excused bool) Connection {
	return Connection{Span: span(from, to), Node: node, Excused: excused}
}

func TestWhatThePlatformCostsIsNotTheProvidersDowntime(t *testing.T) {
	const day = 24 * 60
	always := []Span{span(-day, day)}
	cases := map[string]struct {
		connections []Connection
		hubs        []Span
		up, total   float64 // minutes
	}{
		"all the time": {[]Connection{by("a", -5, day+5, false)}, always, day, day},
		"never":        {nil, always, 0, day},
		"its own absence": {[]Connection{by("a", 0, 600, false), by("a", 660, day, false)},
			always, day - 60, day},
		"a hub that stopped, back in time": {[]Connection{by("a", 0, 600, true), by("a", 602, day, false)},
			always, day - 2, day - 2},
		"a hub that stopped, back too late": {[]Connection{by("a", 0, 600, true), by("a", 620, day, false)},
			always, day - 20, day - 5},
		"no hub for an hour": {[]Connection{by("a", 0, 600, true), by("a", 661, day, false)},
			[]Span{span(-1, 600), span(660, day)}, day - 61, day - 61},
		"no hub for an hour, never back": {[]Connection{by("a", 0, 600, true)}, []Span{span(-1, 600), span(660, day)},
			600, day - 65},
		"away before hubs are, and after": {[]Connection{by("a", 0, 300, false)}, []Span{span(-1, 600), span(660, day)},
			300, day - 65},
		"no hub at all": {nil, nil, 0, 0},
		"one node stays while another is cut": {[]Connection{by("a", 0, day, false), by("b", 0, 600, true)}, always, day,
			day},
		"two nodes take turns": {[]Connection{by("a", 0, 700, false), by("b", 650, day, false)}, always, day,
			day},
		"back, and away of its own": {[]Connection{by("a", 0, 600, true), by("a", 601, 602, false),
			by("a", 700, day, false)}, always, day - 99, day - 1},
		"a new connection stood already": {[]Connection{by("a", 0, 600, true), by("a", 599, 601, false)}, always, 601,
			day},
		"an outage just before the window": {[]Connection{by("a", 2, day, false)}, []Span{span(-60, -30), span(-1, day)},
			day - 2, day - 2},
	}
	for name, c := range cases {
		got := Measure(span(0, day), c.connections, c.hubs)
		if want := (Uptime{at(c.up).Sub(epoch), at(c.total).Sub(epoch)}); got != want {
			t.Errorf("%s: %v of %v, want %v of %v", name, got.Up, got.Total, want.Up, want.Total)
		}
	}
}

func TestNothingMeasurableIsNotKnown(t *testing.T) {
	if f := Measure(span(0, 10), nil, nil).Fraction(); f != nil {
		t.Errorf("without a hub: got %v, want nil", f)
	}
	if f := Measure(span(10, 0), nil, []Span{span(0, 10)}).Fraction(); f != nil {
		t.Errorf("in no time: got %v, want nil", f)
	}
	if f := Measure(span(0, 10), []Connection{by("a", 0, 5, false)}, []Span{span(0, 10)}).Fraction(); f == nil {
		t.Error("half of the time: Measure(…).Fraction(): got nil, want a value")
	} else if *f != 0.5 {
		t.Errorf("half of the time: *f: got %v, want 0.5", *f)
	}
}

// brute decides minute by minute what Measure does with spans.
func brute(from, to int, connections []Connection, hubs []Span) Uptime {
	grace := int(Grace / time.Minute)
	stands := func(minute int, node string) bool {
		for _, c := range connections {
			if (node == "" || c.Node == node) && !at(float64(minute)).Before(c.From) && at(float64(minute)).Before(c.To) {
				return true
			}
		}
		return false
	}
	hub := func(minute int) bool {
		for _, h := range hubs {
			if !at(float64(minute)).Before(h.From) && at(float64(minute)).Before(h.To) {
				return true
			}
		}
		return false
	}
	excused := map[int]bool{}
	give := func(begin int, node string) {
		for m := begin; m < begin+grace && !stands(m, node); m++ {
			excused[m] = true
		}
	}
	for _, c := range connections {
		if c.Excused {
			give(int(c.To.Sub(epoch)/time.Minute), c.Node)
		}
	}
	for m := from - grace; m < to; m++ {
		if !hub(m) {
			excused[m] = true
			if hub(m + 1) {
				give(m+1, "")
			}
		}
	}
	var up, total time.Duration
	for m := from; m < to; m++ {
		s := stands(m, "")
		if s {
			up += time.Minute
		}
		if s || !excused[m] {
			total += time.Minute
		}
	}
	return Uptime{up, total}
}

func TestMeasureIsWhatCountingMinutesGives(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 3000 {
		from, to := 10, 10+r.IntN(60)
		var connections []Connection
		for range r.IntN(7) {
			a := r.IntN(80)
			connections = append(connections, by(string(rune('a'+r.IntN(2))), float64(a), float64(a+1+r.IntN(25)),
				r.IntN(2) == 0))
		}
		var hubs []Span
		for range r.IntN(4) {
			a := r.IntN(80) - 10
			hubs = append(hubs, span(float64(a), float64(a+r.IntN(50))))
		}
		window := span(float64(from), float64(to))
		got, want := Measure(window, connections, hubs), brute(from, to, connections, hubs)
		if got != want {
			t.Fatalf("round %d: %v, want %v\nwindow %v\nconnections %v\nhubs %v", round, got, want, window, connections, hubs)
		}
		if got.Up < 0 || got.Up > got.Total {
			t.Fatalf("round %d: Up: got %v, want 0 to %v", round, got.Up, got.Total)
		}
		if got.Total > window.To.Sub(window.From) {
			t.Fatalf("round %d: Total: got %v, want at most %v", round, got.Total, window.To.Sub(window.From))
		}
		// To be connected for longer never harms.
		a := r.IntN(80)
		more := append(connections, by("a", float64(a), float64(a+10), false))
		if after := Measure(window, more, hubs); after.Up < got.Up {
			t.Fatalf("round %d: got %v, want at least %v", round, after.Up, got.Up)
		}
	}
}
