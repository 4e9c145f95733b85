package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// halts reports whether the chain $1 has an open halt: of all that is sent, or of what is read.
const halts = `(EXISTS (SELECT FROM sending_halt WHERE chain_id = $1 AND lifted_at IS NULL AND cause <> 'reserves')
	OR EXISTS (SELECT FROM chain_halt WHERE chain_id = $1 AND lifted_at IS NULL))`

// Sending keeps the calls that settlement sends; it implements sending.Store.
type Sending struct{ *Store }

// Enqueue gives a prepared request the next nonce of its sender, as a part of the caller's transaction. Where the
// purpose and ref have a call already, that call is returned, and it must have the same destination, value and data.
// Enqueue fails with sending.ErrHalted, sending.ErrReserves and sending.ErrBusy; the transaction may go on after each.
func (Sending) Enqueue(ctx context.Context, tx pgx.Tx, p sending.Prepared) (sending.Call, error) {
	if _, err := tx.Exec(ctx, durably); err != nil {
		return sending.Call{}, err
	}
	next, err := lockSender(ctx, tx, p)
	if err != nil {
		return sending.Call{}, err
	}
	switch first, ok, err := callOf(ctx, tx, p.Purpose, p.Ref); {
	case err != nil:
		return sending.Call{}, err
	case ok && p.At(first.Nonce).SameContent(first):
		return first, nil
	case ok:
		return sending.Call{}, fmt.Errorf("%s %s has a call with another content", p.Purpose, p.Ref)
	}
	if err := mayEnqueue(ctx, tx, p, next); err != nil {
		return sending.Call{}, err
	}
	c := p.At(uint64(next))
	if _, err := tx.Exec(ctx, `
		INSERT INTO chain_call (chain_id, sender, nonce, purpose, ref, recipient, value, data, gas_limit, call_hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		c.Chain, c.Sender[:], next, c.Purpose, c.Ref, c.To[:], c.Value, bytesOrEmpty(c.Data), c.Gas, c.Hash[:]); err != nil {
		return sending.Call{}, fmt.Errorf("insert a call: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE sender SET next = next + 1 WHERE chain_id = $1 AND address = $2`,
		c.Chain, c.Sender[:]); err != nil {
		return sending.Call{}, fmt.Errorf("take a nonce: %w", err)
	}
	return c, nil
}

// lockSender locks the row of a sender, and returns its next nonce.
func lockSender(ctx context.Context, tx pgx.Tx, p sending.Prepared) (next int64, err error) {
	err = tx.QueryRow(ctx, `SELECT next FROM sender WHERE chain_id = $1 AND address = $2 FOR UPDATE`,
		p.Chain, p.Sender[:]).Scan(&next)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, sending.ErrHalted // the row was there when the request was prepared
	}
	if err != nil {
		return 0, fmt.Errorf("lock the row of a sender: %w", err)
	}
	return next, nil
}

// mayEnqueue fails where the chain is halted, the sender has lost commits, or too many of its calls wait.
func mayEnqueue(ctx context.Context, tx pgx.Tx, p sending.Prepared, next int64) error {
	var halted, short bool
	var unmined int64
	err := tx.QueryRow(ctx, `
		SELECT `+halts+`,
			EXISTS (SELECT FROM sending_halt WHERE chain_id = $1 AND lifted_at IS NULL AND cause = 'reserves'),
			$3::bigint - coalesce((SELECT max(nonce) + 1 FROM call_end WHERE chain_id = $1 AND sender = $2), 0)`,
		p.Chain, p.Sender[:], next).Scan(&halted, &short, &unmined)
	switch {
	case err != nil:
		return fmt.Errorf("count the calls of a sender: %w", err)
	case halted || uint64(next) < p.Next:
		return sending.ErrHalted
	case short && p.Purpose == sending.PurposePayout:
		return sending.ErrReserves
	case unmined >= sending.MaxUnmined:
		return sending.ErrBusy
	}
	return nil
}

