package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/slash"
)

// Parts keeps the parts of penalties; it implements slash.Store.
type Parts struct{ Positions }

const partColumns = `p.part_id, p.penalty_id, p.provider_id, coalesce(p.chain_id, 0), p.depositor,
	coalesce(p.amount, 0), coalesce(p.units, 0), coalesce(p.nano_usd, 0), p.state, p.appeal_until, p.lapses_at, p.action,
	p.attempt`

// partFields are what partColumns are read into, and settle puts them together.
func partFields(p *slash.Part) (fields []any, settle func()) {
	var id, depositor []byte
	var appeal, lapses nullTime
	return []any{&id, &p.Penalty, &p.Provider, &p.Chain, &depositor, &p.Amount, &p.Units, &p.Card, &p.State, &appeal,
			&lapses, &p.Action, &p.Attempt}, func() {
			copy(p.ID[:], id)
			copy(p.Depositor[:], depositor)
			p.AppealUntil, p.LapsesAt = appeal.at, lapses.at
		}
}

func scanPart(row pgx.CollectableRow) (p slash.Part, err error) {
	fields, settle := partFields(&p)
	err = row.Scan(fields...)
	settle()
	return p, err
}

// openParts fixes what a penalty that was just opened takes, and assesses its provider.
func (s Positions) openParts(ctx context.Context, tx pgx.Tx, d penalty.Draft) error {
	if _, err := LockProvider(ctx, tx, d.ProviderID); err != nil {
		return err
	}
	h, err := s.holdings(ctx, tx, d.ProviderID)
	if err != nil {
		return err
	}
	var escrow money.NanoUSD
	if err := tx.QueryRow(ctx, `SELECT coalesce(sum(nano_usd), 0)::bigint FROM penalty_part WHERE provider_id = $1
		AND chain_id IS NULL AND state IN ('opened', 'escrowed')`, d.ProviderID).Scan(&escrow); err != nil {
		return err
	}
	parts := slash.Divide(d, s.Terms.Chains, h, escrow)
	if len(parts) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for _, p := range parts {
		if p.ByCard() {
			batch.Queue(`INSERT INTO penalty_part (part_id, penalty_id, provider_id, nano_usd) VALUES ($1, $2, $3, $4)`,
				p.ID[:], p.Penalty, p.Provider, int64(p.Card))
			batch.Queue(`UPDATE card_collateral SET version = version + 1, free_nano_usd = free_nano_usd - $2
				WHERE provider_id = $1`, p.Provider, int64(p.Card))
			continue
		}
		batch.Queue(`INSERT INTO penalty_part (part_id, penalty_id, provider_id, chain_id, depositor, amount, units)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, p.ID[:], p.Penalty, p.Provider, p.Chain, p.Depositor[:], p.Amount, p.Units)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("fix the parts of a penalty: %w", err)
	}
	return s.assess(ctx, tx, d.ProviderID)
}

// movePart has the part of a penalty follow an event. ours is false where the event is of no part, or does not fit it.
// again reports whether the event counted before it was gone. A part never goes back: its call is sent again.
func movePart(ctx context.Context, tx pgx.Tx, e position.Event, again bool) (ours bool, err error) {
	rows, err := tx.Query(ctx, `SELECT `+partColumns+` FROM penalty_part p WHERE part_id = $1 AND chain_id = $2
		FOR UPDATE`, e.Penalty[:], e.Chain)
	if err != nil {
		return false, err
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPart)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	next, moves, err := p.After(e)
	if err != nil && again {
		next, moves = p.Again(e)
		if !moves {
			return false, nil
		}
		_, err = tx.Exec(ctx, `UPDATE penalty_part SET appeal_until = $2, lapses_at = $3, due_at = clock_timestamp()
			WHERE part_id = $1`, p.ID[:], nullTime{next.AppealUntil}, nullTime{next.LapsesAt})
		return err == nil, err
	}
	if err != nil || !moves {
		return false, nil //nolint:nilerr // an event that does not fit is reported as one of somebody else
	}
	_, err = tx.Exec(ctx, `UPDATE penalty_part SET state = $2, appeal_until = $3, lapses_at = $4, action = '', attempt = 0,
		due_at = clock_timestamp() WHERE part_id = $1`, p.ID[:], next.State, nullTime{next.AppealUntil},
		nullTime{next.LapsesAt})
	return true, err
}

// wakeParts has the parts of a penalty looked at anew.
func wakeParts(ctx context.Context, tx pgx.Tx, id penalty.ID) error {
	_, err := tx.Exec(ctx, `UPDATE penalty_part SET due_at = clock_timestamp()
		WHERE penalty_id = $1 AND state IN ('opened', 'escrowed', 'appealed')`, id)
	return err
}

// Due implements slash.Store. What is listed is nobody else's until the pause is over.
func (s Parts) Due(ctx context.Context, pause time.Duration, limit int) ([]slash.Work, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT part_id FROM penalty_part WHERE due_at <= (SELECT clock_timestamp())
				AND (state IN ('opened', 'escrowed', 'appealed') OR state = 'executed' AND ended_entry IS NULL)
			ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
		), p AS (
			UPDATE penalty_part SET due_at = clock_timestamp() + $1::interval FROM due
			WHERE penalty_part.part_id = due.part_id RETURNING penalty_part.*
		)
		SELECT `+partColumns+`, penalty.state, c.final_at, p.chain_id IS NOT NULL AND p.amount > coalesce(o.free, 0),
			coalesce(p.rate_nano_usd, 0), coalesce(p.rate_source, ''), p.rate_at
		FROM p JOIN penalty USING (penalty_id) LEFT JOIN position_cursor c ON c.chain_id = p.chain_id
			LEFT JOIN position o ON o.chain_id = p.chain_id AND o.depositor = p.depositor
				AND o.subject = uuid_send(p.provider_id) || decode(repeat('00', 16), 'hex')`, pause, limit)
	if err != nil {
		return nil, fmt.Errorf("read the parts of penalties that are due: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w slash.Work, err error) {
		fields, settle := partFields(&w.Part)
		var final, at nullTime
		err = row.Scan(append(fields, &w.Of, &final, &w.Short, &w.Quote.Rate, &w.Quote.Source, &at)...)
		settle()
		w.Final, w.Quote.At = final.at, at.at
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the parts of penalties that are due: %w", err)
	}
	return list, nil
}

// Begin implements slash.Store.
func (s Parts) Begin(ctx context.Context, p slash.Part, a slash.Action, attempt int) (bool, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE penalty_part SET action = $4, attempt = $5
		WHERE part_id = $1 AND state = $2 AND action = $3 AND attempt = $6`,
		p.ID[:], p.State, p.Action, a, attempt, p.Attempt)
	if err != nil {
		return false, fmt.Errorf("begin to %s a part of a penalty: %w", a, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Wait implements slash.Store.
func (s Parts) Wait(ctx context.Context, p slash.Part, d time.Duration) error {
	if _, err := s.pool.Exec(ctx, `UPDATE penalty_part SET due_at = clock_timestamp() + $4::interval
		WHERE part_id = $1 AND state = $2 AND attempt = $3`, p.ID[:], p.State, p.Attempt, d); err != nil {
		return fmt.Errorf("let a part of a penalty wait: %w", err)
	}
	return nil
}

// Move implements slash.Store. The balance by card is read anew where an entry gave something back, or was refused.
func (s Parts) Move(ctx context.Context, p slash.Part, to slash.State, entry ids.EntryID) error {
	err := s.locked(ctx, p.Provider, func(tx pgx.Tx) error {
		begun, ended := entryOrNull(ids.EntryID{}), entryOrNull(entry)
		if to == slash.Escrowed {
			begun, ended = ended, begun
		}
		tag, err := tx.Exec(ctx, `UPDATE penalty_part SET state = $3, action = '', attempt = 0,
				begun_entry = coalesce(begun_entry, $4), ended_entry = $5, due_at = clock_timestamp()
			WHERE part_id = $1 AND state = $2`, p.ID[:], p.State, to, begun, ended)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if p.ByCard() {
			if err := changeCard(ctx, tx, p.Provider, `stale = true, looked_at = NULL`); err != nil {
				return err
			}
		}
		if err := wakeRefund(ctx, tx, p.Provider); err != nil {
			return err
		}
		return s.assess(ctx, tx, p.Provider)
	})
	if err != nil {
		return fmt.Errorf("move a part of a penalty to %s: %w", to, err)
	}
	return nil
}

// Price implements slash.Store.
func (s Parts) Price(ctx context.Context, p slash.Part, q chain.Quote) error {
	if _, err := s.pool.Exec(ctx, `UPDATE penalty_part SET rate_nano_usd = $2, rate_source = $3, rate_at = $4
		WHERE part_id = $1 AND rate_nano_usd IS NULL`, p.ID[:], int64(q.Rate), q.Source, q.At); err != nil {
		return fmt.Errorf("fix the price of a part of a penalty: %w", err)
	}
	return nil
}

// Taken implements slash.Store.
func (s Parts) Taken(ctx context.Context, p slash.Part, entry ids.EntryID) error {
	if _, err := s.pool.Exec(ctx, `UPDATE penalty_part SET ended_entry = $2 WHERE part_id = $1 AND ended_entry IS NULL`,
		p.ID[:], entry); err != nil {
		return fmt.Errorf("record that a part of a penalty is posted: %w", err)
	}
	return nil
}

// AppealedOnChain implements slash.Store.
func (s Parts) AppealedOnChain(ctx context.Context, limit int) ([]slash.Part, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+partColumns+` FROM penalty_part p JOIN penalty USING (penalty_id)
		WHERE p.state = 'appealed' AND penalty.state = 'proposed' LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read the appeals on chains: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanPart)
	if err != nil {
		return nil, fmt.Errorf("read the appeals on chains: %w", err)
	}
	return list, nil
}

// OfPenalties returns the parts of penalties, by penalty.
func (s Parts) OfPenalties(ctx context.Context, list []penalty.ID) (map[penalty.ID][]slash.Part, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+partColumns+` FROM penalty_part p WHERE penalty_id = ANY($1::uuid[])
		ORDER BY penalty_id, chain_id NULLS LAST, amount DESC, depositor`, idBytes(list))
	if err != nil {
		return nil, fmt.Errorf("read the parts of penalties: %w", err)
	}
	parts, err := pgx.CollectRows(rows, scanPart)
	if err != nil {
		return nil, fmt.Errorf("read the parts of penalties: %w", err)
	}
	by := map[penalty.ID][]slash.Part{}
	for _, p := range parts {
		by[p.Penalty] = append(by[p.Penalty], p)
	}
	return by, nil
}

func idBytes[K any](list []ids.Of[K]) [][16]byte {
	out := make([][16]byte, len(list))
	for i, id := range list {
		out[i] = id
	}
	return out
}

func entryOrNull(id ids.EntryID) *ids.EntryID {
	if id.IsZero() {
		return nil
	}
	return &id
}
