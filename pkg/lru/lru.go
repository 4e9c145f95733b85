// Package lru has maps of bounded size that drop the entry that was used least recently.
// They are not safe for concurrent use, because their users hold a lock for more than the
// map.
package lru

import "github.com/hashicorp/golang-lru/v2/simplelru"

// Map is a map of bounded size. Get and Add count as a use, Peek and Contains do not.
type Map[K comparable, V any] = simplelru.LRU[K, V]

// New returns an empty map of at most limit entries, which is 1 or more. onDrop, unless
// it is nil, is called for each entry that leaves the map, by Remove or for another
// entry.
func New[K comparable, V any](limit int, onDrop func(K, V)) *Map[K, V] {
	m, err := simplelru.NewLRU(limit, onDrop)
	if err != nil {
		panic("lru: the limit is below 1")
	}
	return m
}
