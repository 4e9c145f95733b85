package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/chainaudit"
	"svc.internal/services/settlement/internal/reserve"
	"svc.internal/services/settlement/internal/sending"
)

// ChainRows are what verify compares with chains; it implements chainaudit.Rows.
type ChainRows struct{ Reserves }

var _ chainaudit.Rows = ChainRows{}

// Nonces implements chainaudit.Rows.
func (s ChainRows) Nonces(ctx context.Context, id chain.ID) ([]chainaudit.Sender, error) {
	rows, err := s.pool.Query(ctx, `SELECT address, next FROM sender WHERE chain_id = $1 ORDER BY address`, id)
	if err != nil {
		return nil, fmt.Errorf("read the senders of chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one chainaudit.Sender, err error) {
		var raw []byte
		err = row.Scan(&raw, &one.Next)
		copy(one.Address[:], raw)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the senders of chain %s: %w", id, err)
	}
	return list, nil
}

// Waiting implements chainaudit.Rows.
func (s ChainRows) Waiting(ctx context.Context, id chain.ID, limit int) ([]sending.Status, error) {
	return Sending{s.Store}.Waiting(ctx, id, limit)
}

// othersOf selects the transactions of a nonce but the transaction that ended its call.
const othersOf = `SELECT hash FROM signed_tx WHERE (chain_id, sender, nonce) = (e.chain_id, e.sender, e.nonce)
	AND hash <> e.hash`

// Ended implements chainaudit.Rows.
func (s ChainRows) Ended(
	ctx context.Context, id chain.ID, behind sending.Place, limit int,
) ([]chainaudit.Ended, error) {
	after := int64(behind.Nonce)
	if behind.Chain == 0 {
		after = -1
	}
	rows, err := s.pool.Query(ctx, `
		SELECT c.sender, c.nonce, c.purpose, c.ref, c.recipient, c.value, c.data, t.raw, t.call_hash IS NULL, e.outcome,
			e.hash, e.block, e.block_hash, coalesce(p.payout_id::text, ''), coalesce(p.address, ''), coalesce(p.amount, 0),
			ARRAY (`+othersOf+` AND call_hash IS NULL), ARRAY (`+othersOf+` AND call_hash IS NOT NULL)
		FROM call_end e JOIN chain_call c USING (chain_id, sender, nonce) JOIN signed_tx t ON t.hash = e.hash
		LEFT JOIN payout p ON c.purpose = 'payout' AND c.ref = p.payout_id::text
		WHERE e.chain_id = $1 AND (e.sender, e.nonce) > ($2, $3) ORDER BY e.sender, e.nonce LIMIT $4`,
		id, behind.Sender[:], after, limit)
	if err != nil {
		return nil, fmt.Errorf("read the calls that ended on chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e chainaudit.Ended, err error) {
		var sender, to, hash, block, paidTo []byte
		var cancels, contents [][]byte
		e.Call.Chain = id
		err = row.Scan(&sender, &e.Call.Nonce, &e.Call.Purpose, &e.Call.Ref, &to, &e.Call.Value, &e.Call.Data, &e.Raw,
			&e.Cancels, &e.End.Outcome, &hash, &e.End.Block, &block, &e.Payout, &paidTo, &e.Paid,
			&cancels, &contents)
		for i, raw := range slices.Concat(cancels, contents) {
			e.Others = append(e.Others, sending.Signed{Hash: chain.Hash(raw), Cancels: i < len(cancels)})
		}
		copy(e.Call.Sender[:], sender)
		copy(e.Call.To[:], to)
		copy(e.End.Transaction[:], hash)
		copy(e.End.BlockHash[:], block)
		copy(e.PaidTo[:], paidTo)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the calls that ended on chain %s: %w", id, err)
	}
	return list, nil
}

// Positions implements chainaudit.Rows.
func (s ChainRows) Positions(
	ctx context.Context, id chain.ID,
) (list []chainaudit.Position, staked reserve.Staked, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		if staked, err = readStaked(ctx, tx, id); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT subject, depositor, free, escrow FROM position WHERE chain_id = $1
			ORDER BY subject, depositor`, id)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p chainaudit.Position, err error) {
			var subject, depositor []byte
			err = row.Scan(&subject, &depositor, &p.Free, &p.Escrow)
			copy(p.Subject[:], subject)
			copy(p.Depositor[:], depositor)
			return p, err
		})
		return err
	})
	if err != nil {
		return nil, reserve.Staked{}, fmt.Errorf("read the positions of chain %s: %w", id, err)
	}
	return list, staked, nil
}

// Events implements chainaudit.Rows.
func (s ChainRows) Events(ctx context.Context, id chain.ID, behind int64, limit int) ([]chainaudit.Log, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT seq, tx_hash, place, contract, topics, data FROM chain_event
		WHERE chain_id = $1 AND seq > $2 AND gone_at IS NULL
		ORDER BY seq LIMIT $3`, id, behind, limit)
	if err != nil {
		return nil, fmt.Errorf("read the events of chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l chainaudit.Log, err error) {
		var tx, of []byte
		var topics [][]byte
		err = row.Scan(&l.Number, &tx, &l.Place, &of, &topics, &l.Data)
		copy(l.Tx[:], tx)
		copy(l.Contract[:], of)
		l.Topics = make([]chain.Hash, len(topics))
		for i, topic := range topics {
			copy(l.Topics[i][:], topic)
		}
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of chain %s: %w", id, err)
	}
	return list, nil
}

// Deposits implements chainaudit.Rows.
func (s ChainRows) Deposits(
	ctx context.Context, id chain.ID, behind chainaudit.Deposit, limit int,
) ([]chainaudit.Deposit, error) {
	after := behind.Place
	if behind.Tx.IsZero() {
		after = -1
	}
	rows, err := s.pool.Query(ctx, `
		SELECT t.tx_hash, t.place, t.token, a.address, t.amount FROM transfer t JOIN deposit_address a USING (deposit_index)
		WHERE t.chain_id = $1 AND t.entry_id IS NOT NULL AND t.state <> 'dropped' AND t.ended IS DISTINCT FROM 'gone'
			AND t.sender <> decode(repeat('00', 20), 'hex') AND (t.tx_hash, t.place) > ($2, $3)
		ORDER BY t.tx_hash, t.place LIMIT $4`, id, behind.Tx[:], after, limit)
	if err != nil {
		return nil, fmt.Errorf("read the deposits of chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d chainaudit.Deposit, err error) {
		var tx, to []byte
		var token string
		err = row.Scan(&tx, &d.Place, &token, &to, &d.Amount)
		copy(d.Tx[:], tx)
		copy(d.To[:], to)
		if d.Kind = chain.Coin; token == id.Token(chain.USDC) {
			d.Kind = chain.USDC
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the deposits of chain %s: %w", id, err)
	}
	return list, nil
}

// What settlement has told the books of tokens: deposits that came and stayed, payouts, gas, and penalties that a
// contract paid to the treasury. What the treasury bought and sold it does not know.
const bookedUnits = `
	SELECT token, sum(units)::bigint FROM (
		SELECT token, units FROM transfer WHERE chain_id = $1 AND entry_id IS NOT NULL
			AND NOT (ended IS NOT NULL AND ended IN ('returned', 'gone') AND end_entry_id IS NOT NULL)
		UNION ALL SELECT $2, -div(amount, $3) FROM payout WHERE chain_id = $1 AND state = 'confirmed'
		UNION ALL SELECT $4, -units FROM call_gas WHERE chain_id = $1 AND entry_id IS NOT NULL
		UNION ALL SELECT $5, units FROM penalty_part WHERE chain_id = $1 AND state = 'executed' AND ended_entry IS NOT NULL
	) AS moved (token, units) GROUP BY token`

// Booked implements chainaudit.Rows.
func (s ChainRows) Booked(ctx context.Context, cfg chain.Config) (map[string]int64, error) {
	paid, scale, staked := cfg.ID.Token(cfg.ID.PaysOut()), int64(1), cfg.ID.Token(chain.Coin)
	if cfg.ID.PaysOut() == chain.Coin {
		scale = 1_000_000_000
	}
	if cfg.Collateral != nil {
		staked = cfg.ID.Token(cfg.Collateral.Kind)
	}
	rows, err := s.pool.Query(ctx, bookedUnits, cfg.ID, paid, scale, cfg.ID.Token(chain.Coin), staked)
	if err != nil {
		return nil, fmt.Errorf("sum what the books of chain %s were told: %w", cfg.ID, err)
	}
	out := map[string]int64{}
	var token string
	var units int64
	if _, err = pgx.ForEachRow(rows, []any{&token, &units}, func() error {
		out[token] = units
		return nil
	}); err != nil {
		return nil, fmt.Errorf("sum what the books of chain %s were told: %w", cfg.ID, err)
	}
	return out, nil
}
