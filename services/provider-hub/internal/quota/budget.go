// Package quota bounds what a hub holds for providers and does for agents. A Budget
// bounds held bytes, of all providers together and of each. A Bucket bounds events a
// second.
package quota

import (
	"sync"

	"svc.internal/pkg/ids"
)

// Shares is the number of parts of a budget. One provider has at most one part, so that
// no provider can take everything.
const Shares = 8

// Budget bounds held bytes: of all together, and of one provider. Holders without a known
// provider count as one provider. It is safe for concurrent use.
type Budget struct {
	mu   sync.Mutex
	left int64
	each int64
	held map[ids.ProviderID]int64 // without zeros
}

// NewBudget returns a budget of so many bytes.
func NewBudget(total int64) *Budget {
	return &Budget{left: total, each: total / Shares, held: map[ids.ProviderID]int64{}}
}

// Take takes n bytes for a provider, and reports whether they were there.
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

// Give gives back n bytes that were taken for a provider.
func (b *Budget) Give(of ids.ProviderID, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.held[of] -= n; b.held[of] <= 0 {
		delete(b.held, of)
	}
}

// Left is how many bytes nobody holds.
func (b *Budget) Left() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}
