// Package retry bounds what the failing requests of one consumer account cost everybody
// else. Each request is tried on up to three providers, so an account whose requests all
// fail costs three times as much. After PerMinute failed attempts within a minute the
// account's requests get one attempt each, until fewer have failed.
//
// Every replica hears of every attempt of every hub. So each replica counts all failures
// of an account, through whichever gateways they came, as late as an event is. The last
// 60 seconds are judged by two counts: all failures of the current clock minute, and the
// share of the previous minute's failures that is less than a minute old. This is exact
// where failures come at an even rate.
//
// At most MaxAccounts accounts with a failure within two minutes are counted.
// Further accounts keep their retries. Accounts that are not known are not counted,
// because they would all share one count.
package retry

import (
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/tag"
)

const (
	// PerMinute is how many failed attempts an account has within a minute before its
	// requests get one attempt each.
	PerMinute = 60
	// MaxAccounts bounds the accounts that are counted, about 100 bytes each.
	MaxAccounts = 65_536
)

// count is one account's count of failed attempts.
type count struct {
	mu sync.Mutex
	// minute counts the current minute, which is in minutes since the epoch, and last the
	// minute before.
	minute    int64
	now, last int64
}

// Budget counts the failed attempts of accounts. The zero value has counted none.
// It is safe for concurrent use.
type Budget struct {
	counts sync.Map // tag.Account to *count
	size   atomic.Int64
}

// Failed takes note of a failed attempt of an account.
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
	c.turnLocked(now)
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
	c.turnLocked(now)
	left := time.Minute - now.Sub(time.Unix(c.minute*60, 0))
	return float64(c.now)+float64(c.last)*left.Minutes() >= PerMinute
}

// Trim forgets accounts without a recent failure.
func (b *Budget) Trim(now time.Time) {
	b.counts.Range(func(key, value any) bool {
		c := value.(*count)
		c.mu.Lock()
		c.turnLocked(now)
		empty := c.now+c.last == 0
		c.mu.Unlock()
		if empty {
			b.counts.Delete(key)
			b.size.Add(-1)
		}
		return true
	})
}

// Len returns how many accounts are counted.
func (b *Budget) Len() int { return int(b.size.Load()) }

// turnLocked moves the counts on to the current minute.
func (c *count) turnLocked(now time.Time) {
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
