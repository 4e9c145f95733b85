package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/position"
)

// CardCursor implements position.CardStore.
func (s Positions) CardCursor(ctx context.Context) (number int64, err error) {
	if err = s.pool.QueryRow(ctx, `SELECT number FROM card_change_cursor`).Scan(&number); err != nil {
		return 0, fmt.Errorf("read how far changes by card were read: %w", err)
	}
	return number, nil
}

// Heard implements position.CardStore. The rows of providers are locked in one order, after that of the cursor.
func (s Positions) Heard(ctx context.Context, changes []position.CardChange) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var number int64
		if err := tx.QueryRow(ctx, `SELECT number FROM card_change_cursor FOR UPDATE`).Scan(&number); err != nil {
			return err
		}
		of := map[ids.ProviderID][]position.CardChange{}
		for _, c := range changes {
			if c.Number > number {
				of[c.Provider] = append(of[c.Provider], c)
			}
		}
		concerned := slices.SortedFunc(maps.Keys(of), func(a, b ids.ProviderID) int { return bytes.Compare(a[:], b[:]) })
		for _, id := range concerned {
			if err := s.heard(ctx, tx, id, of[id]); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `UPDATE card_change_cursor SET number = greatest(number, $1)`, changes[len(changes)-1].Number)
		return err
	})
	if err != nil {
		return fmt.Errorf("hear of %d changes by card: %w", len(changes), err)
	}
	return nil
}

func (s Positions) heard(ctx context.Context, tx pgx.Tx, id ids.ProviderID, changes []position.CardChange) error {
	if _, err := LockProvider(ctx, tx, id); err != nil {
		return err
	}
	const insert = `INSERT INTO card_collateral (provider_id) VALUES ($1) ON CONFLICT DO NOTHING`
	if _, err := tx.Exec(ctx, insert, id); err != nil {
		return err
	}
	reversed := slices.ContainsFunc(changes, func(c position.CardChange) bool { return c.Reversed })
	err := changeCard(ctx, tx, id, `stale = true, looked_at = NULL, reversed = reversed OR $2`, reversed)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.Failed.Attempt == 0 {
			continue
		}
		if err := repay(ctx, tx, c.Failed); err != nil {
			return err
		}
	}
	return s.assess(ctx, tx, id)
}

// Stale implements position.CardStore.
func (s Positions) Stale(ctx context.Context, limit int) ([]position.StaleCard, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT provider_id FROM card_collateral c
			WHERE stale AND (looked_at IS NULL OR looked_at <= clock_timestamp() - interval '10 seconds')
				AND NOT EXISTS (SELECT FROM penalty_part p WHERE p.provider_id = c.provider_id
					AND p.chain_id IS NULL AND p.state = 'opened')
				AND NOT EXISTS (SELECT FROM collateral_refund r JOIN collateral_refund_part p USING (refund_id)
					WHERE r.provider_id = c.provider_id AND r.state = 'paying' AND p.state = 'opened')
			ORDER BY looked_at NULLS FIRST LIMIT $1 FOR UPDATE SKIP LOCKED
		)
		UPDATE card_collateral SET looked_at = clock_timestamp() FROM due
		WHERE card_collateral.provider_id = due.provider_id RETURNING card_collateral.provider_id, version`, limit)
	if err != nil {
		return nil, fmt.Errorf("read whose collateral by card changed: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[position.StaleCard])
	if err != nil {
		return nil, fmt.Errorf("read whose collateral by card changed: %w", err)
	}
	return list, nil
}

// Known implements position.CardStore.
func (s Positions) Known(ctx context.Context, card position.StaleCard, b position.CardBalance) error {
	err := s.locked(ctx, card.Provider, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE card_collateral SET free_nano_usd = $3, owed_nano_usd = $4, stale = false,
			version = version + 1 WHERE provider_id = $1 AND version = $2`, card.Provider, card.Version, int64(b.Free),
			int64(b.Owed))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return s.assess(ctx, tx, card.Provider)
	})
	if err != nil {
		return fmt.Errorf("record the collateral by card of %s: %w", card.Provider, err)
	}
	return nil
}
