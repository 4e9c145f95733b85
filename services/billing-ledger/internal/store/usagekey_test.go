package store_test

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/usageseal"
	"svc.internal/services/billing-ledger/internal/store"
)

// mostKeys is how many new keys of a hub the table takes within a day.
const mostKeys = 300

func sealKey(n int) usageseal.Key {
	var k usageseal.Key
	binary.BigEndian.PutUint64(k.ID[:], uint64(n))
	return k
}

// A hub hands over ever new keys to two replicas at once.
func TestAHubHandsOverSoManyNewKeysADay(t *testing.T) {
	e := setup(t, unlimited)
	replicas := []*store.Store{e.store, store.New(e.pool, unlimited, terms)}
	var racers sync.WaitGroup
	var taken, refused atomic.Int64
	for from := range 4 {
		racers.Go(func() {
			for n := from; n < mostKeys+20; n += 4 {
				switch err := replicas[from%2].KeepUsageKey(t.Context(), "hub-1", sealKey(n)); {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, usageseal.ErrTooManyKeys):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	racers.Wait()
	if taken.Load() != mostKeys || refused.Load() != 20 {
		t.Errorf("got %d keys taken and %d refused, want %d and 20", taken.Load(), refused.Load(), mostKeys)
	}
	if err := e.store.KeepUsageKey(t.Context(), "hub-2", sealKey(1)); err != nil {
		t.Errorf("a key of another hub: got %v, want it taken", err)
	}
	standing := scan[[]byte](t, e, `SELECT key_id FROM usage_key WHERE hub_id = 'hub-1' LIMIT 1`)
	if err := e.store.KeepUsageKey(t.Context(), "hub-1", sealKey(int(binary.BigEndian.Uint64(standing)))); err != nil {
		t.Errorf("a key that stands: got %v, want it taken", err)
	}
	e.exec(t, `UPDATE usage_key SET created_at = now() - interval '25 hours' WHERE key_id = $1`, standing)
	if err := e.store.KeepUsageKey(t.Context(), "hub-1", sealKey(1_000_000)); err != nil {
		t.Errorf("a day later: got %v, want one more key taken", err)
	}
	if err := e.store.KeepUsageKey(t.Context(), "hub-1", sealKey(1_000_001)); !errors.Is(err, usageseal.ErrTooManyKeys) {
		t.Errorf("and another one: got %v, want too many", err)
	}
}