func bytesOrEmpty(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Call returns the call of a purpose and ref with all that came of it; ok is false where there is none.
func (s Sending) Call(ctx context.Context, purpose, ref string) (status sending.Status, ok bool, err error) {
	return statusOf(ctx, s.pool, purpose, ref)
}

func statusOf(ctx context.Context, db querier, purpose, ref string) (status sending.Status, ok bool, err error) {
	list, err := statuses(ctx, db, `c.purpose = $1 AND c.ref = $2`, ``, purpose, ref)
	if err != nil || len(list) == 0 {
		return sending.Status{}, false, err
	}
	return list[0], true, nil
}

func callOf(ctx context.Context, tx pgx.Tx, purpose, ref string) (sending.Call, bool, error) {
	status, ok, err := statusOf(ctx, tx, purpose, ref)
	return status.Call, ok, err
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const statusColumns = `c.chain_id, c.sender, c.nonce, c.purpose, c.ref, c.recipient, c.value, c.data, c.gas_limit,
	c.call_hash, s.key, x.nonce IS NOT NULL, clock_timestamp(),
	e.outcome, e.hash, e.block, e.block_hash, e.cost`

// statuses reads calls, and then their transactions.
func statuses(ctx context.Context, db querier, where, order string, args ...any) ([]sending.Status, error) {
	rows, err := db.Query(ctx, `
		SELECT `+statusColumns+` FROM chain_call c LEFT JOIN call_cancel x USING (chain_id, sender, nonce)
		LEFT JOIN call_end e USING (chain_id, sender, nonce)
		JOIN sender s ON s.chain_id = c.chain_id AND s.address = c.sender
		WHERE `+where+` `+order, args...)
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanStatus)
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	return list, addTransactions(ctx, db, list)
}

func scanStatus(row pgx.CollectableRow) (sending.Status, error) {
	var s sending.Status
	var sender, to, hash, tx, blockHash []byte
	var outcome *string
	var block *int64
	var cost *chain.Amount
	err := row.Scan(&s.Call.Chain, &sender, &s.Call.Nonce, &s.Call.Purpose, &s.Call.Ref, &to, &s.Call.Value, &s.Call.Data,
		&s.Call.Gas, &hash, &s.Call.Key, &s.CancelAsked, &s.Now, &outcome, &tx, &block, &blockHash, &cost)
	copy(s.Call.Sender[:], sender)
	copy(s.Call.To[:], to)
	copy(s.Call.Hash[:], hash)
	if err == nil && outcome != nil {
		s.End = &sending.End{Outcome: sending.Outcome(*outcome), Block: uint64(*block), Cost: *cost}
		copy(s.End.Transaction[:], tx)
		copy(s.End.BlockHash[:], blockHash)
	}
	return s, err
}

// addTransactions reads the signed transactions of calls.
func addTransactions(ctx context.Context, db querier, list []sending.Status) error {
	if len(list) == 0 {
		return nil
	}
	at := make(map[sending.Place]int, len(list))
	chains, senders, nonces := make([]int64, len(list)), make([][]byte, len(list)), make([]int64, len(list))
	for i, s := range list {
		at[s.Call.Place()] = i
		chains[i], senders[i], nonces[i] = int64(s.Call.Chain), s.Call.Sender[:], int64(s.Call.Nonce)
	}
	rows, err := db.Query(ctx, `
		SELECT chain_id, sender, nonce, hash, try, call_hash IS NULL, raw, max_fee, tip, signed_at FROM signed_tx
		JOIN unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS u(chain_id, sender, nonce) USING (chain_id, sender, nonce)
		ORDER BY chain_id, sender, nonce, try`, chains, senders, nonces)
	if err != nil {
		return fmt.Errorf("read signed transactions: %w", err)
	}
	var place sending.Place
	var sender, hash []byte
	var tx sending.Signed
	_, err = pgx.ForEachRow(rows, []any{&place.Chain, &sender, &place.Nonce, &hash, &tx.Try, &tx.Cancels, &tx.Raw,
		&tx.Fees.Max, &tx.Fees.Tip, &tx.At}, func() error {
		copy(place.Sender[:], sender)
		copy(tx.Hash[:], hash)
		one := &list[at[place]]
		one.Signed = append(one.Signed, tx)
		tx.Raw = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("read signed transactions: %w", err)
	}
	return nil
}

// Next implements sending.Store.
func (s Sending) Next(ctx context.Context, id chain.ID, sender chain.Address, key sending.Key) (uint64, error) {
	var next uint64
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		const read = `SELECT next FROM sender WHERE chain_id = $1 AND address = $2`
		err := tx.QueryRow(ctx, read, id, sender[:]).Scan(&next)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO sender (chain_id, address, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			id, sender[:], key); err != nil {
			return err
		}
		return tx.QueryRow(ctx, read, id, sender[:]).Scan(&next)
	})
	if err != nil {
		return 0, fmt.Errorf("read the next nonce of a sender: %w", err)
	}
	return next, nil
}

