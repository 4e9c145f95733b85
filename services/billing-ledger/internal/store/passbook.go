package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/passbook"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Standing reads where an account's credit stands, on one view of the data.
func (p Passbook) Standing(ctx context.Context, id ids.AccountID) (passbook.Standing, error) {
	var s passbook.Standing
	var owed, charged int64
	err := p.pool.QueryRow(ctx, `SELECT w.posted, `+heldByRequests+`, a.state = 'frozen', a.created_at, now(),
			(SELECT until_at FROM passbook_fold),
			coalesce((SELECT -sum(amount) FROM posting
				WHERE account_kind = 'a:consumer_receivable' AND owner_id = a.id AND asset = 'usd'), 0)::bigint,
			coalesce((SELECT sum(d.charged) FROM usage_series s CROSS JOIN LATERAL (SELECT charged FROM usage_day d
				WHERE d.series_id = s.id AND d.day >= (now() AT TIME ZONE 'UTC')::date - 6 OFFSET 0) d
				WHERE s.account_id = a.id), 0)::bigint
		FROM account a JOIN wallet w ON w.account_id = a.id WHERE a.id = $1`, [16]byte(id)).
		Scan(&s.Credit, &s.Held, &s.Frozen, &s.OpenedAt, &s.Now, &s.AsOf, &owed, &charged)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, account.ErrNotFound
	}
	if err != nil {
		return s, fmt.Errorf("read an account's standing: %w", err)
	}
	s.Owed, s.Charged = nano(owed), nano(charged)
	st, err := p.Store.Standing(ctx, id)
	if err != nil {
		return s, err
	}
	s.Freezes, s.Debts = st.Freezes, st.Debts
	return s, nil
}

// AsOf reads how far the fold is.
func (p Passbook) AsOf(ctx context.Context) (time.Time, error) {
	var at time.Time
	if err := p.pool.QueryRow(ctx, `SELECT until_at FROM passbook_fold`).Scan(&at); err != nil {
		return at, fmt.Errorf("read how far the fold is: %w", err)
	}
	return at.UTC(), nil
}

// FoldAge reads how far the fold is behind the database's time.
func (p Passbook) FoldAge(ctx context.Context) (time.Duration, error) {
	var age float64
	err := p.pool.QueryRow(ctx, `SELECT extract(epoch FROM now() - until_at)::float8 FROM passbook_fold`).Scan(&age)
	if err != nil {
		return 0, fmt.Errorf("read how far the fold is: %w", err)
	}
	return time.Duration(age * float64(time.Second)), nil
}

// walking is a condition on at ($2 to $3) and place ($4, $5), and an order, of a walk.
func walking(w passbook.Walk) (where, order string) {
	if w.OldestFirst {
		return `at >= $2 AND at < $3 AND (at, n) > ($4, $5)`, `ORDER BY at, n`
	}
	return `at >= $2 AND at < $3 AND (at, n) < ($4, $5)`, `ORDER BY at DESC, n DESC`
}

// behind returns the place of a walk within a period.
func behind(w passbook.Walk, of passbook.Period) passbook.Place {
	switch {
	case w.Behind != nil:
		return *w.Behind
	case w.OldestFirst:
		return passbook.Place{At: of.From}
	default:
		return passbook.Place{At: of.To}
	}
}

