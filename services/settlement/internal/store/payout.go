package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// Payouts keeps payouts and conversions; it implements payout.Store. Only the database's clock counts.
type Payouts struct{ *Store }

// The transaction of a payout is the mined one. Before a block has one it is the newest.
const payoutColumns = `p.payout_id, p.provider_id, p.chain_id, p.gross_nano_usd, p.fee_nano_usd, p.address, p.state,
	p.revision, p.requested_at, p.reserved_entry, p.final_entry, coalesce(p.ends_as, ''), coalesce(p.ends_reason, ''),
	coalesce(p.amount, 0), coalesce(p.rate_nano_usd, 0), coalesce(p.rate_source, ''), p.rate_at, p.waiting,
	coalesce(p.screened, ''), p.changed_at,
	ARRAY(SELECT a.actor FROM payout_approval a WHERE a.payout_id = p.payout_id ORDER BY a.at, a.actor),
	ARRAY(SELECT a.at FROM payout_approval a WHERE a.payout_id = p.payout_id ORDER BY a.at, a.actor),
	coalesce((SELECT c.reason FROM payout_change c WHERE c.payout_id = p.payout_id AND c.cause IN ('refuse', 'fail')), ''),
	(SELECT coalesce(e.hash, (SELECT s.hash FROM signed_tx s
			WHERE (s.chain_id, s.sender, s.nonce) = (c.chain_id, c.sender, c.nonce) ORDER BY s.try DESC LIMIT 1))
		FROM chain_call c LEFT JOIN call_end e USING (chain_id, sender, nonce)
		WHERE c.purpose = 'payout' AND c.ref = p.payout_id::text)`

func scanPayout(row pgx.CollectableRow) (payout.Payout, error) {
	var p payout.Payout
	var address, transaction []byte
	var failed string
	var rateAt *time.Time
	var operators []string
	var consentedAt []time.Time
	err := row.Scan(&p.ID, &p.ProviderID, &p.Chain, &p.Gross, &p.Fee, &address, &p.State, &p.Revision, &p.RequestedAt,
		&p.Reserved, &p.Final, &p.EndsAs, &p.Reason, &p.Amount, &p.Quote.Rate, &p.Quote.Source, &rateAt, &p.Waiting,
		&p.Screened, &p.ChangedAt, &operators, &consentedAt, &failed, &transaction)
	copy(p.Address[:], address)
	copy(p.Transaction[:], transaction)
	for i, operator := range operators {
		p.Consents = append(p.Consents, payout.Approval{Operator: operator, At: consentedAt[i]})
	}
	if rateAt != nil {
		p.Quote.At = *rateAt
	}
	if p.Reason == "" {
		p.Reason = failed
	}
	return p, err
}

// onePayout reads a payout; ok is false where there is none.
func onePayout(ctx context.Context, db querier, id payout.ID) (p payout.Payout, ok bool, err error) {
	rows, err := db.Query(ctx, `SELECT `+payoutColumns+` FROM payout p WHERE p.payout_id = $1`, id)
	if err != nil {
		return payout.Payout{}, false, err
	}
	p, err = pgx.CollectExactlyOneRow(rows, scanPayout)
	if errors.Is(err, pgx.ErrNoRows) {
		return payout.Payout{}, false, nil
	}
	return p, err == nil, err
}

func payoutMissing() error {
	return fault.New(fault.NotFound, payout.NotFound, "no such payout").On("payout_id")
}

// Get implements payout.Store.
func (s Payouts) Get(ctx context.Context, id payout.ID) (payout.Payout, error) {
	p, ok, err := onePayout(ctx, s.pool, id)
	switch {
	case err != nil:
		return payout.Payout{}, fmt.Errorf("read a payout: %w", err)
	case !ok:
		return payout.Payout{}, payoutMissing()
	}
	return p, nil
}

// inPayoutTx runs a transaction whose faults the caller tells apart.
func (s Payouts) inPayoutTx(ctx context.Context, what string, do func(pgx.Tx) error) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durably); err != nil {
			return err
		}
		return do(tx)
	})
	if _, known := fault.As(err); err == nil || known || errors.Is(err, payout.ErrDayFull) ||
		errors.Is(err, sending.ErrHalted) || errors.Is(err, sending.ErrReserves) || errors.Is(err, sending.ErrBusy) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Change implements payout.Store. The row is locked first, because a statement that waits for a lock reads what was
