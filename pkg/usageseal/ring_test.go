package usageseal

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/clock"
)

// rung is a ring on a store in memory, by a clock that stands.
type rung struct {
	*Ring
	store *memory
	now   *clock.Manual
}

func newRung() rung {
	store, now := &memory{keys: map[string]Key{}}, clock.NewManual(time.Unix(1_790_000_000, 0))
	return rung{Ring: NewRing(store, now), store: store, now: now}
}

func (r rung) expect(t *testing.T, what, hub string, data []byte, want Verdict) {
	t.Helper()
	if got, err := r.Check(t.Context(), hub, data); got != want || err != nil {
		t.Errorf("%s: got verdict %d, %v, want %d", what, got, err, want)
	}
}

func TestAKeyMayBeMissingForAWhileAfterTheStartOrAFailure(t *testing.T) {
	r, key := newRung(), newKey(t)
	sealed := key.Seal(event(t))
	r.expect(t, "at the start", "hub-1", sealed, Early)
	r.now.Advance(KeyWait - 1)
	r.expect(t, "before hubs have had the time", "hub-1", sealed, Early)
	r.now.Advance(1)
	r.expect(t, "when hubs have had the time", "hub-1", sealed, Unknown)

	r.store.away = errors.New("away")
	if _, err := r.Check(t.Context(), "hub-1", sealed); err == nil {
		t.Error("without its store: got a verdict, want an error")
	}
	r.store.away = nil
	r.expect(t, "after a failure", "hub-1", sealed, Early)
	r.now.Advance(KeyWait)
	r.expect(t, "a while after it", "hub-1", sealed, Unknown)

	// What a hub can make fail begins no wait.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.store.away = ctx.Err()
	if err := r.Take(ctx, "hub-1", newKey(t)); err == nil {
		t.Error("without its store: got the key taken, want an error")
	}
	r.store.away = nil
	r.expect(t, "after a hub has hung up", "hub-1", sealed, Unknown)
}

func TestAKeyIsWrittenEachTimeThatItIsHandedOver(t *testing.T) {
	r, key := newRung(), newKey(t)
	for range 2 {
		if err := r.Take(t.Context(), "hub-1", key); err != nil {
			t.Fatal(err)
		}
		if _, stands, err := r.store.UsageKey(t.Context(), "hub-1", key.ID); !stands || err != nil {
			t.Errorf("got the key in the store %v, %v, want it there", stands, err)
		}
		clear(r.store.keys) // as in a failover that lost it
	}
}

// numbered are keys that a hub has made up.
func numbered(n int) Key {
	var k Key
	binary.BigEndian.PutUint64(k.ID[:], uint64(n))
	return k
}

func TestAHubThatMakesUpKeysIsSlowAlone(t *testing.T) {
	r, honest := newRung(), newKey(t)
	if err := r.Take(t.Context(), "hub-1", honest); err != nil {
		t.Fatal(err)
	}
	for n := range 20 * maxCached {
		if err := r.Take(t.Context(), "hub-2", numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.known["hub-2"]); n > maxCached {
		t.Errorf("got %d keys of a hub in memory, want at most %d", n, maxCached)
	}
	asked := r.store.asked
	r.expect(t, "an event of another hub", "hub-1", honest.Seal(event(t)), Valid)
	if r.store.asked != asked {
		t.Error("got the key of another hub looked up, want it in memory still")
	}

	r.now.Advance(KeyWait)
	asked = r.store.asked
	for n := range 10 * maxLookups {
		r.expect(t, "a key that nobody has", "hub-2", numbered(1_000_000+n).Seal(event(t)), Unknown)
	}
	if n := r.store.asked - asked; n != maxLookups {
		t.Errorf("got %d lookups in a second, want %d", n, maxLookups)
	}
	late := newKey(t)
	r.store.keys["hub-1"+string(late.ID[:])] = late // handed to another replica
	r.expect(t, "a key of another hub", "hub-1", late.Seal(event(t)), Valid)
	r.now.Advance(time.Second)
	r.store.keys["hub-2"+string(late.ID[:])] = late
	r.expect(t, "its own key, a second later", "hub-2", late.Seal(event(t)), Valid)
}

func TestLookupsOfNobodyKeepMemoryBounded(t *testing.T) {
	r := newRung()
	for n := range 3 * maxHubs {
		r.expect(t, "a hub that is none", string(binary.BigEndian.AppendUint64(nil, uint64(n))), numbered(n).Seal(event(t)),
			Early)
	}
	if n := len(r.lookups); n > maxHubs {
		t.Errorf("got the lookups of %d hubs counted, want at most %d", n, maxHubs)
	}
}
