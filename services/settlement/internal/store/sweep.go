package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/sweep"
)

// Sweeps keeps sweeps; it implements sweep.Store.
type Sweeps struct{ *Store }

// What is posted, or dust, and not swept. What is not decided yet stays where it is. Balances are taken in one order,
// so that those who change several do not wait for each other.
const planSweeps = `
	INSERT INTO sweep (chain_id, deposit_index, token, amount, day)
	SELECT chain_id, deposit_index, token, posted + dust - leaving - swept,
		(clock_timestamp() AT TIME ZONE 'UTC')::date FROM deposit_balance
	WHERE chain_id = $1 AND token = $2 AND posted + dust - leaving - swept >= $3::text::numeric
	ORDER BY deposit_index
	ON CONFLICT DO NOTHING`

// Plan implements sweep.Store. An address has one sweep a day of a token, and one that is open.
func (s Sweeps) Plan(ctx context.Context, id chain.ID, token string, least chain.Amount) (int, error) {
	planned := 0
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, planSweeps, id, token, least.String())
		planned = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("plan sweeps of %s: %w", token, err)
	}
	return planned, nil
}

const sweepColumns = `w.sweep_id::text, w.chain_id, w.deposit_index, a.address, w.token, w.amount::text, w.planned_at`

func sweepInto(s *sweep.Sweep, address []byte, token, amount string) (err error) {
	copy(s.Address[:], address)
	s.Kind = chain.Coin
	if token == s.Chain.Token(chain.USDC) {
		s.Kind = chain.USDC
	}
	s.Amount, err = chain.ParseAmount(amount)
	return err
}

// Planned implements sweep.Store. The oldest of each chain are first, so that a chain that is halted keeps no other one
// waiting.
func (s Sweeps) Planned(ctx context.Context, limit int) ([]sweep.Sweep, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+sweepColumns+` FROM sweep w JOIN deposit_address a USING (deposit_index)
		WHERE w.state = 'planned'
		ORDER BY row_number() OVER (PARTITION BY w.chain_id ORDER BY w.planned_at, w.sweep_id), w.chain_id LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read planned sweeps: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one sweep.Sweep, err error) {
		var address []byte
		var token, amount string
		if err := row.Scan(&one.ID, &one.Chain, &one.Index, &address, &token, &amount, &one.Planned); err != nil {
			return one, err
		}
		return one, sweepInto(&one, address, token, amount)
	})
	if err != nil {
		return nil, fmt.Errorf("read planned sweeps: %w", err)
	}
	return list, nil
}

// Send implements sweep.Store.
func (s Sweeps) Send(ctx context.Context, one sweep.Sweep, call sending.Prepared) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE sweep SET state = 'sent' WHERE sweep_id = $1 AND state = 'planned'`, one.ID)
		if err != nil || tag.RowsAffected() == 0 {
			return err // another process has sent it
		}
		_, err = Sending(s).Enqueue(ctx, tx, call)
		return err
	})
	if err != nil {
		return fmt.Errorf("send a sweep: %w", err)
	}
	return nil
}

// Sent implements sweep.Store.
func (s Sweeps) Sent(ctx context.Context, limit int) ([]sweep.Ended, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+sweepColumns+` FROM sweep w JOIN deposit_address a USING (deposit_index)
		JOIN chain_call c ON c.purpose = '`+sweep.Purpose+`' AND c.ref = w.sweep_id::text
		JOIN call_end e ON (e.chain_id, e.sender, e.nonce) = (c.chain_id, c.sender, c.nonce)
		WHERE w.state = 'sent' ORDER BY w.planned_at LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read sent sweeps: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one sweep.Ended, err error) {
		var address []byte
		var token, amount string
		if err := row.Scan(&one.ID, &one.Chain, &one.Index, &address, &token, &amount, &one.Planned); err != nil {
			return one, err
		}
		return one, sweepInto(&one.Sweep, address, token, amount)
	})
	if err != nil {
		return nil, fmt.Errorf("read sent sweeps: %w", err)
	}
	for i := range list {
		status, ok, err := Sending(s).Call(ctx, sweep.Purpose, list[i].ID)
		if err != nil || !ok || status.End == nil {
			return nil, fmt.Errorf("read the call of sweep %s: %w", list[i].ID, err)
		}
		list[i].Value, list[i].End = status.Call.Value, *status.End
	}
	return list, nil
}

// End implements sweep.Store.
func (s Sweeps) End(ctx context.Context, one sweep.Sweep, tx chain.Hash, left chain.Amount) error {
	if err := endSweep(ctx, s.pool, one, tx, left); err != nil {
		return fmt.Errorf("end a sweep: %w", err)
	}
	return nil
}

// endSweep ends a sweep. A sweep of which nothing left has failed, and another one may be planned.
func endSweep(ctx context.Context, q execer, one sweep.Sweep, tx chain.Hash, left chain.Amount) error {
	state, amount := "done", left.String()
	if left.IsZero() {
		state, amount = "failed", one.Amount.String()
	}
	_, err := q.Exec(ctx, `UPDATE sweep SET state = $2, tx_hash = $3, amount = $4::text::numeric
		WHERE sweep_id = $1 AND state = 'sent'`, one.ID, state, tx[:], amount)
	return err
}

// execer is a pool or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Backlog counts the sweeps that have not ended, and those that an operator should look at.
func (s Sweeps) Backlog(ctx context.Context) (b sweep.Backlog, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'planned'), count(*) FILTER (WHERE state = 'sent'),
			count(*) FILTER (WHERE state = 'failed' OR planned_at < clock_timestamp() - interval '6 hours')
		FROM sweep WHERE state IN ('planned', 'sent')
			OR state = 'failed' AND planned_at > clock_timestamp() - interval '1 day'`).
		Scan(&b.Planned, &b.Sent, &b.Stuck)
	if err != nil {
		return sweep.Backlog{}, fmt.Errorf("count sweeps: %w", err)
	}
	return b, nil
}
