package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/price"
)

// Changes are rare, so they queue behind one lock: the catalog's revision
// would make them wait for each other anyway.
const lockChanges = `SELECT pg_advisory_xact_lock(hashtext('svc.catalog.put'))`

const insertModel = `
INSERT INTO model (model_id, slug, name, category, kind, tier, active, context_tokens, max_output_tokens,
                   capabilities, supported_parameters, deprecated_at, min_vram_gb, successor, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

const updateModel = `
UPDATE model SET slug = $2, name = $3, category = $4, kind = $5, tier = $6, active = $7, context_tokens = $8,
                 max_output_tokens = $9, capabilities = $10, supported_parameters = $11, deprecated_at = $12,
                 min_vram_gb = $13, successor = $14
WHERE model_id = $1`

const closePrice = `UPDATE price_version SET valid_to = $2 WHERE price_version_id = $1`

const insertPrice = `
INSERT INTO price_version (price_version_id, model_id, input_pico_usd, output_pico_usd,
                           payout_input_pico_usd, payout_output_pico_usd, valid_from, pricing_unit,
                           payout_cached_input_pico_usd)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// Put implements entry.Store.
func (s *Store) Put(
	ctx context.Context, id string, now time.Time, decide func(current *entry.Model) (entry.Model, error),
) (entry.Model, error) {
	var next entry.Model
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		current, err := lockModel(ctx, tx, id)
		if err != nil {
			return err
		}
		if next, err = decide(current); err != nil {
			return err
		}
		if err := writeDraft(ctx, tx, current, next); err != nil {
			return err
		}
		if err := writePrice(ctx, tx, current, next); err != nil {
			return err
		}
		if current != nil && !current.Same(next) {
			if err := refuseWaiting(ctx, tx, *current, next, now); err != nil {
				return err
			}
		}
		return auditPut(ctx, tx, current, next)
	})
	if err != nil {
		return entry.Model{}, mendable(err)
	}
	return next, nil
}

// lockModel keeps other changes out until tx ends and reads the model, nil
// when there is none.
func lockModel(ctx context.Context, tx pgx.Tx, id string) (*entry.Model, error) {
	if _, err := tx.Exec(ctx, lockChanges); err != nil {
		return nil, fmt.Errorf("wait for other changes: %w", err)
	}
	return readModel(ctx, tx, id)
}

// readModel reads a model, nil when there is none.
func readModel(ctx context.Context, tx pgx.Tx, id string) (*entry.Model, error) {
	rows, err := tx.Query(ctx, selectModels+` WHERE m.model_id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	m, err := pgx.CollectExactlyOneRow(rows, scanModel)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // a new model has no current one
	case err != nil:
		return nil, fmt.Errorf("read model: %w", err)
	}
	return &m, nil
}

func writeDraft(ctx context.Context, tx pgx.Tx, current *entry.Model, next entry.Model) error {
	d := next.Draft
	args := []any{d.ID, d.Slug, d.Name, string(d.Category), string(d.Kind), string(d.Tier), d.Active,
		d.ContextTokens, d.MaxOutputTokens, orEmpty(d.Capabilities), orEmpty(d.Parameters), orNull(d.DeprecatedAt),
		d.MinVRAMGB, d.Successor}
	switch {
	case current == nil:
		if _, err := tx.Exec(ctx, insertModel, append(args, next.CreatedAt)...); err != nil {
			return fmt.Errorf("insert model: %w", err)
		}
	case !current.Equal(d):
		if _, err := tx.Exec(ctx, updateModel, args...); err != nil {
			return fmt.Errorf("update model: %w", err)
		}
	}
	return nil
}

func writePrice(ctx context.Context, tx pgx.Tx, current *entry.Model, next entry.Model) error {
	v := next.Price
	if current != nil {
		if current.Price.ID == v.ID {
			return nil
		}
		if _, err := tx.Exec(ctx, closePrice, [16]byte(current.Price.ID), v.ValidFrom); err != nil {
			return fmt.Errorf("end price version: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, insertPrice, priceColumns(next.ID, v)...); err != nil {
		return fmt.Errorf("insert price version: %w", err)
	}
	return nil
}

func priceColumns(modelID string, v price.Version) []any {
	return []any{[16]byte(v.ID), modelID, int64(v.Rates.Input), int64(v.Rates.Output),
		int64(v.Rates.PayoutInput), int64(v.Rates.PayoutOutput), v.ValidFrom, v.Rates.Unit.String(),
		int64(v.Rates.PayoutCachedInput)}
}

// orEmpty keeps NULL out of columns that have an empty array instead.
func orEmpty(words []string) []string {
	if words == nil {
		return []string{}
	}
	return words
}
