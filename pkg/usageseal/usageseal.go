// Package usageseal proves which hub wrote a usage event. A hub appends a seal to each
// event that it publishes: the id of its key, and HMAC-SHA-256 under the key over all
// bytes before. It hands the key to the services that read usage, which keep it for good,
// so that the events of a dead hub can be verified.
//
// The seal is the last field of svc.events.v1.UsageEvent, so a sealed event is an event.
// Sealing and checking cost about a microsecond each.
package usageseal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"

	"svc.internal/pkg/mac"
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

// ParseKey reads a key that a hub has handed over.
func ParseKey(id, secret []byte) (Key, error) {
	var k Key
	if len(id) != len(k.ID) || len(secret) != len(k.Secret) {
		return Key{}, fmt.Errorf("a key has an id of %d bytes and a secret of %d", len(k.ID), len(k.Secret))
	}
	copy(k.ID[:], id)
	copy(k.Secret[:], secret)
	return k, nil
}

// Derive returns a key that is derived from a secret for a purpose.
func Derive(secret []byte, purpose string) Key {
	of := hmac.New(sha256.New, secret)
	of.Write([]byte(purpose))
	var k Key
	of.Sum(k.Secret[:0])
	return k
}

// Seal returns an encoded event with the key's seal. It does not change the payload.
func (k Key) Seal(payload []byte) []byte {
	out := make([]byte, 0, len(payload)+Size)
	out = append(out, payload...)
	out = append(out, head...)
	out = append(out, k.ID[:]...)
	m := macs.Get(&k.Secret)
	defer macs.Put(m)
	return m.Append(out, payload)
}

// macs are under the few keys of the hubs that this process hears of.
var macs mac.Pool

// Opens reports whether the event was sealed with the key.
func (k Key) Opens(event []byte) bool {
	body, id, sum, ok := split(event)
	if !ok || id != k.ID {
		return false
	}
	m := macs.Get(&k.Secret)
	defer macs.Put(m)
	return m.Matches(sum, body)
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
