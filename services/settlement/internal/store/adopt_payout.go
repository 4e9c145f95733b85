package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/payout"
)

// adoption is one transaction that adopts.
type adoption struct {
	tx   pgx.Tx
	id   string
	plan adopt.Plan
	by   adopt.By
}

// payout takes a payout as far as its transaction is known, or has its money given back. The books end it as they end
// every other one.
func (a *adoption) payout(ctx context.Context, l adopt.PayoutLine) error {
	if l.Action != adopt.Follow && l.Action != adopt.GiveBack {
		return nil
	}
	p := payout.Payout{Draft: payout.Draft{ID: l.Lost.ID, ProviderID: l.Lost.Provider, Chain: a.plan.Chain,
		Gross: l.Lost.Gross, Fee: payout.Fee, Address: l.Lost.Address}}
	if _, err := LockProvider(ctx, a.tx, p.ProviderID); err != nil {
		return err
	}
	if _, err := a.tx.Exec(ctx, `
		INSERT INTO adopted_payout (payout_id, adoption_id, requested_at)
		SELECT $1, $2::text::uuid, greatest($3::timestamptz, max(requested_at) + $4::interval) FROM payout
		WHERE provider_id = $5 AND chain_id = $6 ON CONFLICT DO NOTHING`, p.ID, a.id, l.Lost.At, payout.Every, p.ProviderID,
		p.Chain); err != nil {
		return err
	}
	if err := a.row(ctx, &p); err != nil {
		return err
	}
	if p.Reserved.IsZero() {
		if err := a.step(ctx, &p, payout.Reserve, p.State, "platform", `reserved_entry = $4`, l.Lost.Entry); err != nil {
			return err
		}
	}
	if l.Action == adopt.GiveBack {
		return a.step(ctx, &p, payout.Cancel, p.State, a.by.Actor, `ends_as = 'cancelled', ends_reason = $4`, a.by.Reason)
	}
	if p.State == payout.Requested {
		if err := a.step(ctx, &p, payout.Approve, payout.Approved, a.by.Actor, ``); err != nil {
			return err
		}
	}
	var rate *int64
	var at *time.Time
	if l.Quote.Rate != 0 {
		rate, at = (*int64)(&l.Quote.Rate), &l.Quote.At
	}
	return a.step(ctx, &p, payout.Send, payout.Signing, "platform", `ends_as = NULL, ends_reason = NULL, amount = $4,
		rate_nano_usd = $5, rate_source = $6, rate_at = $7`, l.Amount, rate, textOrNull(l.Quote.Source),
		at)
}

// row locks the row of a payout, and adds one where there is none.
func (a *adoption) row(ctx context.Context, p *payout.Payout) error {
	if _, err := a.tx.Exec(ctx, `SELECT FROM payout WHERE payout_id = $1 FOR UPDATE`, p.ID); err != nil {
		return err
	}
	row, ok, err := onePayout(ctx, a.tx, p.ID)
	if err != nil {
		return err
	}
	if ok {
		*p = row
		return nil
	}
	if _, err := a.tx.Exec(ctx, `
		INSERT INTO payout (payout_id, provider_id, chain_id, gross_nano_usd, fee_nano_usd, address, previous_at)
		SELECT $1, $2, $3, $4, $5, $6, max(requested_at) FROM payout WHERE provider_id = $2 AND chain_id = $3`, p.ID,
		p.ProviderID, p.Chain, p.Gross, p.Fee, p.Address[:]); err != nil {
		return err
	}
	p.State, p.Revision = payout.Requested, 1
	_, err = a.tx.Exec(ctx, `
		INSERT INTO payout_change (payout_id, revision, from_state, to_state, cause, actor, reason)
		VALUES ($1, 1, '', 'requested', 'request', $2, $3)`, p.ID, a.by.Actor, a.by.Reason)
	return err
}

// step moves a payout on, with its entry. set has further columns, whose arguments begin with $4.
func (a *adoption) step(
	ctx context.Context, p *payout.Payout, cause payout.Cause, to payout.State, actor, set string, args ...any,
) error {
	reason := ""
	if actor != "platform" {
		reason = a.by.Reason
	}
	if _, err := a.tx.Exec(ctx, `
		INSERT INTO payout_change (payout_id, revision, from_state, to_state, cause, actor, reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, p.ID, p.Revision+1, p.State, to, cause, actor, reason); err != nil {
		return err
	}
	if set != "" {
		set = ", " + set
	}
	p.State, p.Revision = to, p.Revision+1
	_, err := a.tx.Exec(ctx, `UPDATE payout SET state = $2, revision = $3, waiting = ''`+set+` WHERE payout_id = $1`,
		append([]any{p.ID, p.State, p.Revision}, args...)...)
	return err
}
