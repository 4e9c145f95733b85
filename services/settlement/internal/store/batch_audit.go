package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/merkle"
)

// committedShares counts shares, and committedDays days.
const (
	committedShares = `SELECT count(*) FROM batch_share`
	committedDays   = `SELECT count(*) FROM batch_day WHERE committed_at IS NOT NULL`
)

// freeByLines is what each provider earned and had free up to each day on which it has lines, from the lines alone.
const freeByLines = `
WITH delta AS (
	SELECT provider_id, day, sum(CASE
		WHEN kind = 'held' THEN -amount
		WHEN kind IN ('released', 'held_refunded', 'forfeited', 'held_reversed') THEN amount
		WHEN kind = 'entry' AND entry_kind = 'earnings_batch' THEN 0
		ELSE amount END)::bigint AS earned
	FROM batch_line WHERE account = 'l:provider:accrued' GROUP BY provider_id, day
), earned AS (
	SELECT provider_id, day, (sum(earned) OVER (PARTITION BY provider_id ORDER BY day))::bigint AS earned FROM delta
)`

// batchChecks are the invariants of batches and months.
func batchChecks() []check {
	return []check{
		bySQL("days follow each other, with the lines that were counted", `SELECT count(*) FROM batch_day`,
			`SELECT d.day::text FROM batch_day d
			LEFT JOIN (SELECT day, count(*) AS lines FROM batch_line GROUP BY day) l USING (day)
			WHERE coalesce(l.lines, 0) <> d.lines
				OR d.day > (SELECT min(day) FROM batch_day) AND NOT EXISTS (SELECT FROM batch_day p WHERE p.day = d.day - 1)`),
		bySQL("accounts moved as their lines say, unless their provider was blocked",
			`SELECT count(*) FROM batch_balance`,
			`SELECT b.day || ' ' || b.provider_id || ' ' || b.account || ' ' || b.month FROM batch_balance b
			LEFT JOIN (SELECT day, provider_id, account, month, sum(amount) AS amount FROM batch_line
				WHERE kind IN `+moves+` GROUP BY day, provider_id, account, month) l USING (day, provider_id, account, month)
			WHERE b.day IN (SELECT day FROM batch_day WHERE committed_at IS NOT NULL) AND b.account LIKE '_:%'
				AND (b.moved <> coalesce(l.amount, 0)
					OR b.balance <> b.moved + batch_balance_at(b.provider_id, b.account, b.month, b.day - 1))
				AND NOT EXISTS (SELECT FROM batch_block k WHERE k.day = b.day AND k.provider_id = b.provider_id)`),
		bySQL("what a share says was earned follows from all lines", committedShares, freeByLines+`
			SELECT s.day || ' ' || s.provider_id || ': ' || s.earned || ', want ' || coalesce(e.earned, 0)
			FROM batch_share s
			LEFT JOIN LATERAL (SELECT earned FROM earned e WHERE e.provider_id = s.provider_id AND e.day <= s.day
				ORDER BY e.day DESC LIMIT 1) e ON true
			WHERE s.earned <> coalesce(e.earned, 0)
				AND NOT EXISTS (SELECT FROM batch_block k WHERE k.provider_id = s.provider_id AND k.cause <> 'lines')`),
		bySQL("what a share says was given lies between what was posted and shared before", committedShares,
			`SELECT s.day || ' ' || s.provider_id || ': ' || s.given FROM (
				SELECT *, coalesce(sum(posted) OVER earlier, 0) AS posted_before, coalesce(sum(amount) OVER earlier, 0) AS shared
				FROM batch_share WINDOW earlier AS (PARTITION BY provider_id ORDER BY day
					ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) s
			WHERE s.given NOT BETWEEN s.posted_before AND s.shared`),
		bySQL("no provider was given more than it earned", `SELECT count(DISTINCT provider_id) FROM batch_share`,
			freeByLines+`SELECT s.provider_id || ': ' || s.posted || ' of ' || coalesce(e.earned, 0)
			FROM (SELECT provider_id, sum(posted) AS posted FROM batch_share GROUP BY provider_id) s
			LEFT JOIN (SELECT DISTINCT ON (provider_id) provider_id, earned FROM earned WHERE day <= (SELECT max(day)
				FROM batch_day WHERE committed_at IS NOT NULL) ORDER BY provider_id, day DESC) e USING (provider_id)
			WHERE s.posted > coalesce(e.earned, 0)
				AND NOT EXISTS (SELECT FROM batch_block k WHERE k.provider_id = s.provider_id AND k.cause <> 'lines')`),
		bySQL("the ledger's earnings batches are the posted shares", `SELECT count(*) FROM batch_line
				WHERE kind = 'entry' AND entry_kind = 'earnings_batch' AND account = 'l:provider:accrued'`,
			`SELECT 'ledger: ' || l.business_id FROM batch_line l
			LEFT JOIN batch_share s ON s.provider_id = l.provider_id
				AND l.business_id = to_char(s.day, 'YYYY-MM-DD') || '/' || s.provider_id || '/' || s.chain_id
			WHERE l.kind = 'entry' AND l.entry_kind = 'earnings_batch' AND l.account = 'l:provider:accrued'
				AND (s.posted IS DISTINCT FROM -l.amount OR s.entry_id IS DISTINCT FROM l.entry_id)
			UNION ALL
			SELECT 'share: ' || s.day || ' ' || s.provider_id FROM batch_share s
			WHERE s.posted > 0 AND (s.posted_at AT TIME ZONE 'UTC')::date < (SELECT max(day) FROM batch_day)
				AND NOT EXISTS (SELECT FROM batch_line l WHERE l.provider_id = s.provider_id AND l.entry_id = s.entry_id
					AND l.entry_kind = 'earnings_batch' AND l.account = 'l:provider:accrued')`),
		{"roots are those of their shares", auditRoots},
		{"statements say what their shares are, and are what is signed", auditStatements},
		{"the digest of a CSV is that of its lines", auditDigests},
		bySQL("a closed month is the sum of its shares and its lines", `SELECT count(*) FROM plan_month`,
			`SELECT m.month FROM plan_month m
			LEFT JOIN LATERAL (SELECT coalesce(sum(earned), 0) AS earned, coalesce(sum(paid), 0) AS paid, count(*) AS providers
				FROM plan_share s WHERE s.month = m.month) s ON true
			LEFT JOIN LATERAL (SELECT coalesce(sum(amount), 0) AS earned FROM batch_line l WHERE l.month = m.month
				AND l.month <> '' AND l.day <= m.through AND l.kind IN `+moves+`) l ON true
			WHERE (s.earned, s.paid, s.providers, l.earned) <> (m.earned, m.paid, m.providers, m.earned)
				OR m.paid <> least(m.pool, m.earned)`),
		bySQL("what was posted of closed months was earned late", `SELECT count(*) FROM plan_late`,
			`SELECT p.month || ' ' || p.day || ' ' || p.provider_id FROM plan_late p JOIN plan_month m USING (month)
			WHERE p.amount IS DISTINCT FROM (SELECT sum(CASE l.kind WHEN 'held' THEN -l.amount ELSE l.amount END)
				FROM batch_line l WHERE l.month = p.month AND l.month <> '' AND l.day = p.day AND l.provider_id = p.provider_id
					AND (l.kind IN ('plan', 'held') OR l.kind = 'released' AND `+heldLate+`)) OR p.day <= m.through`),
	}
}

