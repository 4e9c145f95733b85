package billingledger

import (
	"context"
	"fmt"
	"io"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/usageseal"
	"svc.internal/services/billing-ledger/internal/events"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// proofs returns what usage is verified with: the ledger's tickets, its own seal, and the
// seals of the hubs. All replicas have the same.
func proofs(
	ctx context.Context, st *store.Store, random io.Reader, c clock.Clock,
) (*usage.Tickets, *events.Seals, error) {
	var fresh [32]byte
	if _, err := io.ReadFull(random, fresh[:]); err != nil {
		return nil, nil, fmt.Errorf("make the ledger's secret: %w", err)
	}
	secret, err := st.LedgerSecret(ctx, fresh)
	if err != nil {
		return nil, nil, err
	}
	tickets := usage.NewTickets(usageseal.Derive(secret, "tickets").Secret)
	return tickets, &events.Seals{Ring: usageseal.NewRing(st, c), Own: usageseal.Derive(secret, "reviews")}, nil
}
