package store

import (
	"context"
	"fmt"
	"time"
)

// closeTimeout bounds the farewell to a server that may be gone.
const closeTimeout = time.Second

// Listen calls changed after every committed change of the catalog, and once
// when it begins to hear, for what was missed before. It takes a connection
// from the pool for good and returns when that is lost or ctx ends. changed
// must not block.
func (s *Store) Listen(ctx context.Context, changed func()) error {
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("take a connection to listen on: %w", err)
	}
	conn := pooled.Hijack() // a listening connection must not serve others
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(ctx) // nothing was left to lose
	}()
	if _, err := conn.Exec(ctx, `LISTEN catalog_changed`); err != nil {
		return fmt.Errorf("listen for changes: %w", err)
	}
	for {
		changed()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("wait for a change: %w", err)
		}
	}
}
