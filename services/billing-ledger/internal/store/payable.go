package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/payable"
)

const invoiceColumns = `number, amount, counted, note, asked_by, asked_at, coalesce(paid_by, ''), paid_at`

func scanVendorInvoice(row pgx.Row, vendor ids.ProviderID) (payable.Payment, error) {
	p := payable.Payment{Invoice: payable.Invoice{Vendor: vendor}}
	var paid *time.Time
	if err := row.Scan(&p.Number, &p.Amount, &p.Counted, &p.Note, &p.AskedBy, &p.AskedAt, &p.PaidBy, &paid); err != nil {
		return p, err
	}
	p.AskedAt = p.AskedAt.UTC()
	if paid != nil {
		p.PaidAt = paid.UTC()
	}
	return p, nil
}

// PayVendor pays an invoice, or asks for its payment; see payable.Store. The database takes the same lock
// for each debit of the account, so no two payments are decided on one balance.
func (s *Store) PayVendor(
	ctx context.Context, i payable.Invoice, decide func(payable.Standing) (payable.Step, error),
) (payable.Payment, error) {
	var step payable.Step
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockEarnings(ctx, tx, i.Vendor); err != nil {
			return err
		}
		standing, err := readInvoice(ctx, tx, i)
		if err != nil {
			return err
		}
		if step, err = decide(standing); err != nil || !step.Changed {
			return err
		}
		if err := writeInvoice(ctx, tx, step.Payment); err != nil {
			return err
		}
		if _, err := post(ctx, tx, step.Entries, nil); err != nil {
			return err
		}
		p := step.Payment
		return addAct(ctx, tx, paidVendor, [16]byte(p.Vendor), details{
			"invoice": string(p.Number), "amount_usd": p.Amount.String(), "counted_usd": p.Counted.String(),
			"note": p.Note, "state": string(p.State()),
		})
	})
	if errors.Is(refusalOf(err), ledger.ErrUnearned) {
		err = payable.ErrNotOwed
	}
	return step.Payment, err
}

