package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/reserve"
	"svc.internal/services/settlement/internal/sending"
)

// Reserves keeps what is held and what is owed; it implements reserve.Store and reserve.Rows.
type Reserves struct{ *Store }

var (
	_ reserve.Store = Reserves{}
	_ reserve.Rows  = Reserves{}
)

// lockReserves is the advisory lock under which findings and the halts that follow from them change.
const lockReserves = 0x72657365

// Due implements reserve.Store.
func (s Reserves) Due(ctx context.Context, id chain.ID, next time.Duration) (due bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO reserve_look (chain_id) VALUES ($1) ON CONFLICT DO NOTHING`, id); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE reserve_look SET due_at = clock_timestamp() + $2::interval
			WHERE chain_id = $1 AND due_at <= clock_timestamp()`, id, next)
		due = tag.RowsAffected() > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take a look at reserves: %w", err)
	}
	return due, nil
}

// Later implements reserve.Store.
func (s Reserves) Later(ctx context.Context, id chain.ID, next time.Duration) error {
	_, err := s.pool.Exec(ctx, `UPDATE reserve_look SET due_at = clock_timestamp() + $2::interval WHERE chain_id = $1`,
		id, next)
	if err != nil {
		return fmt.Errorf("put a look at reserves off: %w", err)
	}
	return nil
}

const reserveColumns = `subject, chain_id, read_place, held, owed, in_row, confirmed, since, read_at,
	clock_timestamp() - read_at`

func scanFinding(row pgx.CollectableRow) (s reserve.Finding, err error) {
	return s, row.Scan(&s.Subject, &s.Chain, &s.At, &s.Held, &s.Owed, &s.Row, &s.Confirmed, &s.Since, &s.ReadAt,
		&s.Age)
}

// Record implements reserve.Store. One process at a time records, so that what is lifted and what is confirmed at once
// see each other.
func (s Reserves) Record(
	ctx context.Context, readings []reserve.Reading, chains []chain.ID,
) (findings []reserve.Finding, err error) {
	if len(readings) == 0 {
		return nil, nil
	}
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		findings = nil
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockReserves); err != nil {
			return err
		}
		for _, r := range readings {
			next, err := record(ctx, tx, r)
			if err != nil {
				return err
			}
			findings = append(findings, next)
		}
		all, err := readFindings(ctx, tx)
		if err != nil {
			return err
		}
		for _, id := range chains {
			if err := haltPayouts(ctx, tx, id, all); err != nil {
				return err
			}
		}
		crash.At("settlement.reserves.before_commit")
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("store a reading of reserves: %w", err)
	}
	return findings, nil
}

// record adds one reading to its finding.
func record(ctx context.Context, tx pgx.Tx, r reserve.Reading) (reserve.Finding, error) {
	rows, err := tx.Query(ctx, `SELECT `+reserveColumns+` FROM reserve WHERE subject = $1`, r.Subject)
	if err != nil {
		return reserve.Finding{}, err
	}
	was, err := pgx.CollectExactlyOneRow(rows, scanFinding)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return reserve.Finding{}, err
	}
	next := was.After(r)
	sql := `UPDATE reserve SET read_place = $3, held = $4, owed = $5, in_row = $6, confirmed = $7
		WHERE subject = $1 AND chain_id = $2`
	if was.Row == 0 {
		sql = `INSERT INTO reserve (subject, chain_id, read_place, held, owed, in_row, confirmed)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`
	}
	_, err = tx.Exec(ctx, sql, next.Subject, next.Chain, next.At, next.Held, next.Owed, next.Row, next.Confirmed)
	return next, err
}

// haltPayouts halts the payouts of a chain, or lifts the halt, as the findings say.
func haltPayouts(ctx context.Context, tx pgx.Tx, id chain.ID, all []reserve.Finding) error {
	var short []string
	for _, one := range all {
		if one.Halts(id) {
			short = append(short, one.String())
		}
	}
	if len(short) > 0 {
		detail := strings.Join(short, "; ")
		_, err := tx.Exec(ctx, `INSERT INTO sending_halt (chain_id, cause, detail) VALUES ($1, $2, $3)
			ON CONFLICT (chain_id, cause) WHERE lifted_at IS NULL DO NOTHING`, id, sending.Reserves,
			detail[:min(len(detail), maxDetail)])
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE sending_halt SET lifted_at = clock_timestamp(), lifted_by = 'platform',
		reason = 'two readings found no shortfall' WHERE chain_id = $1 AND cause = $2 AND lifted_at IS NULL`,
		id, sending.Reserves)
	return err
}

func readFindings(ctx context.Context, db querier) ([]reserve.Finding, error) {
	rows, err := db.Query(ctx, `SELECT `+reserveColumns+` FROM reserve ORDER BY subject`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanFinding)
}

// Findings returns what the last readings say, by subject.
func (s Reserves) Findings(ctx context.Context) ([]reserve.Finding, error) {
	all, err := readFindings(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("read the reserves: %w", err)
	}
	return all, nil
}
