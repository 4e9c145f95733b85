// Package quota has two bounds of what strangers may use: a budget of bytes that
// providers share, and a bucket of tokens that fills with time.
package quota

import (
	"sync"

	"svc.internal/pkg/ids"
)

// Shares is how many providers at least share a budget.
const Shares = 8

// Budget bounds what is held, in bytes: together, and for one provider. What belongs
// to no provider yet counts as one provider's. It is safe for concurrent use.
type Budget struct {
	mu   sync.Mutex
	left int64
	each int64
	held map[ids.ProviderID]int64 // without zeros
}

// NewBudget is a budget of most bytes, of which nothing is taken.
func NewBudget(most int64) *Budget {
	return &Budget{left: most, each: most / Shares, held: map[ids.ProviderID]int64{}}
}

// Take takes n bytes out of the budget for a provider. It reports whether they were
// there; if not, nothing is taken.
func (b *Budget) Take(of ids.ProviderID, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left || b.held[of]+n > b.each {
		return false
	}
	b.left -= n
	b.held[of] += n
	return true
}

// Give gives back what was taken for a provider.
func (b *Budget) Give(of ids.ProviderID, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.held[of] -= n; b.held[of] <= 0 {
		delete(b.held, of)
	}
}

// Left is how many bytes are not taken.
func (b *Budget) Left() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}
