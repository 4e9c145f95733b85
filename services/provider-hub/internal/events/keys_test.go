package events

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/usageseal"
)

func TestAHubThatHasTooManyKeysAsksSlowlyUntilItsKeyIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		refusal error
		limit   int // calls in 10 minutes
	}{
		"too many keys": {fault.New(fault.Exhausted, fault.TooManyKeys, "too many"), 11},
		"away":          {errors.New("away"), 70},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // of what Hand uses
			refusal, calls := c.refusal, 0
			seen := map[usageseal.KeyID]bool{}
			receiver := KeyReceiver{Name: "ledger", Hand: func(_ context.Context, _ string, key usageseal.Key) error {
				mu.Lock()
				defer mu.Unlock()
				calls++
				seen[key.ID] = true
				return refusal
			}}
			k := NewKeys("hub-a", []KeyReceiver{receiver}, rand.Reader, clock.System, discard)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- k.Run(ctx) }()
			<-time.After(10 * time.Minute)
			synctest.Wait()
			mu.Lock()
			if calls > c.limit || calls < 10 {
				t.Errorf("%s: got %d calls in 10 minutes, want 10 to %d", name, calls, c.limit)
			}
			refusal = nil
			mu.Unlock()
			if k.current.Load() != nil {
				t.Errorf("%s: got a key in use that nobody has taken", name)
			}
			if !k.wait(ctx) {
				t.Errorf("%s: got no key", name)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if len(seen) != 1 {
				t.Errorf("%s: got %d keys made, want the key that is to be taken", name, len(seen))
			}
		})
	}
}
