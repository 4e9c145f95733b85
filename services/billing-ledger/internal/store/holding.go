package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// holdings are what the books have of each token: the last snapshot and what was recorded
// since. What the platform has is a debit, below zero. The last revaluation of each is
// beside it.
const holdings = `
	WITH open AS (
		SELECT coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity') AS since
	), parts AS (
		(SELECT DISTINCT ON (book, asset) book, asset, balance AS amount FROM balance_snapshot
		WHERE account_kind = 'a:crypto' AND owner_id = '00000000-0000-0000-0000-000000000000'
		ORDER BY book, asset, day DESC)
		UNION ALL
		SELECT p.book, p.asset, p.amount FROM entry e JOIN posting p ON p.entry_id = e.id
		WHERE e.at >= (SELECT since FROM open) AND p.account_kind = 'a:crypto'
	), held AS (
		SELECT book, -sum(amount) FILTER (WHERE asset = book) AS units, -sum(amount) FILTER (WHERE asset = 'usd') AS booked
		FROM parts GROUP BY book
	)
	SELECT a.id, coalesce(h.units, 0)::bigint, coalesce(h.booked, 0)::bigint, r.day, r.units, r.booked, r.worth,
		r.entry_id, e.quote_rate, e.quote_source, e.quote_at
	FROM asset a LEFT JOIN held h ON h.book = a.id
	LEFT JOIN LATERAL (SELECT * FROM revaluation v WHERE v.token = a.id ORDER BY v.day DESC LIMIT 1) r ON true
	LEFT JOIN entry e ON e.id = r.entry_id
	WHERE a.id <> 'usd' AND ($1 = '' OR a.id = $1) ORDER BY a.id`

var _ posting.HoldingStore = &Store{}

// Holdings reads what the books have of all tokens; see posting.HoldingStore.
func (s *Store) Holdings(ctx context.Context) ([]posting.Holding, error) {
	return readHoldings(ctx, s.pool, "")
}

// readHoldings reads what the books have of a token, or of all for the empty one.
func readHoldings(ctx context.Context, from reader, token ledger.Token) ([]posting.Holding, error) {
	rows, err := from.Query(ctx, holdings, string(token))
	if err != nil {
		return nil, fmt.Errorf("read holdings: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanHolding)
	if err != nil {
		return nil, fmt.Errorf("read holdings: %w", err)
	}
	return list, nil
}

func scanHolding(row pgx.CollectableRow) (posting.Holding, error) {
	var h posting.Holding
	var day, at *time.Time
	var units, booked, worth, rate *int64
	var entry *[16]byte
	var source *string
	err := row.Scan(&h.Token, &h.Units, &h.Booked, &day, &units, &booked, &worth, &entry, &rate, &source, &at)
	if err != nil || day == nil {
		return h, err
	}
	if rate == nil || source == nil || at == nil {
		return h, fmt.Errorf("the revaluation of %s on %s has no entry", h.Token, day.Format(time.DateOnly))
	}
	h.Last = &posting.Revaluation{Revalued: posting.Revalued{Day: *day, Units: ledger.Units(*units),
		Booked: nano(*booked), Quote: ledger.Quote{Token: h.Token, Rate: nano(*rate), Source: *source, At: at.UTC()}},
		Worth: nano(*worth), Entry: *entry}
	return h, nil
}

// Revalue posts the revaluation of a coin; see posting.Store. Whoever revalues the coin at
// once waits for the first, and then finds its entry.
func (s *Store) Revalue(
	ctx context.Context, r posting.Revalued, make func() (ledger.Entry, error),
) (posted ids.EntryID, err error) {
	token := r.Quote.Token
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('billing.revaluation'), hashtext($1))`,
			string(token)); err != nil {
			return nil, fmt.Errorf("lock a coin: %w", err)
		}
		var first [16]byte
		err := tx.QueryRow(ctx, `SELECT entry_id FROM revaluation WHERE day = $1 AND token = $2`, r.Day, string(token)).
			Scan(&first)
		if !errors.Is(err, pgx.ErrNoRows) {
			posted = first
			return nil, err
		}
		entry, err := makeRevaluation(ctx, tx, r, make)
		if err != nil {
			return nil, err
		}
		posted = entry.ID
		return post(ctx, tx, []ledger.Entry{entry}, nil)
	})
	if pg.IsCheck(err, "revaluation_of_its_day") {
		return ids.EntryID{}, posting.ErrOtherDay
	}
	return posted, err
}

// makeRevaluation makes the entry of a revaluation that the books agree with, and inserts
// its row.
func makeRevaluation(
	ctx context.Context, tx pgx.Tx, r posting.Revalued, make func() (ledger.Entry, error),
) (ledger.Entry, error) {
	entry, err := make()
	if err != nil {
		return entry, err
	}
	found, err := readHoldings(ctx, tx, r.Quote.Token)
	if err != nil {
		return entry, err
	}
	for _, h := range found {
		if err := r.Check(h); err != nil {
			return entry, err
		}
	}
	var change money.NanoUSD
	for _, p := range entry.Postings {
		if p.Account.Kind == ledger.Crypto {
			change -= p.Amount
		}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO revaluation (day, token, units, booked, worth, entry_id)
		VALUES ($1, $2, $3, $4, $5, $6)`, r.Day, string(r.Quote.Token), int64(r.Units), int64(r.Booked),
		int64(r.Booked+change), [16]byte(entry.ID)); err != nil {
		return entry, fmt.Errorf("insert a revaluation: %w", err)
	}
	return entry, nil
}
