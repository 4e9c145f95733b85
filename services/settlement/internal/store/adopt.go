package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/sweep"
)

var _ adopt.Store = Adoptions{}

// lostCauses are the halts that lost nonces cause.
var lostCauses = []string{string(sending.NonceAhead), string(sending.UnknownTransaction)}

// Adopt implements adopt.Store.
func (s Adoptions) Adopt(ctx context.Context, p adopt.Plan, by adopt.By) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durably); err != nil {
			return err
		}
		a := &adoption{tx: tx, plan: p, by: by}
		if err := a.holds(ctx); err != nil {
			return err
		}
		if err := a.begin(ctx); err != nil {
			return err
		}
		for _, line := range p.Calls {
			if err := a.call(ctx, line); err != nil {
				return fmt.Errorf("nonce %d of %s: %w", line.Nonce.Nonce, line.Nonce.Sender, err)
			}
		}
		for _, line := range p.Payouts {
			if err := a.payout(ctx, line); err != nil {
				return fmt.Errorf("payout %s: %w", line.Lost.ID, err)
			}
		}
		if err := a.halt(ctx); err != nil {
			return err
		}
		crash.At("settlement.adoption.before_commit")
		return nil
	})
	switch {
	case pg.IsCheck(err, "chain_call_halted"):
		return fault.New(fault.Precondition, adopt.ChainHalted, "the chain has another halt, which is lifted first")
	case err != nil:
		return fmt.Errorf("adopt what was lost: %w", err)
	}
	return nil
}

// holds fails where a sender has meanwhile a nonce that the plan takes for lost: on a chain that was not halted the
// pipeline goes on between the reads of a plan, and would have its own nonce cancelled. The lock of the sender's row
// keeps new nonces back until the chain is halted.
func (a *adoption) holds(ctx context.Context) error {
	checked := map[chain.Address]bool{}
	for _, l := range a.plan.Calls {
		n := l.Nonce
		if n.Known != nil || checked[n.Sender] { // the first lost nonce of a sender is the lowest
			continue
		}
		checked[n.Sender] = true
		var next uint64
		err := a.tx.QueryRow(ctx, `SELECT next FROM sender WHERE chain_id = $1 AND address = $2 FOR UPDATE`, n.Chain,
			n.Sender[:]).Scan(&next)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return fmt.Errorf("lock a sender: %w", err)
		case next > n.Nonce:
			return fault.New(fault.Unavailable, fault.ServiceUnavailable,
				"nonce %d of %s has a call by now: adopt again", n.Nonce, n.Sender)
		}
	}
	return nil
}

// begin lifts the halts, because nothing is added on a halted chain, and records who adopts where there is something.
func (a *adoption) begin(ctx context.Context) error {
	if _, err := a.tx.Exec(ctx, `UPDATE sending_halt SET lifted_at = clock_timestamp(), lifted_by = $2, reason = $3
		WHERE chain_id = $1 AND cause = ANY($4) AND lifted_at IS NULL`, a.plan.Chain, a.by.Actor, a.by.Reason,
		lostCauses); err != nil {
		return err
	}
	if a.plan.Empty() {
		return nil
	}
	return a.tx.QueryRow(ctx, `INSERT INTO adoption (chain_id, actor, reason) VALUES ($1, $2, $3)
		RETURNING adoption_id::text`, a.plan.Chain, a.by.Actor, a.by.Reason).Scan(&a.id)
}

// halt halts the chain again where something is left.
func (a *adoption) halt(ctx context.Context) error {
	left := slices.IndexFunc(a.plan.Calls, func(l adopt.CallLine) bool {
		return l.Action != adopt.Record && l.Action != adopt.SignAgain
	})
	if left < 0 && !a.plan.More {
		return nil
	}
	detail := "lost nonces are left to adopt"
	if left >= 0 {
		l := a.plan.Calls[left]
		detail = fmt.Sprintf("nonce %d of %s (%s) is left to adopt: %s", l.Nonce.Nonce, l.Nonce.Sender, l.Nonce.Key,
			l.Detail)
	}
	_, err := a.tx.Exec(ctx, `INSERT INTO sending_halt (chain_id, cause, detail) VALUES ($1, $2, $3)
		ON CONFLICT (chain_id, cause) WHERE lifted_at IS NULL DO NOTHING`, a.plan.Chain, sending.NonceAhead,
		clipped(detail, maxDetail))
	return err
}

