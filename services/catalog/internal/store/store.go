// Package store keeps the catalog in PostgreSQL: models, their immutable price
// versions, the changes that operators scheduled, the files of models' weights, and the
// revision. The revision moves with every change, whoever made it. Replicas hear of each
// other's changes by NOTIFY.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
)

// Schema and Role are the catalog's own in a shared database.
const (
	Schema = "catalog"
	Role   = "svc_catalog"
)

// CatalogFull refuses a change that would take the catalog over its bounds.
const CatalogFull fault.Reason = "catalog_full"

// Migrations make the schema, with the functions beside them.
//
//go:embed migrations/*.sql functions/*.sql
var Migrations embed.FS

// Store reads and writes the catalog's tables.
type Store struct {
	pool *pgxpool.Pool
	lull *pg.Lull
}

// New returns a store on a pool opened for Schema and Role.
func New(pool *pgxpool.Pool) *Store { return &Store{pool, pg.NewLull(pool)} }

const selectRevision = `SELECT revision FROM revision`

const selectModels = `
SELECT m.model_id, m.slug, m.name, m.category, m.kind, m.tier, m.active, m.context_tokens, m.max_output_tokens,
       m.capabilities, m.supported_parameters, m.created_at, m.deprecated_at, m.min_vram_gb, m.successor,
       p.price_version_id, p.input_pico_usd, p.output_pico_usd, p.payout_input_pico_usd, p.payout_output_pico_usd,
       p.payout_cached_input_pico_usd, p.valid_from, p.pricing_unit, c.effective_from,
       coalesce(c.pricing_unit, p.pricing_unit), coalesce(c.input_pico_usd, 0), coalesce(c.output_pico_usd, 0),
       coalesce(c.payout_input_pico_usd, 0), coalesce(c.payout_output_pico_usd, 0),
       coalesce(c.payout_cached_input_pico_usd, 0)
FROM model m JOIN price_version p ON p.model_id = m.model_id AND p.valid_to IS NULL
    LEFT JOIN model_change c ON c.model_id = m.model_id AND c.state = 'scheduled'
        AND c.base_price_version_id = p.price_version_id`

// Load reads the whole catalog, ordered by id, as of one moment. When its
// revision is the known one, no models are read and changed is false.
func (s *Store) Load(ctx context.Context, known int64) (revision int64, models []entry.Model, changed bool, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		models, changed = nil, false
		if err := tx.QueryRow(ctx, selectRevision).Scan(&revision); err != nil {
			return fmt.Errorf("read the catalog's revision: %w", err)
		}
		if revision == known {
			return nil
		}
		changed = true
		rows, err := tx.Query(ctx, selectModels+` ORDER BY m.model_id`)
		if err != nil {
			return fmt.Errorf("read models: %w", err)
		}
		if models, err = pgx.CollectRows(rows, scanModel); err != nil {
			return fmt.Errorf("read models: %w", err)
		}
		return nil
	})
	return revision, models, changed, err
}

func scanModel(row pgx.CollectableRow) (entry.Model, error) {
	var m entry.Model
	var version [16]byte
	var deprecated, from *time.Time
	var now, then ratesColumns
	err := row.Scan(&m.ID, &m.Slug, &m.Name, &m.Category, &m.Kind, &m.Tier, &m.Active, &m.ContextTokens,
		&m.MaxOutputTokens,
		&m.Capabilities, &m.Parameters, &m.CreatedAt, &deprecated, &m.MinVRAMGB, &m.Successor,
		&version, &now.input, &now.output, &now.payoutInput, &now.payoutOutput, &now.payoutCachedInput,
		&m.Price.ValidFrom, &now.unit, &from, &then.unit, &then.input, &then.output, &then.payoutInput,
		&then.payoutOutput, &then.payoutCachedInput)
	if err != nil {
		return entry.Model{}, err
	}
	if deprecated != nil {
		m.DeprecatedAt = *deprecated
	}
	m.Price.ID = version
	if m.Price.Rates, err = now.rates(); err != nil || from == nil || then == now {
		return m, err
	}
	m.Coming.From = *from
	m.Coming.Rates, err = then.rates()
	return m, err
}

// ratesColumns are rates as columns have them.
type ratesColumns struct {
	unit                                                        string
	input, output, payoutInput, payoutOutput, payoutCachedInput int64
}

func (r ratesColumns) rates() (money.Rates, error) {
	unit, err := money.ParseUnit(r.unit)
	return money.Rates{Unit: unit, Input: money.PicoUSD(r.input), Output: money.PicoUSD(r.output),
		PayoutInput: money.PicoUSD(r.payoutInput), PayoutOutput: money.PicoUSD(r.payoutOutput),
		PayoutCachedInput: money.PicoUSD(r.payoutCachedInput)}, err
}

// orNull is the column's form of an instant that may be absent.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// mendable makes a fault of each error that the caller can mend. It returns all other
// errors unchanged.
func mendable(err error) error {
	var known *fault.Fault
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case pg.IsUnique(err, "model_slug_once"):
		return fault.Wrap(err, fault.Invalid, fault.InvalidValue, "slug is another model's").On("slug")
	case pg.IsCheck(err, "model_change_waiting_bound"):
		return fault.Wrap(err, fault.Precondition, fault.TooManyChanges, "at most %d scheduled changes wait",
			change.MaxWaiting)
	case pg.IsCheck(err, "revision_weight_files_bound"), pg.IsCheck(err, "revision_weight_text_bound"):
		return fault.Wrap(err, fault.Exhausted, CatalogFull,
			"the catalog holds at most 100,000 files and 32 MiB of their names and addresses")
	case pg.IsCheck(err, "revision_models_bound"), pg.IsCheck(err, "revision_text_bound"):
		return fault.Wrap(err, fault.Exhausted, CatalogFull, "the catalog holds at most %d models and 6 MiB of text",
			entry.MaxModels)
	}
	return err
}
