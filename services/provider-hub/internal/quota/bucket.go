package quota

import "time"

// Bucket is a token bucket. It is not safe for concurrent use.
type Bucket struct {
	rate   float64 // tokens a second
	burst  float64
	tokens float64
	at     time.Time
}

// NewBucket returns a bucket that is full.
func NewBucket(rate float64, burst int, now time.Time) Bucket {
	return Bucket{rate: rate, burst: float64(burst), tokens: float64(burst), at: now}
}

// Take spends a token, and reports whether there was one. A clock that is set back
// refills nothing.
func (b *Bucket) Take(now time.Time) bool {
	b.refill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// TakeUpTo spends as many tokens as there are, at most limit, and returns how many.
func (b *Bucket) TakeUpTo(now time.Time, limit int) int {
	b.refill(now)
	n := min(limit, int(b.tokens))
	b.tokens -= float64(n)
	return n
}

// Next is how long it takes until there is a token.
func (b *Bucket) Next(now time.Time) time.Duration {
	b.refill(now)
	return time.Duration(max(1-b.tokens, 0) / b.rate * float64(time.Second))
}

// GiveBack undoes a Take.
func (b *Bucket) GiveBack() { b.tokens = min(b.burst, b.tokens+1) }

func (b *Bucket) refill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens = min(b.burst, b.tokens+passed.Seconds()*b.rate)
	}
	b.at = now
}