// there when the statement began.
func (s Payouts) Change(
	ctx context.Context, id payout.ID, apply func(*payout.Payout) (payout.Step, error),
) (p payout.Payout, err error) {
	err = s.inPayoutTx(ctx, "change a payout", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM payout WHERE payout_id = $1 FOR UPDATE`, id); err != nil {
			return err
		}
		var ok bool
		if p, ok, err = onePayout(ctx, tx, id); err != nil {
			return err
		}
		if !ok {
			return payoutMissing()
		}
		step, err := apply(&p)
		if err != nil || step.Cause == "" {
			return err
		}
		if err := s.keepStep(ctx, tx, p, step); err != nil {
			return err
		}
		p, _, err = onePayout(ctx, tx, id)
		return err
	})
	if err != nil {
		return payout.Payout{}, err
	}
	return p, nil
}

// keepStep writes a payout that was changed, and what belongs to its step. The call is enqueued last but for the row,
// because the lock of its sender is wanted by others.
func (s Payouts) keepStep(ctx context.Context, tx pgx.Tx, p payout.Payout, step payout.Step) error {
	if step.Consents {
		if _, err := tx.Exec(ctx, `INSERT INTO payout_approval (payout_id, actor) VALUES ($1, $2)`, p.ID,
			step.Actor); err != nil {
			return err
		}
	}
	if step.DayCap > 0 {
		if err := countDay(ctx, tx, p.Gross, step.DayCap); err != nil {
			return err
		}
	}
	if step.Unpaid {
		if err := uncountDay(ctx, tx, p); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO payout_change (payout_id, revision, from_state, to_state, cause, actor, reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, p.ID, step.Revision, step.From, step.To, step.Cause, step.Actor,
		step.Reason); err != nil {
		return err
	}
	if step.Call != nil {
		if _, err := Sending(s).Enqueue(ctx, tx, *step.Call); err != nil {
			return err
		}
	}
	return writePayout(ctx, tx, p)
}

// countDay counts an amount among what was approved today without a person.
func countDay(ctx context.Context, tx pgx.Tx, amount, limit money.NanoUSD) error {
	if amount > limit {
		return payout.ErrDayFull
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO payout_day (day, nano_usd) VALUES ((clock_timestamp() AT TIME ZONE 'UTC')::date, $1)
		ON CONFLICT (day) DO UPDATE SET nano_usd = payout_day.nano_usd + excluded.nano_usd
		WHERE payout_day.nano_usd + excluded.nano_usd <= $2`, amount, limit)
	if err == nil && tag.RowsAffected() == 0 {
		err = payout.ErrDayFull
	}
	return err
}

// uncountDay takes a payout that was given back out of what was approved without a person on its day. Otherwise who has
// payouts fail uses up the day of all others.
func uncountDay(ctx context.Context, tx pgx.Tx, p payout.Payout) error {
	_, err := tx.Exec(ctx, `UPDATE payout_day d SET nano_usd = greatest(d.nano_usd - $2, 0) FROM payout_change c
		WHERE c.payout_id = $1 AND c.cause = 'approve' AND c.actor = 'platform'
			AND d.day = (c.changed_at AT TIME ZONE 'UTC')::date`, p.ID, p.Gross)
	return err
}

func writePayout(ctx context.Context, tx pgx.Tx, p payout.Payout) error {
	var amount *chain.Amount
	if !p.Amount.IsZero() {
		amount = &p.Amount
	}
	var rate *int64
	if p.Quote.Rate != 0 {
		rate = (*int64)(&p.Quote.Rate)
	}
	var reason *string
	if p.EndsAs != "" {
		reason = &p.Reason
	}
	_, err := tx.Exec(ctx, `
		UPDATE payout SET state = $2, revision = $3, reserved_entry = $4, final_entry = $5, ends_as = $6, ends_reason = $7,
			amount = $8, rate_nano_usd = $9, rate_source = $10, rate_at = $11, waiting = $12
		WHERE payout_id = $1`, p.ID, p.State, p.Revision, p.Reserved, p.Final, textOrNull(string(p.EndsAs)), reason, amount,
		rate, textOrNull(p.Quote.Source), timeOrNull(p.Quote.At), p.Waiting)
	return err
}

// Note implements payout.Store.
func (s Payouts) Note(ctx context.Context, id payout.ID, waiting, screened string) error {
	_, err := s.pool.Exec(ctx, `UPDATE payout SET waiting = $2, screened = $3, looked_at = clock_timestamp()
		WHERE payout_id = $1 AND state NOT IN ('confirmed', 'failed', 'cancelled')`, id, waiting, textOrNull(screened))
	if err != nil {
		return fmt.Errorf("note what keeps a payout: %w", err)
	}
	return nil
}

// Call implements payout.Store.
func (s Payouts) Call(ctx context.Context, id payout.ID) (sending.Status, bool, error) {
	return Sending(s).Call(ctx, payout.Purpose, id.String())
}

