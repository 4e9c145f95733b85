package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// voidsKept is how long void attempts are kept; the table enforces the same.
const voidsKept = 7 * 24 * time.Hour

// KeepVoids stores void attempts; see orphan.VoidStore. It holds the lock on the hold
// under which receipts are judged, so that of a receipt and a void the later one sees the
// earlier. Each stored attempt makes room for itself by deleting two that are too old, so
// the table holds no more than arrived within a week.
func (s *Store) KeepVoids(ctx context.Context, all []orphan.Void) (settled []orphan.Void, err error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b orphan.Void) int { return bytes.Compare(a.Request[:], b.Request[:]) }) // lock order
	n := len(all)
	requests, providers := make([][16]byte, n), make([][16]byte, n)
	attempts, hubs, at := make([]int32, n), make([]string, n), make([]time.Time, n)
	for i, v := range all {
		requests[i], attempts[i], hubs[i], providers[i], at[i] = v.Request, v.Attempt, v.Hub, v.Provider, v.Request.Day()
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		settled = nil
		batch := &pgx.Batch{}
		batch.Queue(`SELECT FROM hold WHERE request_id = ANY ($1) ORDER BY request_id FOR UPDATE`, requests)
		batch.Queue(`INSERT INTO void_attempt (request_id, attempt, hub_id, provider_id)
			SELECT u.* FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::uuid[]) AS u (request_id, attempt, hub_id,
				provider_id)
			JOIN LATERAL (SELECT FROM hold h WHERE h.request_id = u.request_id LIMIT 1) known ON true
			ON CONFLICT (request_id, attempt) DO NOTHING`, requests, attempts, hubs, providers)
		batch.Queue(
			`SELECT u.nth FROM unnest($1::date[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS u (day, request_id, attempt, nth)
			JOIN usage_settlement s ON s.day = u.day AND s.request_id = u.request_id AND s.attempt <= u.attempt
			WHERE s.evidence_source = 'receipt'`, at, requests, attempts).
			Query(func(rows pgx.Rows) error {
				var nth int64
				_, err := pgx.ForEachRow(rows, []any{&nth}, func() error {
					settled = append(settled, all[nth-1])
					return nil
				})
				return err
			})
		batch.Queue(`DELETE FROM void_attempt WHERE (request_id, attempt) IN (
			SELECT v.request_id, v.attempt FROM void_attempt v
			WHERE v.received_at <= now() - $1::interval
				AND NOT EXISTS (SELECT FROM hold h WHERE h.request_id = v.request_id AND h.state = 'open')
			ORDER BY v.received_at, v.request_id LIMIT $2)`, voidsKept, 2*n)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("lock holds and insert void attempts: %w", err)
		}
		return nil
	})
	return settled, err
}

// selectVoids reads the void attempts of requests, and the attempt of which a gateway's
// last report, or else its renewal, says that content was relayed.
const selectVoids = `SELECT v.request_id, max(v.attempt), coalesce(
		(SELECT CASE WHEN w.relayed_tokens > 0 AND w.relayed_bytes > 0 THEN w.committed_attempt ELSE 0 END
			FROM request_report w WHERE w.request_id = v.request_id),
		(SELECT CASE WHEN n.relayed_tokens > 0 AND n.relayed_bytes > 0 THEN n.committed_attempt ELSE 0 END
			FROM renewal n WHERE n.request_id = v.request_id), 0)
	FROM void_attempt v WHERE v.request_id = ANY ($1) GROUP BY v.request_id`

func scanVoids(rows pgx.Rows, into map[ids.RequestID]usage.Void) error {
	var request [16]byte
	var v usage.Void
	_, err := pgx.ForEachRow(rows, []any{&request, &v.Last, &v.Relayed}, func() error {
		into[request] = v
		return nil
	})
	return err
}
