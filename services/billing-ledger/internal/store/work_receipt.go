package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// KeepWorkReceipts stores the providers' signed receipts; see orphan.WorkReceiptStore.
// The lock on the hold guards the receipts of its request, so what is read under it
// stands until the end of the transaction.
func (s *Store) KeepWorkReceipts(
	ctx context.Context, all []orphan.WorkReceipt, judge func(orphan.WorkReceipt, *orphan.Request) orphan.Verdict,
) error {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b orphan.WorkReceipt) int { return bytes.Compare(a.Request[:], b.Request[:]) })
	return s.inTx(ctx, func(tx pgx.Tx) error {
		known, err := lockRequests(ctx, tx, all)
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		for _, r := range all {
			q := known[r.Request]
			if v := judge(r, q); v.Outcome != orphan.Stored || q.Has(r) {
				continue
			}
			q.Kept[int32(r.Attempt)] = r.Signature
			queueWorkReceipt(batch, r)
			if q.State != hold.Open {
				// The hub may come back, and has the first word.
				batch.Queue(`INSERT INTO orphan_review (request_id, publications, next_at) VALUES ($1, 1, now() + $2::interval)
					ON CONFLICT (request_id) DO UPDATE SET next_at = greatest(orphan_review.next_at, now() + $2::interval)`,
					[16]byte(r.Request), s.terms.Orphan)
			}
		}
		crash.At("billing.receipt.before_commit")
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("insert receipts: %w", err)
		}
		return nil
	})
}

// lockRequests locks the holds of receipts and reads what is known of them.
func lockRequests(ctx context.Context, tx pgx.Tx, all []orphan.WorkReceipt) (map[ids.RequestID]*orphan.Request, error) {
	requests := make([]ids.RequestID, 0, len(all))
	for _, r := range all {
		requests = append(requests, r.Request)
	}
	requests = slices.Compact(requests) // they are in order
	known := make(map[ids.RequestID]*orphan.Request, len(requests))
	batch := &pgx.Batch{}
	batch.Queue(
		`SELECT request_id, model_id, price_version_id, unit, state, coalesce(closed_at < now() - $2::interval, false)
		FROM hold WHERE request_id = ANY ($1) ORDER BY request_id FOR UPDATE`, raw(requests), orphan.MaxLate).
		Query(func(rows pgx.Rows) error { return scanRequests(rows, known) })
	batch.Queue(`SELECT request_id, attempt, signature FROM work_receipt WHERE request_id = ANY ($1)`, raw(requests)).
		Query(func(rows pgx.Rows) error { return scanKept(rows, known) })
	batch.Queue(`SELECT request_id, true, committed_attempt, provider_id, relayed_tokens, relayed_bytes
		FROM request_report WHERE request_id = ANY ($1)
		UNION ALL
		SELECT n.request_id, false, n.committed_attempt, n.provider_id, n.relayed_tokens, n.relayed_bytes FROM renewal n
		WHERE n.request_id = ANY ($1)
			AND NOT EXISTS (SELECT FROM request_report w WHERE w.request_id = n.request_id)`, raw(requests)).
		Query(func(rows pgx.Rows) error { return scanGatewayReports(rows, known) })
	batch.Queue(`SELECT request_id, max(attempt) FROM void_attempt WHERE request_id = ANY ($1) GROUP BY request_id`,
		raw(requests)).
		Query(func(rows pgx.Rows) error { return scanVoid(rows, known) })
	batch.Queue(`SELECT s.request_id, s.attempt, s.provider_id FROM unnest($1::date[], $2::uuid[]) AS u (day, request_id)
		JOIN usage_settlement s ON s.day = u.day AND s.request_id = u.request_id`, days(requests), raw(requests)).
		Query(func(rows pgx.Rows) error { return scanServed(rows, known) })
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, fmt.Errorf("lock holds and read what is known: %w", err)
	}
	return known, nil
}