// Waiting implements sending.Store.
func (s Sending) Waiting(ctx context.Context, id chain.ID, limit int) ([]sending.Status, error) {
	return statuses(ctx, s.pool, `c.chain_id = $1 AND NOT c.ended`,
		`ORDER BY c.created_at, c.sender, c.nonce LIMIT $2`, id, limit)
}

// Late implements sending.Store.
func (s Sending) Late(ctx context.Context, id chain.ID, behind sending.Place, limit int) ([]sending.Status, error) {
	after := int64(behind.Nonce)
	if behind.Chain == 0 {
		after = -1
	}
	return statuses(ctx, s.pool, `c.chain_id = $1 AND e.chain_id = $1 AND e.ended_at > now() - $2::interval
		AND (c.sender, c.nonce) > ($3, $4)`, `ORDER BY c.sender, c.nonce LIMIT $5`,
		id, sending.RecheckFor, behind.Sender[:], after, limit)
}

// AddSigned implements sending.Store.
func (s Sending) AddSigned(ctx context.Context, of sending.Call, tx sending.Signed) error {
	var content []byte
	if !tx.Cancels {
		content = of.Hash[:]
	}
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(db pgx.Tx) error {
		if _, err := db.Exec(ctx, durably); err != nil {
			return err
		}
		tag, err := db.Exec(ctx, `
			INSERT INTO signed_tx (hash, chain_id, sender, nonce, try, call_hash, raw, max_fee, tip)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
			WHERE NOT EXISTS (SELECT FROM call_end WHERE chain_id = $2 AND sender = $3 AND nonce = $4
				AND (outcome = 'succeeded') IS DISTINCT FROM ($6::bytea IS NOT NULL))`,
			tx.Hash[:], of.Chain, of.Sender[:], of.Nonce, tx.Try, content, tx.Raw, tx.Fees.Max, tx.Fees.Tip)
		if pg.IsUnique(err, "") || err == nil && tag.RowsAffected() == 0 {
			return sending.ErrOther
		}
		return err
	})
	if errors.Is(err, sending.ErrOther) {
		return err
	}
	if err != nil {
		return fmt.Errorf("store a signed transaction: %w", err)
	}
	return nil
}

// AddEnd implements sending.Store.
func (s Sending) AddEnd(ctx context.Context, at sending.Place, e sending.End) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durably); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO call_end (chain_id, sender, nonce, outcome, hash, block, block_hash, cost)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (chain_id, sender, nonce) DO NOTHING`,
			at.Chain, at.Sender[:], at.Nonce, e.Outcome, e.Transaction[:], e.Block, e.BlockHash[:], e.Cost)
		return err
	})
	if err != nil {
		return fmt.Errorf("store the end of a call: %w", err)
	}
	return nil
}

// Cancel records that an operator wants a call cancelled that has not ended, and returns the call. It fails with
// call_not_found and transition_not_allowed.
func (s Sending) Cancel(ctx context.Context, at sending.Place, actor, reason string) (call sending.Call, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		list, err := statuses(ctx, tx, `c.chain_id = $1 AND c.sender = $2 AND c.nonce = $3`, ``, at.Chain, at.Sender[:],
			at.Nonce)
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			return fault.New(fault.NotFound, sending.CallNotFound, "no such call")
		case list[0].End != nil:
			return fault.New(fault.Precondition, fault.TransitionNotAllowed, "the call has ended")
		}
		call = list[0].Call
		return s.CancelCall(ctx, tx, at, actor, reason)
	})
	if _, known := fault.As(err); err != nil && !known {
		return call, fmt.Errorf("cancel a call: %w", err)
	}
	return call, err
}

// CancelCall records that an operator wants a call cancelled. The first word stays.
func (Sending) CancelCall(ctx context.Context, tx pgx.Tx, at sending.Place, actor, reason string) error {
	_, err := tx.Exec(ctx, `INSERT INTO call_cancel (chain_id, sender, nonce, actor, reason) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT DO NOTHING`, at.Chain, at.Sender[:], at.Nonce, actor, reason)
	if err != nil {
		return fmt.Errorf("record the cancel of a call: %w", err)
	}
	return nil
}
