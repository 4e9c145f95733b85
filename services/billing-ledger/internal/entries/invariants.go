package entries

import (
	"slices"
	"sync"
	"time"
)

// Invariant is what a comparison of the ledger with itself found of a rule.
type Invariant struct {
	Name string
	// Drift is the number of rows that break the rule, of the rows that the comparison looked for.
	Drift     int
	CheckedAt time.Time
}

// Compared keeps what the last comparison found. It is safe for concurrent use.
type Compared struct {
	mu   sync.Mutex
	last []Invariant
}

// Set takes the place of what was found before.
func (c *Compared) Set(found []Invariant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = slices.Clone(found)
}

// Last returns what the last comparison found; nothing before the first one.
func (c *Compared) Last() []Invariant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.last)
}