// clipped returns the first bytes of a text, without the part of a character at its end.
func clipped(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// call stores a nonce, its transaction and its end.
func (a *adoption) call(ctx context.Context, l adopt.CallLine) error {
	if l.Action != adopt.Record && l.Action != adopt.SignAgain {
		return nil
	}
	try := 0
	if l.Nonce.Known == nil {
		if err := a.sweep(ctx, &l); err != nil {
			return err
		}
		if err := a.insert(ctx, l); err != nil {
			return err
		}
	} else {
		try = len(l.Nonce.Known.Signed)
	}
	if _, err := a.tx.Exec(ctx, `INSERT INTO adopted_call (chain_id, sender, nonce, adoption_id, what, detail)
		VALUES ($1, $2, $3, $4::text::uuid, $5, $6) ON CONFLICT DO NOTHING`, l.Nonce.Chain, l.Nonce.Sender[:],
		l.Nonce.Nonce, a.id, l.What, clipped(l.Detail, maxDetail)); err != nil {
		return err
	}
	if l.Cancel {
		if err := (Sending{}).CancelCall(ctx, a.tx, l.Nonce.Place, a.by.Actor, a.by.Reason); err != nil {
			return err
		}
	}
	if l.Nonce.Sent == nil {
		return nil
	}
	return a.end(ctx, l, try)
}

// insert adds the call as the next one of its sender.
func (a *adoption) insert(ctx context.Context, l adopt.CallLine) error {
	c := l.Call
	if _, err := a.tx.Exec(ctx, `INSERT INTO sender (chain_id, address, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		c.Chain, c.Sender[:], c.Key); err != nil {
		return err
	}
	if _, err := a.tx.Exec(ctx, `
		INSERT INTO chain_call (chain_id, sender, nonce, purpose, ref, recipient, value, data, gas_limit, call_hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		c.Chain, c.Sender[:], c.Nonce, c.Purpose, c.Ref, c.To[:], c.Value, bytesOrEmpty(c.Data), c.Gas,
		c.Hash[:]); err != nil {
		return err
	}
	_, err := a.tx.Exec(ctx, `UPDATE sender SET next = next + 1 WHERE chain_id = $1 AND address = $2`, c.Chain,
		c.Sender[:])
	return err
}

// end stores the transaction that final blocks have, and its receipt.
func (a *adoption) end(ctx context.Context, l adopt.CallLine, try int) error {
	n, sent, receipt := l.Nonce, l.Nonce.Sent, l.Nonce.Receipt
	outcome, content := sending.Succeeded, l.Call.Hash[:]
	switch {
	case n.Cancels() && l.Call.To != n.Sender:
		outcome, content = sending.Cancelled, nil
	case !receipt.Succeeded:
		outcome = sending.Reverted
	}
	if _, err := a.tx.Exec(ctx, `
		INSERT INTO signed_tx (hash, chain_id, sender, nonce, try, call_hash, raw, max_fee, tip)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, sent.Hash[:], n.Chain, n.Sender[:], n.Nonce, try, content, sent.Raw,
		sent.Fees.Max, sent.Fees.Tip); err != nil {
		return err
	}
	cost, ok := receipt.Cost()
	if !ok {
		return fmt.Errorf("the receipt of %s has a cost beyond 2^256", sent.Hash)
	}
	if _, err := a.tx.Exec(ctx, `
		INSERT INTO call_end (chain_id, sender, nonce, outcome, hash, block, block_hash, cost)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, n.Chain, n.Sender[:], n.Nonce, outcome, sent.Hash[:], receipt.Block,
		receipt.BlockHash[:], cost); err != nil {
		return err
	}
	return a.endSweep(ctx, l, outcome, cost)
}

// sweep makes a call that of a sweep: of the open one that the plan names, or of one that is added on a day on which
// the address has none.
func (a *adoption) sweep(ctx context.Context, l *adopt.CallLine) error {
	index, ours := a.plan.Deposits[l.SweepOf]
	if l.What != adopt.Sweep || !ours || l.SweepOf == (chain.Address{}) {
		return nil
	}
	if l.Call.Purpose == adopt.Purpose {
		var id *string
		if err := a.tx.QueryRow(ctx, addSweep, l.Call.Chain, index, l.Call.Chain.Token(l.Call.Chain.PaysOut()), l.Swept,
			l.Nonce.Sent.At).Scan(&id); err != nil || id == nil {
			return err // the balance says that something left
		}
		l.Call.Purpose, l.Call.Ref = sweep.Purpose, *id
	}
	_, err := a.tx.Exec(ctx, `UPDATE sweep SET state = 'sent', amount = $2 WHERE sweep_id = $1::text::uuid
		AND state = 'planned'`, l.Call.Ref, l.Swept)
	return err
}

// A sweep may be mined on the day after its own, on which there may be another one.
const addSweep = `
	WITH free AS (
		SELECT day::date FROM generate_series($5::timestamptz AT TIME ZONE 'UTC', $5::timestamptz AT TIME ZONE 'UTC'
			- interval '7 days', interval '-1 day') AS day
		WHERE NOT EXISTS (SELECT FROM sweep s WHERE s.chain_id = $1 AND s.deposit_index = $2 AND s.token = $3
			AND s.day = day::date) ORDER BY day DESC LIMIT 1
	), added AS (
		INSERT INTO sweep (chain_id, deposit_index, token, amount, day) SELECT $1, $2, $3, $4, day FROM free
		ON CONFLICT DO NOTHING RETURNING sweep_id
	) SELECT (SELECT sweep_id::text FROM added)`

// endSweep ends the sweep of a call, so that the next one of its address may be added.
func (a *adoption) endSweep(ctx context.Context, l adopt.CallLine, outcome sending.Outcome, cost chain.Amount) error {
	if l.What != adopt.Sweep || l.Call.Purpose != sweep.Purpose || l.Nonce.Known != nil {
		return nil
	}
	left, ok := sweep.Left(l.Call.Chain.PaysOut(), outcome, l.Swept, cost)
	if !ok {
		return fmt.Errorf("what %s swept is beyond 2^256", l.Nonce.Sent.Hash)
	}
	return endSweep(ctx, a.tx, sweep.Sweep{ID: l.Call.Ref, Amount: l.Swept}, l.Nonce.Sent.Hash, left)
}
