// Package usageseal proves which hub wrote a usage event. A hub appends a seal
// to each event as it publishes it: the id of its key, and HMAC-SHA-256 under
// the key over all bytes before. It hands the key to those who read usage, who
// keep it for good, so that the events of a hub that is dead can be checked.
//
// The seal is the last field of svc.events.v1.UsageEvent, so that a sealed event
// is an event. Sealing and checking cost about a microsecond each.
package usageseal

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
)

// KeyID names a key of a hub.
type KeyID [8]byte

// Key is what a hub seals with.
type Key struct {
	ID     KeyID
	Secret [32]byte
}

// head is the tag of field 30 and the length of what follows.
var head = []byte{0xf2, 0x01, byte(len(KeyID{}) + sha256.Size)}

// Size is how many bytes a seal adds.
const Size = 3 + 8 + sha256.Size

// NewKey makes a key.
func NewKey(random io.Reader) (Key, error) {
	var k Key
	if _, err := io.ReadFull(random, k.ID[:]); err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	if _, err := io.ReadFull(random, k.Secret[:]); err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return k, nil
}

// ParseKey checks what a hub has handed over.
func ParseKey(id, secret []byte) (Key, error) {
	var k Key
	if len(id) != len(k.ID) || len(secret) != len(k.Secret) {
		return Key{}, fmt.Errorf("a key has an id of %d bytes and a secret of %d", len(k.ID), len(k.Secret))
	}
	copy(k.ID[:], id)
	copy(k.Secret[:], secret)
	return k, nil
}

// Derive is a key that follows from a secret, for a purpose.
func Derive(secret []byte, purpose string) Key {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	var k Key
	mac.Sum(k.Secret[:0])
	return k
}

// Seal returns an encoded event with the key's seal. The payload stays as it is.
func (k Key) Seal(payload []byte) []byte {
	out := make([]byte, 0, len(payload)+Size)
	out = append(out, payload...)
	out = append(out, head...)
	out = append(out, k.ID[:]...)
	mac := hmac.New(sha256.New, k.Secret[:])
	mac.Write(payload)
	return mac.Sum(out)
}

// Opens reports whether the event was sealed with the key.
func (k Key) Opens(event []byte) bool {
	body, id, sum, ok := split(event)
	if !ok || id != k.ID {
		return false
	}
	mac := hmac.New(sha256.New, k.Secret[:])
	mac.Write(body)
	var want [sha256.Size]byte
	return hmac.Equal(sum, mac.Sum(want[:0]))
}

func split(event []byte) (body []byte, id KeyID, sum []byte, ok bool) {
	n := len(event) - Size
	if n < 0 || !bytes.Equal(event[n:n+len(head)], head) {
		return nil, KeyID{}, nil, false
	}
	rest := event[n+len(head):]
	copy(id[:], rest)
	return event[:n], id, rest[len(id):], true
}

// Verdict is what a seal is worth.
type Verdict int

// The verdicts.
const (
	// Forged has no seal, or not that of the key that it names.
	Forged Verdict = iota
	// Unknown names a key that the hub has not handed over yet.
	Unknown
	// Valid was written by the hub.
	Valid
)

// ErrOtherKey is returned when an id stands for another key already.
var ErrOtherKey = errors.New("the id of the key stands for another key")

// Store keeps the keys of hubs for good.
type Store interface {
	// KeepUsageKey adds a key; one that stands already changes nothing, or is
	// ErrOtherKey.
	KeepUsageKey(ctx context.Context, hub string, key Key) error
	// UsageKey is false for a key that is not known.
	UsageKey(ctx context.Context, hub string, id KeyID) (Key, bool, error)
}

// mostCached bounds the keys in memory, of which a hub has one a day and start.
const mostCached = 4096

// Ring checks seals by the keys of a Store. It is safe for concurrent use.
type Ring struct {
	store Store

	mu    sync.RWMutex
	known map[owned]Key
}

type owned struct {
	hub string
	id  KeyID
}

// NewRing returns a ring on a store.
func NewRing(store Store) *Ring { return &Ring{store: store, known: map[owned]Key{}} }

// Take keeps a key of a hub.
func (r *Ring) Take(ctx context.Context, hub string, key Key) error {
	if known, ok := r.cached(hub, key.ID); ok && known == key {
		return nil
	}
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
		var err error
		if key, ok, err = r.store.UsageKey(ctx, hub, id); err != nil {
			return Unknown, fmt.Errorf("look up a key of %s: %w", hub, err)
		}
		if !ok {
			return Unknown, nil
		}
		r.remember(hub, key)
	}
	if !key.Opens(event) {
		return Forged, nil
	}
	return Valid, nil
}

func (r *Ring) cached(hub string, id KeyID) (Key, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	key, ok := r.known[owned{hub, id}]
	return key, ok
}

func (r *Ring) remember(hub string, key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostCached {
		clear(r.known)
	}
	r.known[owned{hub, key.ID}] = key
}