// Lines reads lines by the index that has no others of the kind.
func (p Passbook) Lines(
	ctx context.Context, id ids.AccountID, f passbook.Filter, w passbook.Walk,
) ([]passbook.Line, error) {
	where, order := walking(w)
	at := behind(w, f.Period)
	args := []any{[16]byte(id), f.From, f.To, at.At, at.N, w.Limit}
	switch f.Kind {
	case "":
		where += ` AND amount <> 0`
	case passbook.Usage:
		where += ` AND amount <> 0 AND kind = 'usage'`
	default:
		where += ` AND kind <> 'usage' AND kind = $7`
		args = append(args, string(f.Kind))
	}
	rows, err := p.pool.Query(ctx, `SELECT l.at, l.n, l.kind, l.ref, l.amount, l.balance, coalesce(e.business_id, ''),
			coalesce(s.model_id, '')
		FROM (SELECT * FROM passbook_line WHERE account_id = $1 AND `+where+` `+order+` LIMIT $6) l
		LEFT JOIN entry e ON l.kind <> 'usage' AND e.id = l.ref LEFT JOIN usage_series s ON s.id = l.series_id
		`+order, args...)
	if err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	lines := make([]passbook.Line, 0, w.Limit)
	var l passbook.Line
	var ref [16]byte
	var kind string
	_, err = pgx.ForEachRow(rows, []any{&l.At, &l.N, &kind, &ref, &l.Amount, &l.Balance, &l.BusinessID, &l.Model},
		func() error {
			l.Kind, l.Request, l.Entry, l.At = ledger.EntryKind(kind), ids.RequestID{}, ids.EntryID{}, l.At.UTC()
			if l.Kind == passbook.Usage {
				l.Request = ref
			} else {
				l.Entry = ref
			}
			lines = append(lines, l)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	return lines, nil
}

// groups are what sums are made by: the expression and, for keys, their names.
var groups = map[passbook.Group]struct{ of, name, order string }{
	passbook.ByKey: {"s.key_id::text", "coalesce((SELECT k.name FROM consumer_key k WHERE k.id = g.of::uuid), '')",
		"sum(charged) OVER (PARTITION BY of) DESC, of"},
	passbook.ByModel:    {"s.model_id", "''", "sum(charged) OVER (PARTITION BY of) DESC, of"},
	passbook.ByProvider: {"s.provider_id::text", "''", "sum(charged) OVER (PARTITION BY of) DESC, of"},
	passbook.ByDay:      {"d.day::text", "''", "of"},
}

// Sums reads sums of days; see passbook.Store. A group has a row for each unit. OFFSET 0 has
// the days looked up by series: without it the planner may read everybody's days of the time.
func (p Passbook) Sums(
	ctx context.Context, id ids.AccountID, f passbook.UsageFilter, by passbook.Group,
) (sums []passbook.Sum, total passbook.Counts, more bool, err error) {
	g := groups[by]
	rows, err := p.pool.Query(ctx, `SELECT of, `+g.name+`, unit, requests, prompt, completion, charged, covered
		FROM (SELECT `+g.of+` AS of, s.unit, sum(d.requests)::bigint AS requests, sum(d.prompt_tokens)::bigint AS prompt,
				sum(d.completion_tokens)::bigint AS completion, sum(d.charged)::bigint AS charged,
				sum(d.covered)::bigint AS covered
			FROM usage_series s CROSS JOIN LATERAL (SELECT * FROM usage_day d WHERE d.series_id = s.id
				AND d.day >= $2 AND d.day < $3 OFFSET 0) d
			WHERE s.account_id = $1 AND ($4::uuid IS NULL OR s.key_id = $4) AND ($5 = '' OR s.model_id = $5)
			GROUP BY 1, 2) g ORDER BY `+g.order, [16]byte(id), f.From, f.To, keyOf(f), f.Model)
	if err != nil {
		return nil, total, false, fmt.Errorf("read sums of usage: %w", err)
	}
	var of, name string
	var unit money.Unit
	var requests, charged, covered int64
	var tokens money.Tokens
	_, err = pgx.ForEachRow(rows, []any{&of, &name, &unit, &requests, &tokens.Prompt, &tokens.Completion, &charged,
		&covered}, func() error {
		total.Add(unit, requests, tokens, nano(charged), nano(covered))
		if n := len(sums); n == 0 || sums[n-1].Of != of {
			if n == passbook.MaxGroups {
				more = true
				return nil
			}
			sums = append(sums, passbook.Sum{Of: of, Name: name})
		}
		sums[len(sums)-1].Add(unit, requests, tokens, nano(charged), nano(covered))
		return nil
	})
	if err != nil {
		return nil, total, false, fmt.Errorf("read sums of usage: %w", err)
	}
	return sums, total, more, nil
}

func keyOf(f passbook.UsageFilter) *[16]byte {
	if f.Key.IsZero() {
		return nil
	}
	return (*[16]byte)(&f.Key)
}

// Served reads requests; see passbook.Store. Where key or model choose, it looks at the days
// alone that have some, which the sums say: no request is passed over but those of other keys
// and models on such days.
func (p Passbook) Served(
	ctx context.Context, id ids.AccountID, f passbook.UsageFilter, w passbook.Walk,
) ([]passbook.Served, error) {
	at := behind(w, f.Period)
	if f.All() {
		return p.served(ctx, id, f.Period, w, at, nil)
	}
	series, err := p.seriesOf(ctx, id, f)
	if err != nil || len(series) == 0 {
		return nil, err
	}
	days, err := p.daysOf(ctx, series, f.Period, w, at)
	if err != nil {
		return nil, err
	}
	var found []passbook.Served
	for _, d := range days {
		of := passbook.Period{From: later(d, f.From), To: earlier(d.AddDate(0, 0, 1), f.To)}
		rest := passbook.Walk{OldestFirst: w.OldestFirst, Limit: w.Limit - len(found)}
		part, err := p.served(ctx, id, of, rest, at, series)
		if err != nil {
			return nil, err
		}
		if found = append(found, part...); len(found) == w.Limit {
			break
		}
	}
	return found, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// seriesOf reads the series of an account that a filter chooses.
func (p Passbook) seriesOf(ctx context.Context, id ids.AccountID, f passbook.UsageFilter) ([]int64, error) {
	rows, err := p.pool.Query(ctx, `SELECT id FROM usage_series WHERE account_id = $1
		AND ($2::uuid IS NULL OR key_id = $2) AND ($3 = '' OR model_id = $3)`, [16]byte(id), keyOf(f), f.Model)
	if err != nil {
		return nil, fmt.Errorf("find series of usage: %w", err)
	}
	series, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("find series of usage: %w", err)
	}
	return series, nil
}

// daysOf reads the days of series from a place on, in the order of a walk.
func (p Passbook) daysOf(
	ctx context.Context, series []int64, of passbook.Period, w passbook.Walk, at passbook.Place,
) ([]time.Time, error) {
	from, to, order := of.From, earlier(of.To, at.At.Add(time.Microsecond)), "DESC"
	if w.OldestFirst {
		from, to, order = later(of.From, at.At), of.To, "ASC"
	}
	rows, err := p.pool.Query(ctx, `SELECT DISTINCT day FROM usage_day WHERE series_id = ANY ($1)
		AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date AND day < $3::timestamptz AT TIME ZONE 'UTC'
		ORDER BY day `+order, series, from, to)
	if err != nil {
		return nil, fmt.Errorf("find days of usage: %w", err)
	}
	days, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return nil, fmt.Errorf("find days of usage: %w", err)
	}
	return days, nil
}

func (p Passbook) served(
	ctx context.Context, id ids.AccountID, of passbook.Period, w passbook.Walk, at passbook.Place, series []int64,
) ([]passbook.Served, error) {
	where, order := walking(w)
	args := []any{[16]byte(id), of.From, of.To, at.At, at.N, w.Limit}
	if series != nil {
		where += ` AND series_id = ANY ($7)`
		args = append(args, series)
	}
	rows, err := p.pool.Query(ctx, `SELECT l.at, l.n, l.ref, -l.amount, l.prompt_tokens, l.completion_tokens,
			CASE s.source WHEN 'plan' THEN l.list_price ELSE 0 END, s.key_id, coalesce(k.name, ''), s.model_id, s.provider_id,
			s.source, s.unit
		FROM (SELECT * FROM passbook_line WHERE account_id = $1 AND kind = 'usage' AND `+where+` `+order+` LIMIT $6) l
		JOIN usage_series s ON s.id = l.series_id LEFT JOIN consumer_key k ON k.id = s.key_id `+order, args...)
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	list := make([]passbook.Served, 0, w.Limit)
	var (
		place                  passbook.Place
		request, key, provider [16]byte
		charged, covered       int64
		tokens                 money.Tokens
		name, model, source    string
		unit                   money.Unit
	)
	_, err = pgx.ForEachRow(rows, []any{&place.At, &place.N, &request, &charged, &tokens.Prompt, &tokens.Completion,
		&covered, &key, &name, &model, &provider, &source, &unit}, func() error {
		r := passbook.Served{Place: passbook.Place{At: place.At.UTC(), N: place.N}, Request: request, Key: key, KeyName: name,
			Model: model, Provider: provider, Source: usage.Source(source)}
		r.Add(unit, 1, tokens, nano(charged), nano(covered))
		list = append(list, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	return list, nil
}
