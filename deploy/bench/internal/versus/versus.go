// Package versus compares two targets that took turns under the same loads:
// the same product at two commits. Each round gives one ratio of its own, so
// that what slows a whole round down slows both sides.
package versus

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"inference-bench/internal/loadgen"
	"inference-bench/internal/record"
)

// Line compares one figure of one load.
type Line struct {
	Load   string `json:"load"`
	Figure string `json:"figure"`
	// Base and Head are medians over the rounds.
	Base float64 `json:"base"`
	Head float64 `json:"head"`
	// Ratio is the median of Head ÷ Base of each round; Low and High bound its
	// interval of 95% confidence or a little more.
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Rounds int     `json:"rounds"`
}

// figure is a number of a result, for loads that have it.
type figure struct {
	name string
	of   func(*loadgen.Result) float64
}

var figures = []figure{
	{"CPU per request, µs", func(r *loadgen.Result) float64 {
		if r.Chunks > 0 {
			return 0
		}
		return r.CPUPerReq
	}},
	{"CPU per event, µs", func(r *loadgen.Result) float64 { return r.CPUPerChunk }},
	{"allocations per request", func(r *loadgen.Result) float64 {
		if r.Chunks > 0 {
			return 0
		}
		return per(r.Mallocs, r.Requests)
	}},
	{"allocations per event", func(r *loadgen.Result) float64 { return per(r.Mallocs, r.Chunks) }},
}

func per(sum float64, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Compare is a line for each figure of each load, in the order in which the
// loads ran. Rounds in which either side had failures do not count; they are
// returned by load.
func Compare(set record.Set, base, head string) (lines []Line, failed map[string]int) {
	type pair struct{ base, head *loadgen.Result }
	var loads []string
	rounds := map[string]map[int]pair{}
	for _, r := range set {
		if r.Result == nil || r.Target != base && r.Target != head {
			continue
		}
		if rounds[r.Scenario] == nil {
			loads = append(loads, r.Scenario)
			rounds[r.Scenario] = map[int]pair{}
		}
		p := rounds[r.Scenario][r.Round]
		if r.Target == base {
			p.base = r.Result
		} else {
			p.head = r.Result
		}
		rounds[r.Scenario][r.Round] = p
	}
	failed = map[string]int{}
	for _, load := range loads {
		sound := map[int]pair{}
		for round, p := range rounds[load] {
			if whole(p.base) && whole(p.head) {
				sound[round] = p
			} else {
				failed[load]++
			}
		}
		for _, f := range figures {
			var bases, heads, ratios []float64
			for _, p := range sound {
				b, h := f.of(p.base), f.of(p.head)
				if b > 0 && h > 0 {
					bases, heads, ratios = append(bases, b), append(heads, h), append(ratios, h/b)
				}
			}
			if len(ratios) == 0 {
				continue
			}
			line := Line{Load: load, Figure: f.name, Rounds: len(ratios)}
			line.Base, line.Head, line.Ratio = record.Median(bases), record.Median(heads), record.Median(ratios)
			line.Low, line.High = Interval(ratios)
			lines = append(lines, line)
		}
	}
	return lines, failed
}

func whole(r *loadgen.Result) bool {
	return r != nil && r.Requests+r.Chunks > 0 && r.Errors+r.Short+r.NoUsage == 0
}

// Interval bounds the median of what v was drawn from, by order statistics: the
// median lies outside with a probability of at most 5%, whatever the
// distribution. Fewer than six values bound nothing: the interval is then that
// of all values.
func Interval(v []float64) (low, high float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	// Fewer than k of n values lie below the median with probability tail.
	tail, chance := 0.0, math.Pow(0.5, float64(n))
	k := 0
	for i := 0; i < n/2; i++ {
		tail += chance
		if 2*tail > 0.05 {
			break
		}
		k = i
		chance *= float64(n-i) / float64(i+1)
	}
	return s[k], s[n-1-k]
}

// Table writes lines for a terminal or a note. A line whose interval begins
// above limit says so.
func Table(w io.Writer, lines []Line, base, head string, limit float64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "load\tfigure\t%s\t%s\tratio\tinterval\trounds\t\t\n", base, head)
	for _, l := range lines {
		verdict := ""
		if l.Low > limit {
			verdict = fmt.Sprintf("above %.2f", limit)
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f\t%.3f\t%.3f to %.3f\t%d\t%s\t\n",
			l.Load, l.Figure, l.Base, l.Head, l.Ratio, l.Low, l.High, l.Rounds, verdict)
	}
	return t.Flush()
}

// JSON writes lines as one array.
func JSON(w io.Writer, lines []Line) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(lines)
}

// Failures says in one line which loads lost rounds; "" when none did.
func Failures(failed map[string]int) string {
	var parts []string
	for load, n := range failed {
		parts = append(parts, fmt.Sprintf("%s %d", load, n))
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "rounds with failures, which do not count: " + strings.Join(parts, ", ")
}
