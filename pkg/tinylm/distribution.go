package tinylm

import (
	"cmp"
	"math"
	"slices"

	"svc.internal/pkg/tinylm/internal/kernel"
	"svc.internal/pkg/tinylm/internal/transcript"
	"svc.internal/pkg/tinylm/internal/weights"
)

// following knows which bytes may come next. So an answer is valid UTF-8 at any
// temperature, and its only control characters are tab and line feed. Without
// following, a byte-level model would now and then write half a character.
type following struct {
	missing   int  // continuation bytes that the character still lacks
	low, high byte // range of the next continuation byte
}

// allowed returns a function that reports whether a byte may come next.
func (f *following) allowed() func(byte) bool {
	if f.missing > 0 {
		low, high := f.low, f.high
		return func(b byte) bool { return low <= b && b <= high }
	}
	return func(b byte) bool {
		if b < 0x80 {
			return transcript.Printable(b) || b == transcript.End
		}
		return 0xc2 <= b && b <= 0xf4
	}
}

// pass moves on behind any byte of a text. A byte that is not allowed breaks off the
// character before it, and begins a character if it can.
func (f *following) pass(b byte) {
	if !f.allowed()(b) {
		*f = following{}
	}
	if f.allowed()(b) {
		f.take(b)
	}
}

// take moves on behind b, which must be allowed.
func (f *following) take(b byte) {
	if f.missing > 0 {
		f.missing--
		f.low, f.high = 0x80, 0xbf
		return
	}
	f.low, f.high = 0x80, 0xbf
	switch {
	case b < 0x80:
	case b < 0xe0:
		f.missing = 1
	case b < 0xf0:
		f.missing = 2
	default:
		f.missing = 3
	}
	switch b { // no overlong forms, no surrogates, nothing beyond U+10FFFF
	case 0xe0:
		f.low = 0xa0
	case 0xed:
		f.high = 0x9f
	case 0xf0:
		f.low = 0x90
	case 0xf4:
		f.high = 0x8f
	}
}

// distribution is the model's probability distribution of the next byte.
type distribution struct {
	logits [weights.Vocabulary]float32
	// members are the bytes that may come next, ascending.
	members []byte
	peak    float32 // highest logit of a member
	logSum  float64 // logarithm of the sum of e^(logit-peak) over the members
}

// normalize narrows the distribution to the allowed bytes.
func (d *distribution) normalize(allowed func(byte) bool) {
	d.members = d.members[:0]
	d.peak = float32(math.Inf(-1))
	for i, logit := range d.logits {
		if allowed(byte(i)) {
			d.members = append(d.members, byte(i))
			d.peak = max(d.peak, logit)
		}
	}
	var sum float64
	for _, b := range d.members {
		sum += float64(kernel.Exp(d.logits[b] - d.peak))
	}
	d.logSum = math.Log(sum)
}

// logprob is the logarithm of the probability of b.
func (d *distribution) logprob(b byte) float64 { return float64(d.logits[b]-d.peak) - d.logSum }

// best is the likeliest byte; of equally likely bytes, the lowest.
func (d *distribution) best() byte {
	for _, b := range d.members {
		if d.logits[b] == d.peak {
			return b
		}
	}
	return transcript.End // unreachable while the logits are numbers
}

// top lists the n likeliest bytes, best first; of equally likely bytes, the lowest
// first. It inserts each byte into a list of n, because n is small and a sort of
// all bytes would cost more than reading a token.
func (d *distribution) top(n int) []Candidate {
	out := make([]Candidate, 0, min(n, len(d.members)))
	for _, b := range d.members {
		at := len(out)
		for at > 0 && d.logits[out[at-1].Byte] < d.logits[b] {
			at--
		}
		if len(out) < cap(out) {
			out = append(out, Candidate{})
		} else if at == len(out) {
			continue
		}
		copy(out[at+1:], out[at:])
		out[at].Byte = b
	}
	for i := range out {
		out[i].Logprob = d.logprob(out[i].Byte)
	}
	return out
}

// ranked returns the members, likeliest first.
func (d *distribution) ranked() []byte {
	out := slices.Clone(d.members)
	slices.SortStableFunc(out, func(a, b byte) int { return cmp.Compare(d.logits[b], d.logits[a]) })
	return out
}

// sample draws a byte at the temperature, from the fewest likeliest bytes that hold
// topP of the probability. roll is uniform in [0, 1).
func (d *distribution) sample(temperature, topP, roll float64) byte {
	order := d.members
	if topP < 1 {
		order = d.ranked()
	}
	var mass [weights.Vocabulary]float64
	total := 0.0
	for i, b := range order {
		mass[i] = float64(kernel.Exp(float32(float64(d.logits[b]-d.peak) / temperature)))
		total += mass[i]
	}
	if topP < 1 {
		order, total = nucleus(order, mass[:], total*topP)
	}
	left := float64(roll * total) // the conversion forbids fusing with what follows
	for i, b := range order {
		if left -= mass[i]; left < 0 {
			return b
		}
	}
	return d.best() // rounding made the roll larger than the sum of all masses
}

// nucleus returns the shortest beginning of order whose mass reaches enough, and
// that mass.
func nucleus(order []byte, mass []float64, enough float64) ([]byte, float64) {
	sum := 0.0
	for i := range order {
		if sum += mass[i]; sum >= enough {
			return order[:i+1], sum
		}
	}
	return order, sum
}