func readInvoice(ctx context.Context, tx pgx.Tx, i payable.Invoice) (payable.Standing, error) {
	var s payable.Standing
	var known bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM vendor WHERE vendor_id = $1),
		provider_balance('l:vendor:payable', $1, ''), now()`, [16]byte(i.Vendor)).Scan(&known, &s.Owed, &s.Now); err != nil {
		return s, fmt.Errorf("read what a vendor is owed: %w", err)
	}
	if !known {
		return s, payable.ErrNoVendor
	}
	s.Now = s.Now.UTC()
	if err := tx.QueryRow(ctx, `SELECT coalesce(sum(amount), 0)::bigint, coalesce(sum(counted), 0)::bigint,
			coalesce(sum(abs(amount - counted)), 0)::bigint
		FROM vendor_invoice WHERE vendor_id = $1 AND paid_at > now() - $2::interval`, [16]byte(i.Vendor), payable.Window).
		Scan(&s.Lately.Amount, &s.Lately.Counted, &s.Lately.Corrected); err != nil {
		return s, fmt.Errorf("read what a vendor was paid of late: %w", err)
	}
	before, err := scanVendorInvoice(tx.QueryRow(ctx, `SELECT `+invoiceColumns+` FROM vendor_invoice
		WHERE vendor_id = $1 AND number = $2`, [16]byte(i.Vendor), string(i.Number)), i.Vendor)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, nil
	case err != nil:
		return s, fmt.Errorf("read an invoice: %w", err)
	}
	s.Before = &before
	return s, nil
}

func writeInvoice(ctx context.Context, tx pgx.Tx, p payable.Payment) error {
	var by *string
	var at *time.Time
	if p.State() == payable.Paid {
		by, at = &p.PaidBy, &p.PaidAt
	}
	if _, err := tx.Exec(ctx, `INSERT INTO vendor_invoice (vendor_id, number, amount, counted, note, asked_by, paid_by,
			paid_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (vendor_id, number) DO UPDATE SET amount = excluded.amount, counted = excluded.counted,
			note = excluded.note, asked_by = excluded.asked_by, asked_at = $9, paid_by = excluded.paid_by,
			paid_at = excluded.paid_at`,
		[16]byte(p.Vendor), string(p.Number), int64(p.Amount), int64(p.Counted), p.Note, p.AskedBy, by, at,
		p.AskedAt); err != nil {
		return fmt.Errorf("write an invoice: %w", err)
	}
	return nil
}

// selectPayables computes what vendors are owed as provider_balance computes it for one: the last snapshot
// plus what was recorded since. It reads the requests since then once for the whole page. The count of the
// last month is what moved in that month, without payments, corrections and reversals.
const selectPayables = `WITH page AS (
		SELECT vendor_id FROM vendor WHERE vendor_id > $1 ORDER BY vendor_id LIMIT $2
	), open AS (
		SELECT coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity') AS since
	), month AS (
		SELECT date_trunc('month', now() AT TIME ZONE 'UTC') - interval '1 month' AS begins,
			date_trunc('month', now() AT TIME ZONE 'UTC') AS ends
	), served AS (
		SELECT provider_id, sum(payout) AS amount FROM usage_settlement
		WHERE settled_at >= (SELECT since FROM open) AND vendor AND source IN ('payg', 'plan')
			AND provider_id IN (SELECT vendor_id FROM page)
		GROUP BY provider_id
	)
	SELECT v.vendor_id, (coalesce((SELECT balance FROM balance_snapshot WHERE account_kind = 'l:vendor:payable'
			AND owner_id = v.vendor_id AND book = '' AND asset = 'usd' ORDER BY day DESC LIMIT 1), 0)
		+ coalesce((SELECT sum(p.amount) FROM posting p JOIN entry e ON e.id = p.entry_id
			WHERE p.account_kind = 'l:vendor:payable' AND p.owner_id = v.vendor_id AND p.book = '' AND p.asset = 'usd'
				AND e.at >= (SELECT since FROM open)), 0)
		+ coalesce((SELECT amount FROM served WHERE provider_id = v.vendor_id), 0))::bigint,
		coalesce((SELECT sum(amount) FROM vendor_invoice i WHERE i.vendor_id = v.vendor_id AND paid_at IS NOT NULL),
			0)::bigint,
		(coalesce((SELECT sum(moved) FROM balance_snapshot WHERE account_kind = 'l:vendor:payable'
			AND owner_id = v.vendor_id AND book = '' AND asset = 'usd' AND day >= m.begins::date AND day < m.ends::date), 0)
		- coalesce((SELECT sum(p.amount) FROM posting p JOIN entry e ON e.id = p.entry_id
			WHERE p.account_kind = 'l:vendor:payable' AND p.owner_id = v.vendor_id AND p.book = '' AND p.asset = 'usd'
				AND p.entry_kind IN ('vendor_paid', 'vendor_corrected', 'reversal')
				AND e.at >= m.begins AT TIME ZONE 'UTC' AND e.at < m.ends AT TIME ZONE 'UTC'), 0))::bigint
	FROM month m CROSS JOIN page v ORDER BY v.vendor_id`

// VendorBalances lists what vendors are owed; see payable.Store.
func (s *Store) VendorBalances(ctx context.Context, after ids.ProviderID, limit int) ([]payable.Balance, error) {
	rows, err := s.pool.Query(ctx, selectPayables, [16]byte(after), limit)
	if err != nil {
		return nil, fmt.Errorf("read what vendors are owed: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b payable.Balance, err error) {
		var vendor [16]byte
		err = row.Scan(&vendor, &b.Owed, &b.Paid, &b.LastMonth)
		b.Vendor = vendor
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what vendors are owed: %w", err)
	}
	for i := range list {
		if err := s.addInvoices(ctx, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// addInvoices adds the newest payment that was made to a vendor, and the payments that wait.
func (s *Store) addInvoices(ctx context.Context, b *payable.Balance) error {
	rows, err := s.pool.Query(ctx, `(SELECT `+invoiceColumns+` FROM vendor_invoice
			WHERE vendor_id = $1 AND paid_at IS NOT NULL ORDER BY paid_at DESC, number LIMIT 1)
		UNION ALL (SELECT `+invoiceColumns+` FROM vendor_invoice
			WHERE vendor_id = $1 AND paid_at IS NULL ORDER BY asked_at, number LIMIT $2)`,
		[16]byte(b.Vendor), payable.MaxWaiting)
	if err != nil {
		return fmt.Errorf("read the invoices of a vendor: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (payable.Payment, error) {
		return scanVendorInvoice(row, b.Vendor)
	})
	if err != nil {
		return fmt.Errorf("read the invoices of a vendor: %w", err)
	}
	for _, p := range all {
		if p.State() == payable.Paid {
			b.Last = &p
		} else {
			b.Waiting = append(b.Waiting, p)
		}
	}
	return nil
}

// payableChecks check the invoices of vendors. An entry that was undone pays no invoice.
var payableChecks = []check{{
	"each invoice of a vendor has its entries, and no entry is without it",
	`SELECT count(*) FROM vendor_invoice`,
	`SELECT format('invoice %s: asked %s, corrected by %s; posted %s, corrected by %s', business_id, i.amount,
			i.correction, e.paid, e.corrected)
		FROM (SELECT vendor_id, vendor_id || '/' || number AS business_id, amount, amount - counted AS correction
			FROM vendor_invoice WHERE paid_at IS NOT NULL) i
		FULL JOIN (SELECT e.business_id, p.owner_id,
				coalesce(-sum(p.amount) FILTER (WHERE e.kind = 'vendor_paid'), 0) AS paid,
				coalesce(sum(p.amount) FILTER (WHERE e.kind = 'vendor_corrected'), 0) AS corrected
			FROM entry e JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:vendor:payable'
			WHERE e.kind IN ('vendor_paid', 'vendor_corrected')
				AND NOT EXISTS (SELECT FROM entry undone WHERE undone.reverses = e.id)
			GROUP BY e.business_id, p.owner_id) e USING (business_id)
		WHERE (i.vendor_id, i.amount, i.correction) IS DISTINCT FROM (e.owner_id, e.paid, e.corrected)`,
}}