func scanRequests(rows pgx.Rows, into map[ids.RequestID]*orphan.Request) error {
	var request, price [16]byte
	var model, state string
	var unit money.Unit
	var late bool
	_, err := pgx.ForEachRow(rows, []any{&request, &model, &price, &unit, &state, &late}, func() error {
		into[request] = &orphan.Request{
			Model: model, Price: price, Unit: unit, State: hold.State(state), Late: late,
			Kept: map[int32][ed25519.SignatureSize]byte{},
		}
		return nil
	})
	return err
}

func scanKept(rows pgx.Rows, into map[ids.RequestID]*orphan.Request) error {
	var request [16]byte
	var attempt int32
	var signature []byte
	_, err := pgx.ForEachRow(rows, []any{&request, &attempt, &signature}, func() error {
		if q := into[request]; q != nil {
			q.Kept[attempt] = [ed25519.SignatureSize]byte(signature)
		}
		return nil
	})
	return err
}

func scanGatewayReports(rows pgx.Rows, into map[ids.RequestID]*orphan.Request) error {
	var request [16]byte
	var provider *[16]byte
	var report orphan.GatewayReport
	_, err := pgx.ForEachRow(rows, []any{&request, &report.Last, &report.Attempt, &provider, &report.Tokens,
		&report.Bytes}, func() error {
		told := report
		if provider != nil {
			told.Provider = *provider
		}
		if q := into[request]; q != nil {
			q.Report = &told
		}
		return nil
	})
	return err
}

func scanVoid(rows pgx.Rows, into map[ids.RequestID]*orphan.Request) error {
	var request [16]byte
	var attempt int32
	_, err := pgx.ForEachRow(rows, []any{&request, &attempt}, func() error {
		if q := into[request]; q != nil {
			q.Void = attempt
		}
		return nil
	})
	return err
}

func scanServed(rows pgx.Rows, into map[ids.RequestID]*orphan.Request) error {
	var request, provider [16]byte
	var attempt int32
	_, err := pgx.ForEachRow(rows, []any{&request, &attempt, &provider}, func() error {
		if q := into[request]; q != nil {
			q.Settled = &orphan.Served{Attempt: attempt, Provider: provider}
		}
		return nil
	})
	return err
}

func queueWorkReceipt(batch *pgx.Batch, r orphan.WorkReceipt) {
	var prompt, completion *int64
	if r.Claimed {
		prompt, completion = &r.ClaimedPrompt, &r.ClaimedCompletion
	}
	batch.Queue(`INSERT INTO work_receipt (request_id, attempt, provider_id, epoch, hub_id, model_id,
		claimed_prompt, claimed_completion,
			sent_tokens, sent_bytes, complete, ended_at, proof, public_key, signature)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		[16]byte(r.Request), int32(r.Attempt), [16]byte(r.Provider), r.Epoch, r.Hub, r.Model, prompt, completion,
		r.SentTokens, r.SentBytes, r.Complete, r.EndedAt, r.Proof, []byte(r.Key), r.Signature[:])
}

// addLate adds the usage of requests that are not settled and whose hold was given back
// before a receipt arrived. A gateway's report alone is not enough for them.
func addLate(ctx context.Context, tx pgx.Tx, requests []ids.RequestID, events map[ids.RequestID]usage.Event) error {
	var open []ids.RequestID
	for _, r := range requests {
		if _, settled := events[r]; !settled {
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, caseColumns+`
		WHERE h.request_id = ANY ($1) AND h.state IN ('released', 'expired')
			AND e.work_receipt_tokens IS NOT NULL`, raw(open))
	if err != nil {
		return fmt.Errorf("read late receipts: %w", err)
	}
	cases, err := pgx.CollectRows(rows, scanCase)
	if err != nil {
		return fmt.Errorf("read late receipts: %w", err)
	}
	for _, c := range cases {
		events[c.Request] = c.Event()
	}
	return nil
}
