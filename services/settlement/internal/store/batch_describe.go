package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/batch"
)

const (
	lineColumnsSQL = `line, kind, at, request_id, entry_id, account, month, amount, entry_kind, business_id`
	daySums        = `SELECT provider_id, kind, entry_kind, account, month, count(*), sum(amount)::bigint FROM batch_line
		WHERE day = $1 GROUP BY provider_id, kind, entry_kind, account, month
		ORDER BY provider_id, kind, entry_kind, account, month`
	// Accounts have no order of their own in a standing.
	dayEnds = `SELECT a.provider_id, a.account, a.month,
		batch_balance_at(a.provider_id, a.account, a.month, $1::date - 1),
		batch_balance_at(a.provider_id, a.account, a.month, $1) FROM batch_account a ORDER BY a.provider_id`
	dayLines = `SELECT provider_id, ` + lineColumnsSQL + ` FROM batch_line WHERE day = $1 ORDER BY provider_id, line`
)

// describe fills in the digests, standings and sums of participants, who are in the order of their ids. Each list is
// read once, in the same order, so that no more than a row of it is in memory.
func describe(ctx context.Context, tx pgx.Tx, day time.Time, list []batch.Participant) error {
	if err := digest(ctx, tx, day, list); err != nil {
		return err
	}
	at := finder{list: list}
	rows, err := tx.Query(ctx, daySums, day)
	if err != nil {
		return fmt.Errorf("sum the lines of a day: %w", err)
	}
	var provider ids.ProviderID
	var sum batch.Sum
	var kind string
	_, err = pgx.ForEachRow(rows, []any{&provider, &kind, &sum.EntryKind, &sum.Account, &sum.Month, &sum.Lines,
		&sum.Amount}, func() error {
		sum.Kind = batch.Kind(kind)
		if p := at.find(provider); p != nil {
			p.Sums = append(p.Sums, sum)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sum the lines of a day: %w", err)
	}
	return dayBalances(ctx, tx, day, list)
}

func dayBalances(ctx context.Context, tx pgx.Tx, day time.Time, list []batch.Participant) error {
	at := finder{list: list}
	rows, err := tx.Query(ctx, dayEnds, day)
	if err != nil {
		return fmt.Errorf("read where earnings stand: %w", err)
	}
	var provider ids.ProviderID
	var account, month string
	var opening, closing money.NanoUSD
	_, err = pgx.ForEachRow(rows, []any{&provider, &account, &month, &opening, &closing}, func() error {
		if p := at.find(provider); p != nil {
			p.Opening.Add(account, month, opening)
			p.Closing.Add(account, month, closing)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read where earnings stand: %w", err)
	}
	for i := range list {
		list[i].Opening.Trim()
		list[i].Closing.Trim()
	}
	return nil
}

// digest computes the SHA-256 of each participant's CSV.
func digest(ctx context.Context, tx pgx.Tx, day time.Time, list []batch.Participant) error {
	at := finder{list: list}
	rows, err := tx.Query(ctx, dayLines, day)
	if err != nil {
		return fmt.Errorf("read the lines of a day: %w", err)
	}
	defer rows.Close()
	var of *batch.Participant
	var sum *batch.Digest
	for rows.Next() {
		l, err := scanLine(rows)
		if err != nil {
			return fmt.Errorf("read the lines of a day: %w", err)
		}
		p := at.find(l.Provider)
		if p == nil {
			return fmt.Errorf("provider %s has lines and is no participant", l.Provider)
		}
		if p != of {
			if of != nil {
				of.CSV = sum.Sum()
			}
			of, sum = p, batch.NewDigest()
		}
		sum.Add(&l.Change)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the lines of a day: %w", err)
	}
	if of != nil {
		of.CSV = sum.Sum()
	}
	return nil
}

// scanLine reads a provider's id and lineColumnsSQL.
func scanLine(row pgx.CollectableRow) (l batch.Line, err error) {
	var kind string
	var provider [16]byte
	var request, entry *[16]byte
	err = row.Scan(&provider, &l.Number, &kind, &l.At, &request, &entry, &l.Account, &l.Month, &l.Amount, &l.EntryKind,
		&l.BusinessID)
	l.Provider, l.Kind = provider, batch.Kind(kind)
	if request != nil {
		l.Request = *request
	}
	if entry != nil {
		l.Entry = *entry
	}
	return l, err
}

// finder finds participants by ids that come in order.
type finder struct {
	list []batch.Participant
	next int
}

// find returns the participant of an id that is not below the one before, or nil.
func (f *finder) find(id ids.ProviderID) *batch.Participant {
	for f.next < len(f.list) && bytes.Compare(f.list[f.next].Provider[:], id[:]) < 0 {
		f.next++
	}
	if f.next < len(f.list) && f.list[f.next].Provider == id {
		return &f.list[f.next]
	}
	return nil
}
