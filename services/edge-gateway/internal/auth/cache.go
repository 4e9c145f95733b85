package auth

import (
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/lru"
)

// cache remembers principals and refusals, each up to a bound; the least recently used
// goes first. Refusals have a list of their own, so that a flood of wrong keys cannot
// push out the good ones.
type cache struct {
	mu      sync.Mutex
	known   *lru.Map[apikey.Digest, *entry]
	refused *lru.Map[apikey.Digest, *entry]
	byKey   map[string][]apikey.Digest // key id → where it is known: two texts of a key may work
	changes uint64
}

// entry is billing-ledger's answer for one key: who has it, or why it is refused.
type entry struct {
	who   *Principal
	err   error
	until time.Time
	// asked is when billing-ledger was asked for a key that was good.
	asked time.Time
}

func newCache(known, refused int) *cache {
	c := &cache{refused: lru.New[apikey.Digest, *entry](refused, nil), byKey: map[string][]apikey.Digest{}}
	c.known = lru.New(known, func(d apikey.Digest, e *entry) { c.unlink(e.who.KeyID, d) })
	return c
}

// get returns the entry of a key unless it is too old. A good key must have been asked
// for within the age, unless the age is zero.
func (c *cache) get(d apikey.Digest, now time.Time, age time.Duration) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known.Get(d)
	if !ok {
		e, ok = c.refused.Get(d)
	}
	if !ok || !now.Before(e.until) || age > 0 && e.err == nil && now.Sub(e.asked) >= age {
		return entry{}, false
	}
	return *e, true
}

// knew reports whether a key was good when it was last looked up, however long ago.
func (c *cache) knew(d apikey.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Contains(d)
}

// generation changes with every forget.
func (c *cache) generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

func (c *cache) putKnown(d apikey.Digest, who *Principal, asked, until time.Time, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != generation {
		return
	}
	c.refused.Remove(d)
	c.known.Remove(d)
	c.known.Add(d, &entry{who: who, asked: asked, until: until})
	c.byKey[who.KeyID] = append(c.byKey[who.KeyID], d)
}

// unlink drops a text of a key that is not remembered any more.
func (c *cache) unlink(keyID string, d apikey.Digest) {
	rest := slices.DeleteFunc(c.byKey[keyID], func(other apikey.Digest) bool { return other == d })
	if len(rest) == 0 {
		delete(c.byKey, keyID)
		return
	}
	c.byKey[keyID] = rest
}

func (c *cache) putRefused(d apikey.Digest, err error, until time.Time, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != generation {
		return
	}
	c.known.Remove(d)
	c.refused.Add(d, &entry{err: err, until: until})
}

// forget has a key looked up before it is used again. The cache still knows that the key
// was good, because most changes do not end a key.
func (c *cache) forget(keyID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	for _, d := range c.byKey[keyID] {
		if e, ok := c.known.Peek(d); ok {
			e.until = time.Time{}
		}
	}
}