// auditRoots computes the root of each batch again.
func auditRoots(ctx context.Context, tx pgx.Tx, found *audit.Invariant) error {
	rows, err := tx.Query(ctx, `SELECT b.day, b.chain_id, b.root, s.index, s.beneficiary, s.amount
		FROM batch b LEFT JOIN batch_share s USING (day, chain_id) ORDER BY b.day, b.chain_id, s.index`)
	if err != nil {
		return err
	}
	type key struct {
		day   time.Time
		chain int64
	}
	var at, last key
	var root, was, beneficiary []byte
	var index, amount *int64
	var leaves []merkle.Leaf
	judge := func() {
		if last == (key{}) {
			return
		}
		found.Checked++
		if got := merkle.New(leaves).Root(); got != merkle.Hash(was) {
			found.Found("%s on %d: 0x%x, want %s", last.day.Format(time.DateOnly), last.chain, was, got)
		}
	}
	_, err = pgx.ForEachRow(rows, []any{&at.day, &at.chain, &root, &index, &beneficiary, &amount}, func() error {
		if at != last {
			judge()
			last, was, leaves = at, append([]byte(nil), root...), leaves[:0]
		}
		if index != nil {
			if *index != int64(len(leaves)) {
				found.Found("%s on %d: index %d follows %d leaves", at.day.Format(time.DateOnly), at.chain, *index, len(leaves))
			}
			leaf := merkle.Leaf{Index: uint64(*index)}
			leaf.Beneficiary, leaf.Amount = merkle.Address(beneficiary), money.NanoUSD(*amount)
			leaves = append(leaves, leaf)
		}
		return nil
	})
	judge()
	return err
}

// stated are the members of a statement that its share has too.
type stated struct {
	Day      string   `json:"day"`
	Provider string   `json:"provider_id"`
	Chain    int64    `json:"chain_id,string"`
	Root     string   `json:"root"`
	CSV      string   `json:"csv_sha256"`
	Lines    int64    `json:"lines,string"`
	Proof    []string `json:"proof"`
	Leaf     struct {
		Index  uint64 `json:"index,string"`
		Amount int64  `json:"amount_nano_usd,string"`
		Hash   string `json:"hash"`
	} `json:"leaf"`
}

