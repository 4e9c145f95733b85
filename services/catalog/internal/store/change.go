package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/ids"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
)

const selectChanges = `
SELECT c.change_id, c.model_id, c.state, c.effective_from, c.draft, c.pricing_unit, c.input_pico_usd,
       c.output_pico_usd, c.payout_input_pico_usd, c.payout_output_pico_usd, c.payout_cached_input_pico_usd, c.base,
       b.price_version_id, b.pricing_unit, b.input_pico_usd, b.output_pico_usd, b.payout_input_pico_usd,
       b.payout_output_pico_usd, b.payout_cached_input_pico_usd, b.valid_from,
       c.scheduled_by, c.scheduled_at, c.ended_by, c.ended_at, c.reason, c.price_version_id
FROM model_change c JOIN price_version b ON b.price_version_id = c.base_price_version_id`

const insertChange = `
INSERT INTO model_change (change_id, model_id, state, effective_from, draft, pricing_unit, input_pico_usd,
                          output_pico_usd, payout_input_pico_usd, payout_output_pico_usd,
                          payout_cached_input_pico_usd, base, base_price_version_id, scheduled_by, scheduled_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

const endChange = `
UPDATE model_change SET state = $2, ended_by = $3, ended_at = $4, reason = $5, price_version_id = $6
WHERE change_id = $1`

// draftColumn is a draft as a column has it. A member that a newer catalog adds has its zero value in
// older rows.
type draftColumn struct {
	Slug            string     `json:"slug"`
	Name            string     `json:"name"`
	Category        string     `json:"category"`
	Kind            string     `json:"kind"`
	Tier            string     `json:"tier"`
	Active          bool       `json:"active"`
	ContextTokens   int64      `json:"context_tokens"`
	MaxOutputTokens int64      `json:"max_output_tokens"`
	MinVRAMGB       int32      `json:"min_vram_gb"`
	Capabilities    []string   `json:"capabilities"`
	Parameters      []string   `json:"supported_parameters"`
	DeprecatedAt    *time.Time `json:"deprecated_at"`
	Successor       string     `json:"successor"`
}

func draftToColumn(d entry.Draft) ([]byte, error) {
	column, err := json.Marshal(draftColumn{Slug: d.Slug, Name: d.Name, Category: string(d.Category),
		Kind: string(d.Kind), Tier: string(d.Tier), Active: d.Active, ContextTokens: d.ContextTokens,
		MaxOutputTokens: d.MaxOutputTokens, MinVRAMGB: d.MinVRAMGB, Capabilities: d.Capabilities,
		Parameters: d.Parameters, DeprecatedAt: orNull(d.DeprecatedAt), Successor: d.Successor})
	if err != nil {
		return nil, fmt.Errorf("write the draft of %s: %w", d.ID, err)
	}
	return column, nil
}

func draftFromColumn(id string, column []byte) (entry.Draft, error) {
	var c draftColumn
	if err := json.Unmarshal(column, &c); err != nil {
		return entry.Draft{}, fmt.Errorf("read a draft of %s: %w", id, err)
	}
	d := entry.Draft{ID: id, Slug: c.Slug, Name: c.Name, Category: entry.Category(c.Category),
		Kind: entry.Kind(c.Kind), Tier: entry.Tier(c.Tier), Active: c.Active, ContextTokens: c.ContextTokens,
		MaxOutputTokens: c.MaxOutputTokens, MinVRAMGB: c.MinVRAMGB, Capabilities: c.Capabilities,
		Parameters: c.Parameters, Successor: c.Successor}
	if c.DeprecatedAt != nil {
		d.DeprecatedAt = *c.DeprecatedAt
	}
	return d, nil
}

func scanChange(row pgx.CollectableRow) (change.Change, error) {
	var c change.Change
	var id, version [16]byte
	var price *[16]byte
	var modelID string
	var draft, base []byte
	var then, was ratesColumns
	var ended *time.Time
	err := row.Scan(&id, &modelID, &c.State, &c.From, &draft, &then.unit, &then.input, &then.output, &then.payoutInput,
		&then.payoutOutput, &then.payoutCachedInput, &base, &version, &was.unit, &was.input, &was.output,
		&was.payoutInput, &was.payoutOutput, &was.payoutCachedInput, &c.Base.Price.ValidFrom, &c.ScheduledBy,
		&c.ScheduledAt, &c.EndedBy, &ended, &c.Reason, &price)
	if err != nil {
		return change.Change{}, err
	}
	c.ID, c.Base.Price.ID = id, version
	if price != nil {
		c.Price = *price
	}
	if ended != nil {
		c.EndedAt = *ended
	}
	var faults [4]error
	c.Draft, faults[0] = draftFromColumn(modelID, draft)
	c.Base.Draft, faults[1] = draftFromColumn(modelID, base)
	c.Rates, faults[2] = then.rates()
	c.Base.Price.Rates, faults[3] = was.rates()
	return c, errors.Join(faults[:]...)
}

// readChange reads the change that a condition names, nil where there is none.
func readChange(ctx context.Context, tx pgx.Tx, where string, args ...any) (*change.Change, error) {
	rows, err := tx.Query(ctx, selectChanges+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read a scheduled change: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanChange)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // there need not be one
	case err != nil:
		return nil, fmt.Errorf("read a scheduled change: %w", err)
	}
	return &c, nil
}

func readWaiting(ctx context.Context, tx pgx.Tx, modelID string) (*change.Change, error) {
	return readChange(ctx, tx, ` WHERE c.model_id = $1 AND c.state = 'scheduled'`, modelID)
}

func writeChange(ctx context.Context, tx pgx.Tx, c change.Change) error {
	draft, err := draftToColumn(c.Draft)
	if err != nil {
		return err
	}
	base, err := draftToColumn(c.Base.Draft)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insertChange, [16]byte(c.ID), c.Draft.ID, string(c.State), c.From, draft,
		c.Rates.Unit.String(), int64(c.Rates.Input), int64(c.Rates.Output), int64(c.Rates.PayoutInput),
		int64(c.Rates.PayoutOutput), int64(c.Rates.PayoutCachedInput), base, [16]byte(c.Base.Price.ID), c.ScheduledBy,
		c.ScheduledAt); err != nil {
		return fmt.Errorf("insert a scheduled change: %w", err)
	}
	return nil
}

func writeEnd(ctx context.Context, tx pgx.Tx, c change.Change) error {
	var price *[16]byte
	if c.Price != (ids.PriceVersionID{}) {
		price = (*[16]byte)(&c.Price)
	}
	if _, err := tx.Exec(ctx, endChange, [16]byte(c.ID), string(c.State), c.EndedBy, c.EndedAt, c.Reason,
		price); err != nil {
		return fmt.Errorf("end a scheduled change: %w", err)
	}
	return nil
}

// refuseWaiting refuses the change of a model that waits, because the model is changed.
func refuseWaiting(ctx context.Context, tx pgx.Tx, before, after entry.Model, now time.Time) error {
	c, err := readWaiting(ctx, tx, after.ID)
	if err != nil || c == nil {
		return err
	}
	done, err := c.Overtake(before, after, now)
	if err != nil {
		return err
	}
	done.EndedBy = actor.OfOperator(ctx)
	if err := writeEnd(ctx, tx, done); err != nil {
		return err
	}
	return auditChange(ctx, tx, refuseChange, done)
}
