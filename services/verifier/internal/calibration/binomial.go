package calibration

// UpperTail is P(X ≥ k) of a binomial X of n trials with probability p, 0 < p < 1. It adds
// up the probabilities relative to the likeliest, each made of its neighbour, so that
// nothing overflows and no logarithm is needed. n is at most MaxChallenges.
func UpperTail(n, k int, p float64) float64 {
	above, all := sums(n, k, p)
	return above / all
}

// LowerTail is P(X < k).
func LowerTail(n, k int, p float64) float64 {
	above, all := sums(n, n-k+1, 1-p) // the same with successes and failures exchanged
	return above / all
}

// sums returns the weights of all numbers ≥ k, and of all numbers.
func sums(n, k int, p float64) (above, all float64) {
	if n < 0 || n > MaxChallenges || !(p > 0 && p < 1) {
		return 1, 1 // the most careful answer
	}
	odds := p / (1 - p)
	mode := min(n, int(float64(float64(n+1)*p)))
	add := func(i int, w float64) {
		all += w
		if i >= k {
			above += w
		}
	}
	// From the ends to the mode would add small numbers first; the loss of adding them
	// last is some 10⁻¹² of the sum, and the tail's own terms fall from its first.
	w := 1.0
	for i := mode; i <= n && w > 0; i++ {
		add(i, w)
		w = float64(w * (float64(n-i) / float64(i+1) * odds))
	}
	w = 1.0
	for i := mode; i > 0 && w > 0; i-- {
		w = float64(w * (float64(i) / float64(n-i+1) / odds))
		add(i-1, w)
	}
	return above, all
}

// Wilks is the smallest n with which k maxima of n honest challenges leave more than q
// above them with a probability of at most unsound. It reports false where n would be
// above MaxChallenges.
func Wilks(k int, q, unsound float64) (int, bool) {
	if k < 1 || !(q > 0 && q < 1) || !(unsound > 0) {
		return 0, false
	}
	low, high := k, MaxChallenges
	if LowerTail(high, k, q) > unsound {
		return 0, false
	}
	for low < high {
		middle := (low + high) / 2
		if LowerTail(middle, k, q) <= unsound {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, true
}

// JudgesQuantization reports whether the family's power against the next cheaper class is
// at least MinPower, with confidence PowerConfidence: were the power less, so many
// exceedances would have a probability of at most 1 − PowerConfidence.
func (c Calibration) JudgesQuantization() bool {
	p := c.Power
	if p.N <= 0 || p.N > MaxChallenges || p.Exceeded > p.N {
		return false
	}
	return UpperTail(p.N, p.Exceeded, MinPower) <= 1-PowerConfidence
}