// CancelCall implements payout.Store.
func (s Payouts) CancelCall(ctx context.Context, id payout.ID, actor, reason string) error {
	return s.inPayoutTx(ctx, "cancel the call of a payout", func(tx pgx.Tx) error {
		c, ok, err := callOf(ctx, tx, payout.Purpose, id.String())
		if err != nil {
			return err
		}
		if !ok {
			return payoutMissing()
		}
		return Sending(s).CancelCall(ctx, tx, c.Place(), actor, reason)
	})
}

// InFlight implements payout.Store.
func (s Payouts) InFlight(ctx context.Context, id chain.ID) (sum chain.Amount, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(sum(p.amount), 0) FROM payout p
		JOIN chain_call c ON c.purpose = 'payout' AND c.ref = p.payout_id::text
		WHERE p.chain_id = $1 AND p.state IN ('signing', 'submitted') AND NOT c.ended`, id).Scan(&sum)
	if err != nil {
		return chain.Amount{}, fmt.Errorf("sum the payouts on their way: %w", err)
	}
	return sum, nil
}

// Open implements payout.Store.
func (s Payouts) Open(ctx context.Context, limit int) ([]payout.ID, error) {
	rows, err := s.pool.Query(ctx, `SELECT payout_id FROM payout
		WHERE state IN ('requested', 'approved', 'signing', 'submitted') ORDER BY looked_at NULLS FIRST, payout_id LIMIT $1`,
		limit)
	if err != nil {
		return nil, fmt.Errorf("list open payouts: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[payout.ID])
	if err != nil {
		return nil, fmt.Errorf("list open payouts: %w", err)
	}
	return list, nil
}

// Backlog implements payout.Store.
func (s Payouts) Backlog(ctx context.Context) (payout.Backlog, error) {
	b := payout.Backlog{Open: map[payout.State]int{}, Waiting: map[string]int{}}
	rows, err := s.pool.Query(ctx, `
		SELECT state, waiting, count(*), count(*) FILTER (WHERE changed_at < clock_timestamp() - interval '1 hour'
			AND waiting NOT IN ('approval', 'denied'))
		FROM payout WHERE state IN ('requested', 'approved', 'signing', 'submitted') GROUP BY state, waiting`)
	if err != nil {
		return b, fmt.Errorf("count open payouts: %w", err)
	}
	var state payout.State
	var waiting string
	var open, stuck int
	_, err = pgx.ForEachRow(rows, []any{&state, &waiting, &open, &stuck}, func() error {
		b.Open[state] += open
		if waiting != "" {
			b.Waiting[waiting] += open
		}
		b.Stuck += stuck
		return nil
	})
	if err != nil {
		return b, fmt.Errorf("count open payouts: %w", err)
	}
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM conversion
		WHERE entry_id IS NULL AND refusal IS NULL AND tries >= $1`, payout.StuckConversion).Scan(
		&b.StuckConversions); err != nil {
		return b, fmt.Errorf("count open conversions: %w", err)
	}
	return b, nil
}

// OfProvider implements payout.Store.
func (s Payouts) OfProvider(
	ctx context.Context, id ids.ProviderID, offset, limit int,
) ([]payout.Payout, int, error) {
	return s.list(ctx, `p.provider_id = $1`, id, offset, limit)
}

// InState implements payout.Store.
func (s Payouts) InState(ctx context.Context, state payout.State, offset, limit int) ([]payout.Payout, int, error) {
	if state == "" {
		return s.list(ctx, `$1 = ''`, state, offset, limit)
	}
	return s.list(ctx, `p.state = $1`, state, offset, limit)
}

// NextAt implements payout.Store.
func (s Payouts) NextAt(ctx context.Context, id ids.ProviderID) (time.Time, error) {
	var next *time.Time
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT max(p.requested_at) + $2::interval, clock_timestamp() FROM payout p
		JOIN provider r ON r.provider_id = p.provider_id AND r.settlement_chain_id = p.chain_id
		WHERE p.provider_id = $1`, id, payout.Every).Scan(&next, &now); err != nil {
		return time.Time{}, fmt.Errorf("read when a provider asked for its newest payout: %w", err)
	}
	if next == nil || !next.After(now) {
		return time.Time{}, nil
	}
	return *next, nil
}

func (s Payouts) list(ctx context.Context, which string, arg any, offset, limit int) ([]payout.Payout, int, error) {
	var total int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM payout p WHERE `+which, arg).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count payouts: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT `+payoutColumns+` FROM payout p WHERE `+which+`
		ORDER BY p.requested_at DESC, p.payout_id DESC OFFSET $2 LIMIT $3`, arg, offset, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list payouts: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanPayout)
	if err != nil {
		return nil, 0, fmt.Errorf("list payouts: %w", err)
	}
	return list, total, nil
}
