package auth

import (
	"container/list"
	"sync"
	"time"

	"svc.internal/pkg/apikey"
)

// cache remembers principals and refusals, each up to a bound, dropping what
// was used least recently. Refusals have a list of their own, so that a flood
// of wrong keys cannot push out the right ones.
type cache struct {
	mu      sync.Mutex
	known   lru
	refused lru
	byKey   map[string]apikey.Digest // key id → where it is known
	changes uint64
}

// entry is what billing-ledger said of one key: who, or why not.
type entry struct {
	digest apikey.Digest
	who    *Principal
	err    error
	until  time.Time
	// asked is when billing-ledger was asked for a key that was right.
	asked time.Time
}

func newCache(known, refused int) *cache {
	return &cache{known: newLRU(known), refused: newLRU(refused), byKey: map[string]apikey.Digest{}}
}

// get finds what is remembered and not too old. A key that was right must have
// been asked for within the age, unless that is zero.
func (c *cache) get(d apikey.Digest, now time.Time, age time.Duration) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known.get(d)
	if e == nil {
		e = c.refused.get(d)
	}
	if e == nil || !now.Before(e.until) || age > 0 && e.err == nil && now.Sub(e.asked) >= age {
		return entry{}, false
	}
	return *e, true
}

// knew reports whether a key was right when it was last looked up, however long
// ago.
func (c *cache) knew(d apikey.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.at[d] != nil
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
	c.refused.remove(d)
	c.byKey[who.KeyID] = d
	if old := c.known.put(&entry{digest: d, who: who, asked: asked, until: until}); old != nil {
		delete(c.byKey, old.who.KeyID)
	}
}

func (c *cache) putRefused(d apikey.Digest, err error, until time.Time, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != generation {
		return
	}
	if old := c.known.get(d); old != nil {
		delete(c.byKey, old.who.KeyID)
		c.known.remove(d)
	}
	c.refused.put(&entry{digest: d, err: err, until: until})
}

// forget has a key looked up before it is used again. That it was right is still
// known: most changes are no end of it.
func (c *cache) forget(keyID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if element, ok := c.known.at[c.byKey[keyID]]; ok {
		element.Value.(*entry).until = time.Time{}
	}
}

// lru is a map of bounded size.
type lru struct {
	bound int
	order *list.List // of *entry, most recent first
	at    map[apikey.Digest]*list.Element
}

func newLRU(bound int) lru {
	return lru{bound: bound, order: list.New(), at: map[apikey.Digest]*list.Element{}}
}

func (l *lru) get(d apikey.Digest) *entry {
	element, ok := l.at[d]
	if !ok {
		return nil
	}
	l.order.MoveToFront(element)
	return element.Value.(*entry)
}

// put adds or replaces an entry and gives the one that had to go for it.
func (l *lru) put(e *entry) (evicted *entry) {
	if element, ok := l.at[e.digest]; ok {
		element.Value = e
		l.order.MoveToFront(element)
		return nil
	}
	if len(l.at) >= l.bound {
		evicted = l.order.Back().Value.(*entry)
		l.remove(evicted.digest)
	}
	l.at[e.digest] = l.order.PushFront(e)
	return evicted
}

func (l *lru) remove(d apikey.Digest) {
	if element, ok := l.at[d]; ok {
		l.order.Remove(element)
		delete(l.at, d)
	}
}
