package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/document"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/passbook"
)

// invoiceAccounts is how many accounts have their invoices in one transaction.
const invoiceAccounts = 200

// credited is an entry for which a consumer has a receipt or a credit note.
type credited struct {
	account ids.AccountID
	entry   ids.EntryID
	at      time.Time
	kind    ledger.EntryKind
	// subject is what a refund is of: a request, or the invoice of a plan.
	subject string
}

// documentedKinds are the kinds of entries that may have a document.
var documentedKinds = func() []string {
	var kinds []string
	for _, k := range passbook.Kinds() {
		if passbook.IsCredit(k) || passbook.IsRefund(k) {
			kinds = append(kinds, string(k))
		}
	}
	return kinds
}()

// documentEntries makes the receipts and credit notes of the entries of a span of time, in
// the order of the entries, and returns how many.
func (p Passbook) documentEntries(ctx context.Context, tx pgx.Tx, from, to time.Time) (int, error) {
	list, err := readCredited(ctx, tx, from, to)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	accounts, entries := make([]ids.AccountID, len(list)), make([]ids.EntryID, len(list))
	for i, c := range list {
		accounts[i], entries[i] = c.account, c.entry
	}
	buyers, err := readBuyers(ctx, tx, accounts)
	if err != nil {
		return 0, err
	}
	legs, err := readEntries(ctx, tx, entries)
	if err != nil {
		return 0, err
	}
	made := 0
	for _, c := range list {
		d, due, err := p.documentOf(ctx, tx, c, legs[c.entry], buyers[c.account])
		if err != nil {
			return made, err
		}
		if !due {
			continue
		}
		if err := insertDocument(ctx, tx, d, nil); err != nil {
			return made, err
		}
		made++
	}
	return made, nil
}

// documentOf makes the receipt or the credit note of an entry. None is due for a refund of an
// open month, because the month's invoice will have it.
func (p Passbook) documentOf(
	ctx context.Context, tx pgx.Tx, c credited, e ledger.Entry, buyer document.Buyer,
) (d document.Document, due bool, err error) {
	d = document.Document{Account: c.account, At: c.at, Entry: c.entry}
	if passbook.IsCredit(c.kind) {
		d.Series = document.Receipt
		d.Body, d.Amount = p.Maker.Receipt(e, buyer)
		return d, true, nil
	}
	var line document.Line
	var invoice document.Number
	if c.kind == ledger.PlanRefunded {
		line, invoice, due, err = planRefund(ctx, tx, c.entry)
	} else {
		line = document.RefundLine(e, buyer)
		invoice, due, err = invoiceOf(ctx, tx, c)
	}
	d.Series = document.CreditNote
	d.Body, d.Amount = p.Maker.CreditNote(line, buyer, invoice)
	return d, due, err
}

