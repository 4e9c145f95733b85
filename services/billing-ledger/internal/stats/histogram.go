package stats

import "math"

const (
	// Buckets is how many buckets a histogram has. Eight buckets double the value, so bucket
	// n has the values from 2^(n/8) until 2^((n+1)/8), and the last one begins near 10^6.
	Buckets   = 160
	perDouble = 8
	// speedUnit makes values of tokens a second that a histogram tells apart: from 0.01.
	speedUnit = 100
)

// MaxError bounds the error of a percentile: the middle of a bucket is at most this part
// away from any value in it.
var MaxError = math.Exp2(0.5/perDouble) - 1

// Histogram counts values by their size.
type Histogram [Buckets]int64

// Count counts a value. Values beyond the buckets fall into the outermost ones.
func (h *Histogram) Count(value float64) {
	h[bucket(value)]++
}

func bucket(value float64) int {
	if !(value > 1) { // NaN too
		return 0
	}
	n := int(min(math.Log2(value)*perDouble, Buckets-1))
	// A logarithm is rounded, so a value at the edge of a bucket may be one bucket off.
	switch {
	case value < edge(n):
		n--
	case n+1 < Buckets && value >= edge(n+1):
		n++
	}
	return n
}

func edge(n int) float64 { return math.Exp2(float64(n) / perDouble) }

// Add adds another histogram.
func (h *Histogram) Add(o *Histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// Total is how many values were counted.
func (h *Histogram) Total() int64 {
	var total int64
	for _, n := range h {
		total += n
	}
	return total
}

// Percentile returns the value that a part of all values, above 0 and at most 1, does not
// exceed, within MaxError; 0 where nothing was counted.
func (h *Histogram) Percentile(part float64) float64 {
	rank := int64(math.Ceil(part * float64(h.Total())))
	var seen int64
	for i, n := range h {
		if seen += n; n > 0 && seen >= rank {
			return math.Exp2((float64(i) + 0.5) / perDouble)
		}
	}
	return 0
}
