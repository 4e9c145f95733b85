package store

import (
	"sync"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/lru"
)

const (
	// maxBoundedKeys bounds the keys that are remembered.
	maxBoundedKeys = 1 << 14
	// boundedFor is how many requests of a key go to admit_requests at once after one that had to.
	boundedFor = 64
)

// boundedKeys remembers keys that something bounds beside credit, rates and concurrency, so that
// nobody asks in vain whether their requests are plain. After boundedFor requests it asks again. A
// key that is remembered in error is decided all the same, because admit_requests decides about
// every key. It is safe for concurrent use.
type boundedKeys struct {
	mu   sync.Mutex
	left *lru.Map[ids.KeyID, int]
}

func newBoundedKeys() *boundedKeys {
	return &boundedKeys{left: lru.New[ids.KeyID, int](maxBoundedKeys, nil)}
}

// mayBePlain reports whether it is worth asking about a key.
func (b *boundedKeys) mayBePlain(key ids.KeyID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left, known := b.left.Get(key)
	switch {
	case !known:
		return true
	case left <= 1:
		b.left.Remove(key)
	default:
		b.left.Add(key, left-1)
	}
	return false
}

// add remembers a key.
func (b *boundedKeys) add(key ids.KeyID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left.Add(key, boundedFor)
}