func readCredited(ctx context.Context, tx pgx.Tx, from, to time.Time) ([]credited, error) {
	rows, err := tx.Query(ctx, `SELECT p.owner_id, e.id, e.at, e.kind, e.business_id
		FROM entry e JOIN posting p ON p.entry_id = e.id
		WHERE e.at >= $1 AND e.at < $2 AND e.kind = ANY ($3) AND p.account_kind = 'l:consumer:available'
		GROUP BY 1, 2, 3, 4, 5 HAVING sum(p.amount) > 0
		UNION ALL
		SELECT i.account_id, e.id, e.at, e.kind, i.id FROM entry e JOIN plan_return r ON r.entry_id = e.id
			JOIN plan_invoice i ON i.id = r.invoice_id WHERE e.at >= $1 AND e.at < $2 AND e.kind = 'plan_refund'
		ORDER BY 3, 2, 1`, from, to, documentedKinds)
	if err != nil {
		return nil, fmt.Errorf("read credits: %w", err)
	}
	var list []credited
	var account, entry [16]byte
	var at time.Time
	var kind, subject string
	_, err = pgx.ForEachRow(rows, []any{&account, &entry, &at, &kind, &subject}, func() error {
		list = append(list, credited{account, entry, at.UTC(), ledger.EntryKind(kind), subject})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read credits: %w", err)
	}
	return list, nil
}

// invoiceOf finds the invoice of the month in which a refunded request was charged.
func invoiceOf(ctx context.Context, tx pgx.Tx, c credited) (document.Number, bool, error) {
	n := document.Number{Series: document.Invoice}
	request, err := ids.ParseRequest(c.subject)
	if err != nil {
		return n, false, fmt.Errorf("refund %s: %w", c.entry, err)
	}
	err = tx.QueryRow(ctx, `SELECT d.year, d.number FROM usage_settlement u JOIN document d
			ON d.account_id = u.account_id AND d.month = date_trunc('month', u.settled_at AT TIME ZONE 'UTC')::date
		WHERE u.day = $1 AND u.request_id = $2 AND u.account_id = $3`,
		request.Day(), [16]byte(request), [16]byte(c.account)).Scan(&n.Year, &n.N)
	if errors.Is(err, pgx.ErrNoRows) {
		return n, false, nil
	}
	if err != nil {
		return n, false, fmt.Errorf("find the invoice of a refund: %w", err)
	}
	return n, true, nil
}

func readBuyers(ctx context.Context, tx pgx.Tx, accounts []ids.AccountID) (map[ids.AccountID]document.Buyer, error) {
	rows, err := tx.Query(ctx, `SELECT a.id, a.name, coalesce(u.email, '') FROM account a
		LEFT JOIN app_user u ON u.account_id = a.id WHERE a.id = ANY ($1)`, raw(accounts))
	if err != nil {
		return nil, fmt.Errorf("read buyers: %w", err)
	}
	buyers := map[ids.AccountID]document.Buyer{}
	var id [16]byte
	var name, email string
	_, err = pgx.ForEachRow(rows, []any{&id, &name, &email}, func() error {
		buyers[id] = document.Buyer{Account: id, Name: name, Email: email}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read buyers: %w", err)
	}
	return buyers, nil
}

func insertDocument(ctx context.Context, tx pgx.Tx, d document.Document, month *time.Time) error {
	body, err := json.Marshal(d.Body)
	if err != nil {
		return fmt.Errorf("encode a document: %w", err)
	}
	var entry *[16]byte
	if !d.Entry.IsZero() {
		entry = (*[16]byte)(&d.Entry)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO document (series, account_id, at, amount, entry_id, month, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, string(d.Series), [16]byte(d.Account), d.At, int64(d.Amount), entry, month,
		body); err != nil {
		return fmt.Errorf("insert a document: %w", err)
	}
	return nil
}

// invoice makes the invoices of some accounts at the end of a month, and after the last
// account goes on to the next month.
func (p Passbook) invoice(ctx context.Context, tx pgx.Tx, at folding) (passbook.Progress, error) {
	done := passbook.Progress{More: true}
	rows, err := tx.Query(ctx, `(SELECT DISTINCT account_id FROM usage_series
			WHERE $1::uuid IS NULL OR account_id > $1 ORDER BY account_id LIMIT $2)
		UNION (SELECT DISTINCT account_id FROM plan_invoice
			WHERE $1::uuid IS NULL OR account_id > $1 ORDER BY account_id LIMIT $2)
		ORDER BY account_id LIMIT $2`, at.invoiced, invoiceAccounts)
	if err != nil {
		return done, fmt.Errorf("find accounts to invoice: %w", err)
	}
	raws, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return done, fmt.Errorf("find accounts to invoice: %w", err)
	}
	if len(raws) == 0 {
		if _, err := tx.Exec(ctx, `UPDATE passbook_fold SET invoice_month = $1, invoiced = NULL`, at.end()); err != nil {
			return done, fmt.Errorf("end a month: %w", err)
		}
		return done, nil
	}
	accounts := make([]ids.AccountID, len(raws))
	for i, id := range raws {
		accounts[i] = id
	}
	if done.Documents, err = p.invoiceAll(ctx, tx, at, accounts); err != nil {
		return done, err
	}
	if _, err := tx.Exec(ctx, `UPDATE passbook_fold SET invoiced = $1`, raws[len(raws)-1]); err != nil {
		return done, fmt.Errorf("move the invoices on: %w", err)
	}
	return done, nil
}

func (p Passbook) invoiceAll(
	ctx context.Context, tx pgx.Tx, at folding, accounts []ids.AccountID,
) (int, error) {
	months, err := readMonths(ctx, tx, at, accounts)
	if err != nil {
		return 0, err
	}
	if err := readPlanMonths(ctx, tx, at, accounts, months); err != nil {
		return 0, err
	}
	buyers, err := readBuyers(ctx, tx, accounts)
	if err != nil {
		return 0, err
	}
	made := 0
	for _, id := range accounts {
		m, ok := months[id]
		if !ok {
			continue
		}
		d := document.Document{Number: document.Number{Series: document.Invoice}, Account: id, At: at.end(),
			Body: p.Maker.Invoice(*m, buyers[id])}
		d.Amount = d.Body.Total
		if err := insertDocument(ctx, tx, d, &m.Month); err != nil {
			return made, err
		}
		made++
	}
	return made, nil
}

// readMonths reads what accounts used in a month and what of it was given back. A refund with
// a credit note is of an earlier month.
func readMonths(
	ctx context.Context, tx pgx.Tx, at folding, accounts []ids.AccountID,
) (map[ids.AccountID]*document.Month, error) {
	months := map[ids.AccountID]*document.Month{}
	rows, err := tx.Query(ctx, `SELECT s.account_id, s.model_id, s.unit, sum(d.requests)::bigint,
			sum(d.prompt_tokens)::bigint, sum(d.completion_tokens)::bigint, sum(d.charged)::bigint, sum(d.covered)::bigint
		FROM usage_series s JOIN usage_day d ON d.series_id = s.id
		WHERE s.account_id = ANY ($1) AND d.day >= $2 AND d.day < $3 AND s.source <> 'orphan'
		GROUP BY 1, 2, 3 ORDER BY 1, 7 DESC, 2, 3`, raw(accounts), at.month, at.end())
	if err != nil {
		return nil, fmt.Errorf("read the usage of a month: %w", err)
	}
	var id [16]byte
	var model string
	var unit money.Unit
	var requests, charged, covered int64
	var tokens money.Tokens
	_, err = pgx.ForEachRow(rows, []any{&id, &model, &unit, &requests, &tokens.Prompt, &tokens.Completion, &charged,
		&covered}, func() error {
		m := monthOf(months, id, at.month)
		u := document.Used{Model: model}
		u.Add(unit, requests, tokens, nano(charged), nano(covered))
		m.Used = append(m.Used, u)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the usage of a month: %w", err)
	}
	rows, err = tx.Query(ctx, `SELECT l.account_id, count(*), sum(l.amount)::bigint FROM passbook_line l
		WHERE l.account_id = ANY ($1) AND l.kind <> 'usage' AND l.at >= $2 AND l.at < $3
			AND l.kind IN ('request_refund', 'goodwill_refund', 'broken_answer')
			AND NOT EXISTS (SELECT FROM document d WHERE d.entry_id = l.ref AND d.account_id = l.account_id)
		GROUP BY 1`, raw(accounts), at.month, at.end())
	if err != nil {
		return nil, fmt.Errorf("read the refunds of a month: %w", err)
	}
	var refunds, refunded int64
	_, err = pgx.ForEachRow(rows, []any{&id, &refunds, &refunded}, func() error {
		m := monthOf(months, id, at.month)
		m.Refunds, m.Refunded = refunds, nano(refunded)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the refunds of a month: %w", err)
	}
	return months, nil
}

// documentColumns are what scanDocument reads.
const documentColumns = `series, year, number, account_id, at, amount, entry_id, body`

func scanDocument(row pgx.CollectableRow) (document.Document, error) {
	var d document.Document
	var series string
	var account [16]byte
	var entry *[16]byte
	var body []byte
	if err := row.Scan(&series, &d.Year, &d.N, &account, &d.At, &d.Amount, &entry, &body); err != nil {
		return d, err
	}
	d.Series, d.Account, d.At = document.Series(series), account, d.At.UTC()
	if entry != nil {
		d.Entry = *entry
	}
	if err := json.Unmarshal(body, &d.Body); err != nil {
		return d, fmt.Errorf("decode a document: %w", err)
	}
	return d, nil
}

// Documents reads documents; see document.Store.
func (p Passbook) Documents(
	ctx context.Context, id ids.AccountID, of document.Series, w passbook.Walk,
) ([]document.Document, error) {
	at := passbook.Place{At: farDay}
	if w.Behind != nil {
		at = *w.Behind
	}
	rows, err := p.pool.Query(ctx, `SELECT `+documentColumns+` FROM document
		WHERE account_id = $1 AND series = $2 AND (at, number) < ($3, $4)
		ORDER BY at DESC, number DESC LIMIT $5`, [16]byte(id), string(of), at.At, at.N, w.Limit)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanDocument)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	return list, nil
}

// Document reads one document; see document.Store.
func (p Passbook) Document(
	ctx context.Context, id ids.AccountID, n document.Number,
) (document.Document, bool, error) {
	rows, err := p.pool.Query(ctx, `SELECT `+documentColumns+` FROM document
		WHERE series = $1 AND year = $2 AND number = $3 AND account_id = $4`,
		string(n.Series), n.Year, n.N, [16]byte(id))
	if err != nil {
		return document.Document{}, false, fmt.Errorf("read a document: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanDocument)
	if err != nil {
		return document.Document{}, false, fmt.Errorf("read a document: %w", err)
	}
	return append(list, document.Document{})[0], len(list) > 0, nil
}
