package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
)

// LockProvider inserts the row of a provider if there is none, locks it until the end of the transaction, and returns
// the provider's settlement chain. Payouts, refunds and penalties begin under this lock.
func LockProvider(ctx context.Context, tx pgx.Tx, id ids.ProviderID) (chain.ID, error) {
	const insert = `INSERT INTO provider (provider_id) VALUES ($1) ON CONFLICT DO NOTHING`
	if _, err := tx.Exec(ctx, insert, id); err != nil {
		return 0, fmt.Errorf("insert the row of a provider: %w", err)
	}
	var settles chain.ID
	err := tx.QueryRow(ctx, `SELECT settlement_chain_id FROM provider WHERE provider_id = $1 FOR UPDATE`, id).
		Scan(&settles)
	if err != nil {
		return 0, fmt.Errorf("lock the row of a provider: %w", err)
	}
	return settles, nil
}

// SettlementChains keeps the settlement chains of providers.
type SettlementChains struct{ *Store }

// SetSettlementChain sets the chain on which a provider is paid, with an entry of its history. actor is provider,
// platform or operator:name. The same chain again changes nothing.
func (s SettlementChains) SetSettlementChain(ctx context.Context, id ids.ProviderID, to chain.ID, actor string) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return setSettlementChain(ctx, tx, id, to, actor)
	})
	if err != nil {
		return fmt.Errorf("set the settlement chain of %s: %w", id, err)
	}
	return nil
}

func setSettlementChain(ctx context.Context, tx pgx.Tx, id ids.ProviderID, to chain.ID, actor string) error {
	was, err := LockProvider(ctx, tx, id)
	if err != nil || was == to {
		return err
	}
	const entry = `INSERT INTO settlement_chain_change (provider_id, chain_id, actor) VALUES ($1, $2, $3)`
	if _, err := tx.Exec(ctx, entry, id, to, actor); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE provider SET settlement_chain_id = $2 WHERE provider_id = $1`, id, to)
	return err
}
