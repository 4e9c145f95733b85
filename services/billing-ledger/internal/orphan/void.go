package orphan

import (
	"context"
	"fmt"
	"log/slog"

	"svc.internal/pkg/ids"
)

// Void is an attempt of which its hub says that nothing is owed, although the
// provider may have served: the caller vanished before any content was relayed.
//
// It counts against a receipt that comes later, which is refused, and against
// one that came earlier, which is no evidence any more, for as long as the
// receipt has not settled its request: usage that a review has published by then
// is settled at nothing (see usage.Snapshot.Voids), and settlement hears so. Once it
// has settled it, the void is kept and said aloud, and no money moves. A gateway's word that
// it relayed content of that very attempt is worth more than a void.
type Void struct {
	Request  ids.RequestID
	Attempt  int32
	Hub      string
	Provider ids.ProviderID
}

// VoidStore keeps void attempts.
type VoidStore interface {
	// KeepVoids keeps those of known requests, once, and returns those whose
	// request a receipt of that attempt, or of one before it, has settled
	// already.
	KeepVoids(ctx context.Context, all []Void) (settled []Void, err error)
}

// Voids takes word of void attempts.
type Voids struct {
	Store VoidStore
	Log   *slog.Logger
}

// Keep keeps all of them or none.
func (v *Voids) Keep(ctx context.Context, all []Void) error {
	if len(all) == 0 {
		return nil
	}
	settled, err := v.Store.KeepVoids(ctx, all)
	if err != nil {
		return fmt.Errorf("keep %d void attempts: %w", len(all), err)
	}
	for _, s := range settled {
		v.Log.ErrorContext(ctx,
			"word that an attempt is void came when its receipt was paid; the consumer may be owed a refund",
			"request_id", s.Request.String(), "attempt", s.Attempt, "hub_id", s.Hub, "provider_id", s.Provider.String())
	}
	return nil
}
