package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
)

// Penalties keeps penalties; it implements penalty.Store. Only the database's clock
// counts. Terms say what collateral there can be.
type Penalties struct {
	*Store
	Terms position.Terms
}

const penaltyColumns = `penalty_id, provider_id, model_id, kind, share_basis_points, removes, summary, evidence_hash,
	state, revision, opened_at, appeal_until, coalesce(appeal_text, ''), appealed_at, coalesce(resolution, ''),
	resolved_at, executed_at, appealed_on_chain, family`

func scanPenalty(row pgx.CollectableRow) (penalty.Penalty, error) {
	var p penalty.Penalty
	var hash []byte
	var appealed, resolved, executed *time.Time
	err := row.Scan(&p.ID, &p.ProviderID, &p.ModelID, &p.Kind, &p.ShareBasisPoints, &p.Removes, &p.Summary, &hash,
		&p.State, &p.Revision, &p.OpenedAt, &p.AppealUntil, &p.AppealText, &appealed, &p.Resolution, &resolved, &executed,
		&p.AppealedOnChain, &p.Family)
	copy(p.EvidenceHash[:], hash)
	for _, at := range []struct {
		from *time.Time
		to   *time.Time
	}{{appealed, &p.AppealedAt}, {resolved, &p.ResolvedAt}, {executed, &p.ExecutedAt}} {
		if at.from != nil {
			*at.to = *at.from
		}
	}
	return p, err
}

// clockRuns says that a part p of a penalty, of a chain whose cursor is c, keeps the penalty from being executed: see
// slash.Part.ClockRuns.
const clockRuns = `p.chain_id IS NOT NULL AND (p.state IN ('opened', 'appealed')
	OR p.state = 'escrowed' AND (c.final_at IS NULL OR c.final_at < p.appeal_until))`

// clockOver says that nothing keeps a penalty whose time to appeal is over from being executed.
const clockOver = `NOT EXISTS (SELECT FROM penalty_part p LEFT JOIN position_cursor c ON c.chain_id = p.chain_id
	WHERE p.penalty_id = penalty.penalty_id AND ` + clockRuns + `)`

// onePenalty reads the penalty of a query; ok is false where there is none.
func onePenalty(ctx context.Context, tx pgx.Tx, sql string, args ...any) (p penalty.Penalty, ok bool, err error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return penalty.Penalty{}, false, err
	}
	p, err = pgx.CollectExactlyOneRow(rows, scanPenalty)
	if errors.Is(err, pgx.ErrNoRows) {
		return penalty.Penalty{}, false, nil
	}
	return p, err == nil, err
}

// One penalty at a time is opened of a provider, by the same lock in the trigger
// penalty_fits.
const lockProvider = `SELECT pg_advisory_xact_lock(hashtext('penalty'), hashtext($1::uuid::text))`

// The penalties that stand beside a new one: see penalty.Store.
const selectBeside = `
	WITH open AS (
		SELECT min(opened_at) AS oldest FROM penalty
		WHERE provider_id = $1 AND state IN ('proposed', 'appealed', 'upheld')
	)
	SELECT ` + penaltyColumns + ` FROM penalty, open WHERE provider_id = $1 AND
		(state IN ('proposed', 'appealed', 'upheld') OR state = 'executed' AND executed_at > open.oldest)`

// Open implements penalty.Store. Of two that open the same id the second waits for the
// first and then reads its penalty.
func (s Penalties) Open(
	ctx context.Context, d penalty.Draft, admit func([]penalty.Penalty) error,
) (p penalty.Penalty, fresh bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		p, fresh, err = s.open(ctx, tx, d, admit)
		return err
	})
	if _, known := fault.As(err); err != nil && !known {
		err = fmt.Errorf("open a penalty: %w", err)
	}
	if err != nil {
		return penalty.Penalty{}, false, err
	}
	return p, fresh, nil
}