// auditStatements holds each statement against its share, its batch and its summary.
func auditStatements(ctx context.Context, tx pgx.Tx, found *audit.Invariant) error {
	rows, err := tx.Query(ctx, `SELECT s.day, s.chain_id, s.index, s.provider_id, s.beneficiary, s.amount, s.lines,
			encode(s.csv, 'hex'), s.summary, s.statement, b.root
		FROM batch_share s JOIN batch b USING (day, chain_id) ORDER BY s.day, s.chain_id, s.index`)
	if err != nil {
		return err
	}
	var day time.Time
	var provider ids.ProviderID
	var chainID, index, amount, lines int64
	var beneficiary, summary, text, root []byte
	var csv string
	_, err = pgx.ForEachRow(rows, []any{&day, &chainID, &index, &provider, &beneficiary, &amount, &lines, &csv, &summary,
		&text, &root}, func() error {
		found.Checked++
		leaf := merkle.Leaf{Index: uint64(index), Beneficiary: merkle.Address(beneficiary), Amount: money.NanoUSD(amount)}
		want := stated{Day: day.Format(time.DateOnly), Provider: provider.String(), Chain: chainID,
			Root: merkle.Hash(root).String(), CSV: csv, Lines: lines}
		want.Leaf.Index, want.Leaf.Amount, want.Leaf.Hash = leaf.Index, amount, leaf.Hash().String()
		if !says(text, want, leaf, merkle.Hash(root)) || batch.Summary(text) != [32]byte(summary) {
			found.Found("%s %s", day.Format(time.DateOnly), provider)
		}
		return nil
	})
	return err
}

// says reports whether a statement says what is wanted, with a proof of its leaf.
func says(text []byte, want stated, leaf merkle.Leaf, root merkle.Hash) bool {
	var got stated
	if err := json.Unmarshal(text, &got); err != nil {
		return false
	}
	proof := make([]merkle.Hash, len(got.Proof))
	for i, p := range got.Proof {
		h, err := chain.ParseHash(p)
		if err != nil {
			return false
		}
		proof[i] = merkle.Hash(h)
	}
	same := got.Day == want.Day && got.Provider == want.Provider && got.Chain == want.Chain && got.Root == want.Root &&
		got.CSV == want.CSV && got.Lines == want.Lines && got.Leaf == want.Leaf
	return same && merkle.Verify(root, leaf, proof)
}

// auditDigests computes the SHA-256 of each share's CSV again.
func auditDigests(ctx context.Context, tx pgx.Tx, found *audit.Invariant) error {
	rows, err := tx.Query(ctx, `SELECT s.day, s.csv, s.provider_id, coalesce(l.line, 0), coalesce(l.kind, ''),
			coalesce(l.at, 'epoch'), l.request_id, l.entry_id, coalesce(l.account, ''), coalesce(l.month, ''),
			coalesce(l.amount, 0), coalesce(l.entry_kind, ''), coalesce(l.business_id, '')
		FROM batch_share s LEFT JOIN batch_line l ON l.day = s.day AND l.provider_id = s.provider_id
		ORDER BY s.day, s.provider_id, l.line`)
	if err != nil {
		return err
	}
	defer rows.Close()
	a := &digestAudit{found: found}
	for rows.Next() {
		var day time.Time
		var csv []byte
		l, err := scanLine(headed{rows, []any{&day, &csv}})
		if err != nil {
			return err
		}
		a.add(day, csv, l)
	}
	a.judge()
	return rows.Err()
}

// headed is a row that begins with other columns.
type headed struct {
	pgx.CollectableRow
	first []any
}

// Scan reads the first columns too.
func (h headed) Scan(dest ...any) error { return h.CollectableRow.Scan(append(h.first, dest...)...) }

// digestAudit computes digests of CSVs whose lines come in order.
type digestAudit struct {
	found    *audit.Invariant
	day      time.Time
	provider ids.ProviderID
	csv      [32]byte
	sum      *batch.Digest
}

func (a *digestAudit) add(day time.Time, csv []byte, l batch.Line) {
	if a.sum == nil || !day.Equal(a.day) || l.Provider != a.provider {
		a.judge()
		a.day, a.provider, a.csv, a.sum = day, l.Provider, [32]byte(csv), batch.NewDigest()
	}
	if l.Number > 0 {
		a.sum.Add(&l.Change)
	}
}

func (a *digestAudit) judge() {
	if a.sum == nil {
		return
	}
	a.found.Checked++
	if a.sum.Sum() != a.csv {
		a.found.Found("%s %s", a.day.Format(time.DateOnly), a.provider)
	}
}
