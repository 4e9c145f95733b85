package usageseal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"svc.internal/pkg/clock"
)

// Verdict is what a seal is worth.
type Verdict int

// The verdicts.
const (
	// Forged has no seal, or not that of the key that it names.
	Forged Verdict = iota
	// Unknown names a key that the hub has not handed over, although it has had
	// the time.
	Unknown
	// Early names a key that is not known, and the hub may not have had the time
	// to hand it over: see KeyWait.
	Early
	// Valid was written by the hub.
	Valid
)

// KeyWait is how long keys may be missing after a Ring was made, or its store has
// failed: what was down hears of every key again within the minute in which hubs
// hand theirs over again, and half of that is to spare.
//
// It does not run from an event's publication, because the outage may have been
// longer; nor is it a number of an event's deliveries, because each failure of the
// store is one. And it is over at some time for all events together, so a hub that
// makes up keys holds up nobody for longer.
const KeyWait = 90 * time.Second

// Bounds by hub, so that what one hub makes up is felt by that hub alone.
const (
	// maxCached bounds the keys in memory, of which a hub has one a day and start.
	maxCached = 256
	// maxLookups bounds what is asked of the store in a second about keys that are
	// not in memory. A key is asked for once if it is there.
	maxLookups = 50
	// maxHubs bounds the hubs whose lookups are counted. All are forgotten beyond
	// it, which costs a few lookups.
	maxHubs = 4096
)

// Errors of Store.
var (
	// ErrOtherKey is returned when an id stands for another key already.
	ErrOtherKey = errors.New("the id of the key stands for another key")
	// ErrTooManyKeys is returned when a hub has handed over too many new keys of
	// late.
	ErrTooManyKeys = errors.New("the hub has handed over too many new keys within a day")
)

// Store keeps the keys of hubs for good.
type Store interface {
	// KeepUsageKey adds a key; one that stands already changes nothing, or is
	// ErrOtherKey. A new one may be one too many: ErrTooManyKeys.
	KeepUsageKey(ctx context.Context, hub string, key Key) error
	// UsageKey is false for a key that is not known.
	UsageKey(ctx context.Context, hub string, id KeyID) (Key, bool, error)
}

// Ring checks seals by the keys of a Store. It is safe for concurrent use.
type Ring struct {
	store Store
	clock clock.Clock

	mu sync.RWMutex
	// well is since when the store has not failed.
	well    time.Time
	known   map[string]map[KeyID]Key
	lookups map[string]lookups
}

// lookups are those of a hub within a second.
type lookups struct {
	from time.Time
	n    int
}

// NewRing returns a ring on a store.
func NewRing(store Store, c clock.Clock) *Ring {
	return &Ring{store: store, clock: c, well: c.Now(), known: map[string]map[KeyID]Key{}, lookups: map[string]lookups{}}
}

// Take keeps a key of a hub. It is written each time, though it may be in memory:
// a hub hands its key over again because a store that failed over may have lost
// it, and other replicas know it from there alone.
func (r *Ring) Take(ctx context.Context, hub string, key Key) error {
	if err := r.store.KeepUsageKey(ctx, hub, key); err != nil {
		return err
	}
	r.remember(hub, key)
	return nil
}

// Check judges an encoded event that says to be of a hub. An error says that
// nothing is known of it now.
func (r *Ring) Check(ctx context.Context, hub string, event []byte) (Verdict, error) {
	_, id, _, ok := split(event)
	if !ok {
		return Forged, nil
	}
	key, ok := r.cached(hub, id)
	if !ok {
		if !r.mayAsk(hub) {
			return r.missing(), nil
		}
		var err error
		if key, ok, err = r.store.UsageKey(ctx, hub, id); err != nil {
			r.Failed()
			return Unknown, fmt.Errorf("look up a key of %s: %w", hub, err)
		}
		if !ok {
			return r.missing(), nil
		}
		r.remember(hub, key)
	}
	if !key.Opens(event) {
		return Forged, nil
	}
	return Valid, nil
}

// missing is the verdict on an event whose key is not known.
func (r *Ring) missing() Verdict {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.clock.Now().Sub(r.well) < KeyWait {
		return Early
	}
	return Unknown
}

// Failed notes that the store has failed, or what settles usage in the same
// database: it may have failed over, and have lost keys. What fails while a hub
// hands a key over does not count: a hub that hangs up makes its own call fail.
func (r *Ring) Failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.well = r.clock.Now()
}

// mayAsk counts a lookup for a hub.
func (r *Ring) mayAsk(hub string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	l, counted := r.lookups[hub]
	if !counted && len(r.lookups) >= maxHubs {
		clear(r.lookups)
	}
	if since := now.Sub(l.from); since >= time.Second || since < 0 {
		l = lookups{from: now}
	}
	l.n++
	r.lookups[hub] = l
	return l.n <= maxLookups
}

func (r *Ring) cached(hub string, id KeyID) (Key, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	key, ok := r.known[hub][id]
	return key, ok
}

func (r *Ring) remember(hub string, key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := r.known[hub]
	if keys == nil {
		keys = map[KeyID]Key{}
		r.known[hub] = keys
	}
	if _, known := keys[key.ID]; !known && len(keys) >= maxCached {
		clear(keys)
	}
	keys[key.ID] = key
}