func (s Penalties) open(
	ctx context.Context, tx pgx.Tx, d penalty.Draft, admit func([]penalty.Penalty) error,
) (p penalty.Penalty, fresh bool, err error) {
	for _, sql := range []string{durably, lockProvider} {
		var args []any
		if sql == lockProvider {
			args = []any{d.ProviderID}
		}
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return p, false, err
		}
	}
	p, stands, err := readPenalty(ctx, tx, d.ID)
	if stands || err != nil {
		return p, false, err
	}
	rows, err := tx.Query(ctx, selectBeside, d.ProviderID)
	if err != nil {
		return p, false, err
	}
	beside, err := pgx.CollectRows(rows, scanPenalty)
	if err != nil {
		return p, false, err
	}
	if err := admit(beside); err != nil {
		return p, false, err
	}
	p, fresh, err = onePenalty(ctx, tx, `
		INSERT INTO penalty (penalty_id, provider_id, model_id, kind, share_basis_points, removes, summary, evidence_hash,
			family)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (penalty_id) DO NOTHING RETURNING `+penaltyColumns,
		d.ID, d.ProviderID, d.ModelID, d.Kind, d.ShareBasisPoints, d.Removes, d.Summary, d.EvidenceHash[:],
		d.Family)
	switch {
	case err != nil:
		return p, false, err
	case !fresh: // another process opened it for another provider
		p, _, err = readPenalty(ctx, tx, d.ID)
		return p, false, err
	}
	if err := enter(ctx, tx, d.ID, penalty.Entry{Revision: p.Revision, To: p.State, Cause: penalty.Opened,
		Actor: penalty.ByVerifier, At: p.OpenedAt}); err != nil {
		return p, false, err
	}
	return p, true, s.positions().openParts(ctx, tx, d)
}

func (s Penalties) positions() Positions { return Positions(s) }

// readPenalty reads a penalty; stands is false where there is none.
func readPenalty(ctx context.Context, tx pgx.Tx, id penalty.ID) (p penalty.Penalty, stands bool, err error) {
	return onePenalty(ctx, tx, `SELECT `+penaltyColumns+` FROM penalty WHERE penalty_id = $1`, id)
}

// Change implements penalty.Store. The row is locked first, because a statement that waits
// for a lock reads what was there, and the time it was, when the statement began.
func (s Penalties) Change(
	ctx context.Context, id penalty.ID, apply func(*penalty.Penalty, time.Time) (penalty.Entry, error),
) (p penalty.Penalty, e penalty.Entry, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM penalty WHERE penalty_id = $1 FOR UPDATE`, id); err != nil {
			return err
		}
		var ok bool
		var err error
		if p, ok, err = readPenalty(ctx, tx, id); err != nil {
			return err
		}
		if !ok {
			return fault.New(fault.NotFound, penalty.NotFound, "no such penalty").On("penalty_id")
		}
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp(), EXISTS (SELECT FROM penalty_part p
			LEFT JOIN position_cursor c ON c.chain_id = p.chain_id WHERE penalty_id = $1 AND `+clockRuns+`)`, id).Scan(
			&now, &p.ClockRuns); err != nil {
			return err
		}
		if e, err = apply(&p, now); err != nil || e.Cause == "" {
			return err
		}
		return keepPenalty(ctx, tx, p, e)
	})
	if _, known := fault.As(err); err != nil && !known {
		err = fmt.Errorf("change a penalty: %w", err)
	}
	if err != nil {
		return penalty.Penalty{}, penalty.Entry{}, err
	}
	return p, e, nil
}

// keepPenalty writes a penalty that was changed, and its entry.
func keepPenalty(ctx context.Context, tx pgx.Tx, p penalty.Penalty, e penalty.Entry) error {
	if _, err := tx.Exec(ctx, durably); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `
		UPDATE penalty SET state = $2, revision = $3, appeal_text = $4, appealed_at = $5, resolution = $6, resolved_at = $7,
			executed_at = $8, appealed_on_chain = $9
		WHERE penalty_id = $1`,
		p.ID, p.State, p.Revision, textOrNull(p.AppealText), timeOrNull(p.AppealedAt), textOrNull(p.Resolution),
		timeOrNull(p.ResolvedAt), timeOrNull(p.ExecutedAt), p.AppealedOnChain); err != nil {
		return err
	}
	if err := wakeParts(ctx, tx, p.ID); err != nil {
		return err
	}
	return enter(ctx, tx, p.ID, e)
}

