package record

import (
	"maps"
	"slices"

	"inference-bench/internal/loadgen"
)

// Series is one figure of one target by round.
type Series map[int]float64

// Series is f of the results of a target in a scenario. A round in which nothing
// came through has none.
func (s Set) Series(scenario, target string, f func(*loadgen.Result) float64) Series {
	out := Series{}
	for _, r := range s {
		if r.Result != nil && r.Scenario == scenario && r.Target == target && r.Result.Requests+r.Result.Chunks > 0 {
			out[r.Round] = f(r.Result)
		}
	}
	return out
}

// Measures is a named number of a target in the order in which it was taken.
func (s Set) Measures(name, target string) Series {
	out := Series{}
	for _, r := range s {
		if r.Measure == name && r.Target == target {
			out[len(out)] = r.Value
		}
	}
	return out
}

// Over divides by ref within each round, so that a round in which the machine
// was slow slows both sides. Rounds that only one side has, or in which ref is
// not above 0, are left out.
func (s Series) Over(ref Series) Series {
	return s.with(ref, func(v, by float64) (float64, bool) { return v / by, by > 0 })
}

// Less takes base away within each round.
func (s Series) Less(base Series) Series {
	return s.with(base, func(v, by float64) (float64, bool) { return v - by, true })
}

func (s Series) with(other Series, f func(v, other float64) (float64, bool)) Series {
	out := Series{}
	for round, v := range s {
		o, ok := other[round]
		if !ok {
			continue
		}
		if x, ok := f(v, o); ok {
			out[round] = x
		}
	}
	return out
}

// Median is that of the rounds; 0 without any.
func (s Series) Median() float64 { return Median(slices.Collect(maps.Values(s))) }

// Spread is the lowest and the highest of the rounds; 0 and 0 without any.
func (s Series) Spread() (low, high float64) {
	if len(s) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(maps.Values(s))
	return sorted[0], sorted[len(sorted)-1]
}
