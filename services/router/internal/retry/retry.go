// Package retry bounds what one consumer account's failing requests may take from
// everybody: each request is tried on up to three providers, so an account whose
// requests all fail costs threefold. After PerMinute failed attempts within a minute
// its further requests get one attempt each, until fewer have failed.
//
// Every replica hears every attempt of every hub, so each counts all of an account's
// failures whichever gateways they came through, within the time that an event
// takes. A minute is judged by two counts, this minute's and the part of the last
// one's that is less than a minute old, which is exact for an even rate.
//
// At most MaxAccounts accounts are counted, those of which something failed within
// two minutes. Further ones keep their retries. An account that is not known is not
// counted, because all that are not known would share one count.
package retry

import (
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/tag"
)

const (
	// PerMinute is how many failed attempts an account has within a minute before
	// its requests get no more retries.
	PerMinute = 60
	// MaxAccounts bounds the accounts that are counted, about 100 bytes each.
	MaxAccounts = 65_536
)

// count is one account's.
type count struct {
	mu sync.Mutex
	// minute is that of now, in minutes since the epoch, last the one before.
	minute    int64
	now, last int64
}

// Budget counts the failed attempts of accounts. The zero value has counted none.
// It is safe for concurrent use.
type Budget struct {
	counts sync.Map // tag.Account to *count
	size   atomic.Int64
}

// Failed takes note of a failed attempt.
func (b *Budget) Failed(account tag.Account, now time.Time) {
	if account == 0 {
		return
	}
	v, ok := b.counts.Load(account)
	if !ok {
		if b.size.Add(1) > MaxAccounts {
			b.size.Add(-1)
			return
		}
		var loaded bool
		if v, loaded = b.counts.LoadOrStore(account, &count{}); loaded {
			b.size.Add(-1)
		}
	}
	c := v.(*count)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(now)
	c.now++
}

// Spent reports whether an account's requests get one attempt each now.
func (b *Budget) Spent(account tag.Account, now time.Time) bool {
	v, ok := b.counts.Load(account)
	if !ok {
		return false
	}
	c := v.(*count)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(now)
	left := time.Minute - now.Sub(time.Unix(c.minute*60, 0))
	return float64(c.now)+float64(c.last)*left.Minutes() >= PerMinute
}

// Trim forgets accounts of which nothing has failed lately.
func (b *Budget) Trim(now time.Time) {
	b.counts.Range(func(key, value any) bool {
		c := value.(*count)
		c.mu.Lock()
		c.turn(now)
		empty := c.now+c.last == 0
		c.mu.Unlock()
		if empty {
			b.counts.Delete(key)
			b.size.Add(-1)
		}
		return true
	})
}

// Len is how many accounts are counted.
func (b *Budget) Len() int { return int(b.size.Load()) }

// turn goes on to the minute of now.
func (c *count) turn(now time.Time) {
	minute := now.Unix() / 60
	switch {
	case minute <= c.minute:
		return
	case minute == c.minute+1:
		c.last = c.now
	default:
		c.last = 0
	}
	c.minute, c.now = minute, 0
}
