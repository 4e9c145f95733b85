package orphan

import (
	"context"
	"fmt"
	"log/slog"

	"svc.internal/pkg/ids"
)

// Void is an attempt for which its hub says that nothing is owed, although the provider
// may have served: the caller vanished before any content was relayed. Voids are kept for
// a week.
//
// A receipt for a void attempt, or for an attempt before it, is refused as nothing_served
// when it arrives later. A receipt that arrived earlier is no evidence any more, as long
// as it has not settled its request: usage that a review has published by then is settled
// at nothing (see usage.Snapshot.Voids), and settlement hears of it as of a review. Once
// the receipt has settled its request, the void is kept, no money moves, and the log says
// at error that the consumer may be owed a refund. A gateway's report that it relayed
// content of that very attempt outranks a void.
type Void struct {
	Request  ids.RequestID
	Attempt  int32
	Hub      string
	Provider ids.ProviderID
}

// VoidStore keeps void attempts.
type VoidStore interface {
	// KeepVoids keeps the voids of known requests, each once. It returns the voids whose
	// request is already settled by a receipt of that attempt or of an earlier one.
	KeepVoids(ctx context.Context, all []Void) (settled []Void, err error)
}

// Voids keeps the void attempts that hubs report.
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
