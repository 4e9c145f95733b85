package hold

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
)

// Expirer closes the holds that nobody closed.
//
// It does so only while usage can arrive, and has been able to for Grace: after
// an outage of this service or of the bus, the usage of holds whose time is over
// is on its way, and must find them open, or the platform pays for it.
type Expirer struct {
	// Every is the pause between two looks, Batch the most holds of one
	// transaction.
	Every time.Duration
	Batch int
	Grace time.Duration
	// Hearing tells whether usage can arrive now.
	Hearing func() bool
	Store   interface {
		// ExpireHolds closes up to limit open holds whose time is over by the
		// database's clock, and returns how many it closed.
		ExpireHolds(ctx context.Context, limit int) (int, error)
	}
	Clock clock.Clock
	Log   *slog.Logger
	// Observe hears how many expired.
	Observe func(int)
}

// Run looks at every interval until ctx ends. A failure is logged and tried
// again at the next look.
func (e *Expirer) Run(ctx context.Context) {
	ticker := time.NewTicker(e.Every)
	defer ticker.Stop()
	since := e.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !e.Hearing() {
			since = e.Clock.Now()
		}
		if e.Clock.Now().Sub(since) < e.Grace {
			continue
		}
		if err := e.sweep(ctx); err != nil && ctx.Err() == nil {
			e.Log.ErrorContext(ctx, "holds could not be expired", "error", err)
		}
	}
}

// sweep takes batch after batch while they come full.
func (e *Expirer) sweep(ctx context.Context) error {
	for {
		n, err := e.Store.ExpireHolds(ctx, e.Batch)
		if err != nil {
			return err
		}
		e.Observe(n)
		if n < e.Batch {
			return nil
		}
	}
}
