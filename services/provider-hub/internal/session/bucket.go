package session

import "time"

// bucket is a token bucket. It is not safe for concurrent use.
type bucket struct {
	rate   float64 // tokens a second
	burst  float64
	tokens float64
	at     time.Time
}

func newBucket(rate float64, burst int, now time.Time) bucket {
	return bucket{rate: rate, burst: float64(burst), tokens: float64(burst), at: now}
}

// take spends a token if there is one. A clock that goes back refills nothing.
func (b *bucket) take(now time.Time) bool {
	b.refill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// takeMost spends up to most tokens, as many as there are.
func (b *bucket) takeMost(now time.Time, most int) int {
	b.refill(now)
	n := min(most, int(b.tokens))
	b.tokens -= float64(n)
	return n
}

// next is how long it takes until there is a token.
func (b *bucket) next(now time.Time) time.Duration {
	b.refill(now)
	return time.Duration(max(1-b.tokens, 0) / b.rate * float64(time.Second))
}

// giveBack undoes a take.
func (b *bucket) giveBack() { b.tokens = min(b.burst, b.tokens+1) }

func (b *bucket) refill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens = min(b.burst, b.tokens+passed.Seconds()*b.rate)
	}
	b.at = now
}
