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

// maxKeys is how many new keys of a hub the table takes within a day.
const maxKeys = 300

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
			for n := from; n < maxKeys+20; n += 4 {
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
	if taken.Load() != maxKeys || refused.Load() != 20 {
		t.Errorf("got %d keys taken and %d refused, want %d and 20", taken.Load(), refused.Load(), maxKeys)
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

// One key is being added, and is not committed, when another one comes.
func TestAKeyThatIsBeingAddedCounts(t *testing.T) {
	e := setup(t, unlimited)
	e.exec(t, `INSERT INTO usage_key (hub_id, key_id, secret) SELECT 'hub-1', int8send(n), sha256('k')
		FROM generate_series(1, $1::int - 1) AS n`, maxKeys)
	tx, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(),
		`INSERT INTO usage_key (hub_id, key_id, secret) VALUES ('hub-1', int8send(1000), sha256('k'))`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.store.KeepUsageKey(t.Context(), "hub-1", sealKey(1001)) }()
	for len(done) == 0 && scan[int](t, e, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the other key neither waits nor is taken")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, usageseal.ErrTooManyKeys) {
		t.Errorf("got %v, want the key refused that is one too many", err)
	}
}
