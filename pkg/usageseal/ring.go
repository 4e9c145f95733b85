package usageseal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"svc.internal/pkg/clock"
)

// Verdict is the result of checking a seal.
type Verdict int

// The verdicts.
const (
	// Forged has no seal, or not the seal of the key that it names.
	Forged Verdict = iota
	// Unknown names a key that the hub has not handed over, although it has had the time.
	Unknown
	// Early names an unknown key that the hub may not have had the time to hand over: see
	// KeyWait.
	Early
	// Valid was written by the hub.
	Valid
)

// KeyWait is how long keys may be missing after a Ring was made or its store has failed.
// A reader that was down gets every key again within a minute, because hubs hand theirs
// over again; the other 30 s are a margin.
//
// It does not run from an event's publication, because the outage may have been longer.
// Nor is it a number of an event's deliveries, because each failure of the store causes
// one. It ends for all events together, so a hub that makes up keys delays nobody for
// longer.
const KeyWait = 90 * time.Second

// Bounds by hub, so that a hub that makes up keys harms itself alone.
const (
	// maxCached bounds the keys in memory; a hub has one for each day and each start.
	maxCached = 256
	// maxLookups bounds the store's look-ups in a second for keys that are not in memory.
	// A key that exists is looked up once.
	maxLookups = 50
	// maxHubs bounds the hubs whose look-ups are counted. Beyond it all are forgotten,
	// which costs a few look-ups.
	maxHubs = 4096
)

// Errors of Store.
var (
	// ErrOtherKey: the id already stands for another key.
	ErrOtherKey = errors.New("the id of the key stands for another key")
	// ErrTooManyKeys: the hub has handed over too many new keys lately.
	ErrTooManyKeys = errors.New("the hub has handed over too many new keys within a day")
)

// Store keeps the keys of hubs for good.
type Store interface {
	// KeepUsageKey adds a key. Adding a key again changes nothing. It returns ErrOtherKey
	// when the id stands for another key, and ErrTooManyKeys when a new key is one too
	// many.
	KeepUsageKey(ctx context.Context, hub string, key Key) error
	// UsageKey returns a key, and false for an unknown one.
	UsageKey(ctx context.Context, hub string, id KeyID) (Key, bool, error)
}

// Ring checks seals by the keys of a Store. It is safe for concurrent use.
type Ring struct {
	store Store
	clock clock.Clock

	mu sync.RWMutex
	// well is the time since which the store has not failed.
	well    time.Time
	known   map[string]map[KeyID]Key
	lookups map[string]lookups
}

// lookups counts the look-ups for a hub within a second.
type lookups struct {
	from time.Time
	n    int
}

// NewRing returns a ring on a store.
func NewRing(store Store, c clock.Clock) *Ring {
	return &Ring{store: store, clock: c, well: c.Now(), known: map[string]map[KeyID]Key{}, lookups: map[string]lookups{}}
}

// Take stores a key of a hub. It writes the key each time, even when it is in memory: a
// hub hands its key over again because a store that failed over may have lost it, and
// other replicas know the key only from the store.
func (r *Ring) Take(ctx context.Context, hub string, key Key) error {
	if err := r.store.KeepUsageKey(ctx, hub, key); err != nil {
		return err
	}
	r.remember(hub, key)
	return nil
}

// Check verifies the seal of an encoded event that names a hub. An error means that
// nothing can be said of it now.
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

// missing returns the verdict on an event whose key is unknown.
func (r *Ring) missing() Verdict {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.clock.Now().Sub(r.well) < KeyWait {
		return Early
	}
	return Unknown
}

// Failed records a failure of the store, or of settling in the same database, which may
// have failed over and lost keys. A failure while a hub hands a key over does not count,
// because a hub that hangs up makes its own call fail.
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
