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
	"svc.internal/services/billing-ledger/internal/webhook"
)

// proven are what others' words are verified with. All replicas have the same.
type proven struct {
	// tickets and seals prove usage: the ledger's own seal and those of the hubs.
	tickets *usage.Tickets
	seals   *events.Seals
	// webhooks is the secret with which the sandbox signs, if no other is set.
	webhooks []byte
	// cards is the key under which cards are told apart.
	cards []byte
	// cursors is the secret of the cursors that consumers are given.
	cursors []byte
	// endpoints seals the secrets of account webhooks.
	endpoints *webhook.Sealer
}

// proofs derives everything from the ledger's secret.
func proofs(ctx context.Context, st *store.Store, random io.Reader, c clock.Clock) (proven, error) {
	var fresh [32]byte
	if _, err := io.ReadFull(random, fresh[:]); err != nil {
		return proven{}, fmt.Errorf("make the ledger's secret: %w", err)
	}
	secret, err := st.LedgerSecret(ctx, fresh)
	if err != nil {
		return proven{}, err
	}
	webhooks := usageseal.Derive(secret, "card webhooks").Secret
	cards := usageseal.Derive(secret, "card fingerprints").Secret
	cursors := usageseal.Derive(secret, "cursors").Secret
	sealing := usageseal.Derive(secret, "account webhooks").Secret
	endpoints, err := webhook.NewSealer(sealing[:])
	if err != nil {
		return proven{}, err
	}
	return proven{
		tickets:   usage.NewTickets(usageseal.Derive(secret, "tickets").Secret),
		seals:     &events.Seals{Ring: usageseal.NewRing(st, c), Own: usageseal.Derive(secret, "reviews")},
		webhooks:  webhooks[:],
		cards:     cards[:],
		cursors:   cursors[:],
		endpoints: endpoints,
	}, nil
}
