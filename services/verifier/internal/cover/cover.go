// Package cover chooses shapes of hidden probes so that they hide among the requests of
// consumers.
//
// A shape is what a provider can see of a request beside its text: whether it is streamed,
// greedy, asks for log-probabilities, has tools, and how long it is. A provider that
// serves all requests of some shapes honestly, and no others, passes every probe of those
// shapes. So the probes of a shape must be few beside the requests of the same shape: then
// whoever serves them honestly serves honestly what most consumers ask for.
//
// Gateways publish how many requests of each shape there were in an hour, without any
// text, and leave out what fewer than 20 had. A Week sums these reports. Draw takes a shape
// with the frequency that consumers have for it, among the shapes whose probes of the week
// stay at most a tenth of all requests of that shape (verification.md §5). An offer that
// has not had its eight probes of the day may exceed the tenth, because a fleet without
// traffic is probed all the same; requests for log-probabilities never may, because they
// are what betrays a cheat best and are rare among consumers.
//
// A Week is not safe for concurrent use.
package cover

import (
	"errors"
	"time"
)

// Shape is one cell of the histogram.
type Shape struct {
	Streamed bool
	// Greedy is temperature 0.
	Greedy   bool
	Logprobs bool
	Tools    bool
	// Length is the number of binary digits of the prompt's tokens: a prompt of 2ⁿ⁻¹ to
	// 2ⁿ − 1 tokens has length n. At most MaxLength.
	Length uint8
}

const (
	// MaxLength is the length of all prompts of 4,194,304 tokens and more.
	MaxLength = 23
	// MaxCount bounds one count of a report.
	MaxCount = 1 << 40
	// share is the part of a shape's requests that probes may be.
	share = .1
	hours = 7 * 24
)

// LengthOf returns the length of a prompt.
func LengthOf(tokens int) uint8 {
	n := uint8(0)
	for ; tokens > 0 && n < MaxLength; tokens >>= 1 {
		n++
	}
	return n
}

// ErrReport is the error for a report that no gateway makes.
var ErrReport = errors.New("malformed report of shapes")

// Shapes returns all shapes in a fixed order.
func Shapes() []Shape {
	all := make([]Shape, 0, 16*(MaxLength+1))
	for bits := range 16 {
		for length := range uint8(MaxLength + 1) {
			all = append(all, Shape{
				Streamed: bits&1 != 0, Greedy: bits&2 != 0, Logprobs: bits&4 != 0, Tools: bits&8 != 0, Length: length,
			})
		}
	}
	return all
}

// Week counts requests and probes of the last 168 hours by shape. The requests include the
// probes, because gateways cannot tell them.
type Week struct {
	requests map[int64]map[Shape]int64 // by hour since 1970
	probes   map[int64]map[Shape]int64
	latest   int64
}

// NewWeek returns a week without requests.
func NewWeek() *Week {
	return &Week{requests: map[int64]map[Shape]int64{}, probes: map[int64]map[Shape]int64{}}
}

// Report adds the requests of one hour. It returns ErrReport for a count below 1 or above
// MaxCount and for a shape that there is not, and adds nothing then. A report of an hour
// that is more than a week before the latest is dropped.
func (w *Week) Report(hour time.Time, counts map[Shape]int64) error {
	for s, n := range counts {
		if n < 1 || n > MaxCount || s.Length > MaxLength {
			return ErrReport
		}
	}
	add(w.requests, w.at(hour), counts)
	return nil
}

// Probed counts a probe.
func (w *Week) Probed(at time.Time, s Shape) {
	add(w.probes, w.at(at), map[Shape]int64{s: 1})
}

func add(to map[int64]map[Shape]int64, hour int64, counts map[Shape]int64) {
	if hour < 0 {
		return
	}
	if to[hour] == nil {
		to[hour] = map[Shape]int64{}
	}
	for s, n := range counts {
		to[hour][s] = min(to[hour][s]+n, MaxCount)
	}
}

// at returns the number of an hour and forgets what is a week before the latest. It
// returns −1 for an hour that is itself too old.
func (w *Week) at(t time.Time) int64 {
	hour := t.Unix() / 3600
	if hour > w.latest {
		w.latest = hour
		for _, m := range []map[int64]map[Shape]int64{w.requests, w.probes} {
			for old := range m {
				if old <= hour-hours {
					delete(m, old)
				}
			}
		}
	}
	if hour <= w.latest-hours {
		return -1
	}
	return hour
}

// Room returns how many more probes of a shape the week takes.
func (w *Week) Room(s Shape) int64 {
	return max(int64(share*float64(sum(w.requests, s)))-sum(w.probes, s), 0)
}

// Requests returns how many requests of a shape the week had.
func (w *Week) Requests(s Shape) int64 { return sum(w.requests, s) }

func sum(m map[int64]map[Shape]int64, s Shape) int64 {
	n := int64(0)
	for _, counts := range m {
		n += counts[s]
	}
	return n
}

// ErrNoCover is the error of Draw when a probe would stand out.
var ErrNoCover = errors.New("no shape has room for a probe")

// Draw returns a shape that fits, with the frequency of the week's requests among the
// shapes with room. u is drawn evenly from [0, 1). Where none has room and the offer is
// owed a probe, it draws among the shapes of the prior without log-probabilities. It
// returns ErrNoCover when no shape can be taken.
func (w *Week) Draw(fits func(Shape) bool, owed bool, prior map[Shape]int64, u float64) (Shape, error) {
	if s, ok := draw(func(s Shape) int64 {
		if !fits(s) || w.Room(s) == 0 {
			return 0
		}
		return w.Requests(s)
	}, u); ok {
		return s, nil
	}
	if owed {
		if s, ok := draw(func(s Shape) int64 {
			if !fits(s) || s.Logprobs {
				return 0
			}
			return prior[s]
		}, u); ok {
			return s, nil
		}
	}
	return Shape{}, ErrNoCover
}

// draw returns a shape with a chance in proportion to its weight; none when all are 0.
func draw(weight func(Shape) int64, u float64) (Shape, bool) {
	all := Shapes()
	weights, total := make([]float64, len(all)), 0.0
	for i, s := range all {
		weights[i] = float64(max(weight(s), 0))
		total += weights[i]
	}
	at, last := u*total, -1
	for i, x := range weights {
		if x == 0 {
			continue
		}
		if last = i; at < x {
			break
		}
		at -= x
	}
	if last < 0 {
		return Shape{}, false
	}
	return all[last], true
}
