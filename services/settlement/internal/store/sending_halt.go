package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// maxDetail bounds the text of a halt.
const maxDetail = 500

// Halt implements sending.Store.
func (s Sending) Halt(ctx context.Context, id chain.ID, cause sending.Cause, detail string) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO sending_halt (chain_id, cause, detail) VALUES ($1, $2, $3)
		ON CONFLICT (chain_id, cause) WHERE lifted_at IS NULL DO NOTHING`, id, cause, detail[:min(len(detail), maxDetail)])
	if err != nil {
		return fmt.Errorf("halt a chain: %w", err)
	}
	return nil
}

// Lifted implements sending.Store.
func (s Sending) Lifted(ctx context.Context, id chain.ID, cause sending.Cause, detail string) (lifted bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM sending_halt WHERE chain_id = $1 AND cause = $2 AND detail = $3
		AND lifted_at IS NOT NULL)`, id, cause, detail[:min(len(detail), maxDetail)]).Scan(&lifted)
	if err != nil {
		return false, fmt.Errorf("read the halts that were lifted: %w", err)
	}
	return lifted, nil
}

// Halted implements sending.Store.
func (s Sending) Halted(ctx context.Context, id chain.ID) (halted bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT `+halts, id).Scan(&halted)
	if err != nil {
		return false, fmt.Errorf("read the halts of a chain: %w", err)
	}
	return halted, nil
}

// Halts lists the open halts.
func (s Sending) Halts(ctx context.Context) ([]sending.Halt, error) {
	rows, err := s.pool.Query(ctx, `SELECT chain_id, cause, detail, since FROM sending_halt WHERE lifted_at IS NULL
		ORDER BY chain_id, since`)
	if err != nil {
		return nil, fmt.Errorf("list halts: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sending.Halt])
	if err != nil {
		return nil, fmt.Errorf("list halts: %w", err)
	}
	return list, nil
}

// Lift lifts the open halts of a cause. That of reserves is not lifted while a shortfall stands.
func (s Sending) Lift(ctx context.Context, id chain.ID, cause sending.Cause, actor, reason string) error {
	_, err := s.pool.Exec(ctx, `UPDATE sending_halt SET lifted_at = clock_timestamp(), lifted_by = $3, reason = $4
		WHERE chain_id = $1 AND cause = $2 AND lifted_at IS NULL`, id, cause, actor, reason)
	if pg.IsCheck(err, "sending_halt_reserves") {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"less is held than owed: the halt is lifted by itself once two readings find no shortfall")
	}
	if err != nil {
		return fmt.Errorf("lift a halt: %w", err)
	}
	return nil
}

// GasDue implements sending.Store. A cost below one unit of the books is dust. The oldest of each chain are first, so
// that a coin without a price keeps no other chain waiting.
func (s Sending) GasDue(ctx context.Context, limit int) ([]sending.Spent, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT e.chain_id, e.sender, e.nonce, e.hash, e.cost, g.units, g.rate_nano_usd, g.rate_source, g.rate_at
		FROM call_end e LEFT JOIN call_gas g USING (chain_id, sender, nonce)
		WHERE NOT e.booked AND e.cost >= 1000000000
		ORDER BY row_number() OVER (PARTITION BY e.chain_id ORDER BY e.ended_at, e.sender, e.nonce), e.chain_id
		LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list costs of calls: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanSpent)
	if err != nil {
		return nil, fmt.Errorf("list costs of calls: %w", err)
	}
	return list, nil
}

func scanSpent(row pgx.CollectableRow) (sending.Spent, error) {
	var s sending.Spent
	var sender, hash []byte
	var units, rate *int64
	var source *string
	var at *time.Time
	err := row.Scan(&s.Chain, &sender, &s.Nonce, &hash, &s.Cost, &units, &rate, &source, &at)
	copy(s.Sender[:], sender)
	copy(s.Transaction[:], hash)
	if err == nil && units != nil {
		s.Units, s.Quote = *units, sending.Quote{Rate: money.NanoUSD(*rate), Source: *source, At: *at}
	}
	return s, err
}

// FixGas implements sending.Store.
func (s Sending) FixGas(ctx context.Context, spent sending.Spent) (sending.Spent, error) {
	if _, err := s.pool.Exec(ctx, `
		INSERT INTO call_gas (chain_id, sender, nonce, units, rate_nano_usd, rate_source, rate_at, worthless)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`, spent.Chain, spent.Sender[:], spent.Nonce,
		spent.Units, spent.Quote.Rate, spent.Quote.Source, spent.Quote.At, spent.Worthless); err != nil {
		return sending.Spent{}, fmt.Errorf("store the cost of a call: %w", err)
	}
	err := s.pool.QueryRow(ctx, `SELECT units, rate_nano_usd, rate_source, rate_at, worthless FROM call_gas
		WHERE chain_id = $1 AND sender = $2 AND nonce = $3`, spent.Chain, spent.Sender[:], spent.Nonce).Scan(
		&spent.Units, &spent.Quote.Rate, &spent.Quote.Source, &spent.Quote.At, &spent.Worthless)
	if err != nil {
		return sending.Spent{}, fmt.Errorf("read the cost of a call: %w", err)
	}
	return spent, nil
}

// GasPosted implements sending.Store.
func (s Sending) GasPosted(ctx context.Context, at sending.Place, entry ids.EntryID) error {
	_, err := s.pool.Exec(ctx, `UPDATE call_gas SET entry_id = $4 WHERE chain_id = $1 AND sender = $2 AND nonce = $3
		AND entry_id IS NULL`, at.Chain, at.Sender[:], at.Nonce, entry)
	if err != nil {
		return fmt.Errorf("store the entry of a cost: %w", err)
	}
	return nil
}
