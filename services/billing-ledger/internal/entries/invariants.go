package entries

import (
	"maps"
	"sync"
	"time"
)

// Rule is a rule by which the ledger is compared with itself.
type Rule struct {
	Name string
	// Scope says what one comparison looks at.
	Scope string
}

// Comparison is what one comparison found.
type Comparison struct {
	At time.Time
	// Drift has the number of rows that break a rule, by the rule's name.
	Drift map[string]int
	// Last reports whether the comparison has reached the last wallet.
	Last bool
}

// Pass is the comparisons from the first wallet to the last. The zero value is none.
type Pass struct {
	// Number counts from 1.
	Number      int
	Began       time.Time
	Compared    time.Time // for the last time
	Comparisons int
	Complete    bool
	// Drift counts the rows that break a rule, once for each comparison that found them.
	Drift int
	// largest is the most rows that one comparison found, by the name of the rule.
	largest map[string]int
}

// Invariant is what comparisons found of a rule.
type Invariant struct {
	Rule
	// Drift is the most rows that one comparison found to break the rule, of the pass that is under way and
	// of the last that is complete: what a part of the wallets shows does not outdo what another part showed.
	Drift     int
	CheckedAt time.Time
}

// Compared keeps what comparisons of the ledger with itself found. It is safe for concurrent use.
type Compared struct {
	mu       sync.Mutex
	rules    []Rule
	pass     Pass
	complete Pass
}

// Add takes what a comparison found of the rules.
func (c *Compared) Add(rules []Rule, found Comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = rules
	if c.pass.Number == 0 || c.pass.Complete {
		c.pass = Pass{Number: c.pass.Number + 1, Began: found.At, largest: map[string]int{}}
	}
	p := &c.pass
	p.Comparisons++
	p.Compared, p.Complete = found.At, found.Last
	for name, rows := range found.Drift {
		p.Drift += rows
		p.largest[name] = max(p.largest[name], rows)
	}
	if p.Complete {
		c.complete = *p
		c.complete.largest = maps.Clone(p.largest)
	}
}

// Found returns what was found of each rule, with the pass that it rests on and the last that is complete.
// There is nothing before the first comparison.
func (c *Compared) Found() (list []Invariant, pass, complete Pass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rules {
		list = append(list, Invariant{Rule: r, CheckedAt: c.pass.Compared,
			Drift: max(c.pass.largest[r.Name], c.complete.largest[r.Name])})
	}
	return list, c.pass, c.complete
}