func enter(ctx context.Context, tx pgx.Tx, id penalty.ID, e penalty.Entry) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO penalty_change (penalty_id, revision, from_state, to_state, cause, actor, reason, changed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, id, e.Revision, e.From, e.To, e.Cause, e.Actor, e.Reason, e.At)
	return err
}

func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func timeOrNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// OfProvider implements penalty.Store.
func (s Penalties) OfProvider(
	ctx context.Context, id ids.ProviderID, offset, limit int,
) ([]penalty.Penalty, int, error) {
	return s.list(ctx, `provider_id = $1`, id, offset, limit)
}

// InState implements penalty.Store.
func (s Penalties) InState(
	ctx context.Context, state penalty.State, offset, limit int,
) ([]penalty.Penalty, int, error) {
	if state == "" {
		return s.list(ctx, `$1 = ''`, state, offset, limit)
	}
	return s.list(ctx, `state = $1`, state, offset, limit)
}

func (s Penalties) list(
	ctx context.Context, which string, arg any, offset, limit int,
) ([]penalty.Penalty, int, error) {
	var total int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM penalty WHERE `+which, arg).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count penalties: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT `+penaltyColumns+` FROM penalty WHERE `+which+`
		ORDER BY opened_at DESC, penalty_id DESC OFFSET $2 LIMIT $3`, arg, offset, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list penalties: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanPenalty)
	if err != nil {
		return nil, 0, fmt.Errorf("list penalties: %w", err)
	}
	return list, total, nil
}

// Due implements penalty.Store. The clock is read once, so that the index finds the rows.
func (s Penalties) Due(ctx context.Context, behind penalty.Place, limit int) ([]penalty.Place, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT since, penalty_id FROM (
			(SELECT penalty_id, resolved_at AS since FROM penalty
				WHERE state = 'upheld' AND (resolved_at, penalty_id) > ($2, $3) ORDER BY resolved_at, penalty_id LIMIT $1)
			UNION ALL
			(SELECT penalty_id, appeal_until FROM penalty
				WHERE state = 'proposed' AND appeal_until <= (SELECT clock_timestamp()) AND `+clockOver+`
					AND (appeal_until, penalty_id) > ($2, $3) ORDER BY appeal_until, penalty_id LIMIT $1)
		) AS due ORDER BY since, penalty_id LIMIT $1`, limit, behind.Since, behind.ID)
	if err != nil {
		return nil, fmt.Errorf("read the penalties that are due: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[penalty.Place])
	if err != nil {
		return nil, fmt.Errorf("read the penalties that are due: %w", err)
	}
	return list, nil
}

// Backlog implements penalty.Store.
func (s Penalties) Backlog(ctx context.Context) (penalty.Backlog, error) {
	b := penalty.Backlog{Open: map[penalty.State]int{}}
	rows, err := s.pool.Query(ctx, `
		SELECT state, count(*),
			count(*) FILTER (WHERE state = 'upheld' OR state = 'proposed' AND appeal_until <= clock_timestamp()
				AND `+clockOver+`)
		FROM penalty WHERE state IN ('proposed', 'appealed', 'upheld') GROUP BY state`)
	if err != nil {
		return b, fmt.Errorf("count open penalties: %w", err)
	}
	var state penalty.State
	var open, overdue int
	_, err = pgx.ForEachRow(rows, []any{&state, &open, &overdue}, func() error {
		b.Open[state] = open
		b.Overdue += overdue
		return nil
	})
	if err != nil {
		return b, fmt.Errorf("count open penalties: %w", err)
	}
	return b, nil
}
