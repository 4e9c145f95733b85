package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Renew extends leases; see hold.Leases.
func (s *Store) Renew(ctx context.Context, all []hold.Renewal) (lapsed, unwritten []ids.RequestID, err error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b hold.Renewal) int {
		return strings.Compare(string(a.Request[:]),
			string(b.Request[:]))
	})
	n := len(all)
	var (
		request       = make([][16]byte, n)
		attempt       = make([]int32, n)
		hub           = make([]string, n)
		provider      = make([]*[16]byte, n)
		pinned        = make([]bool, n)
		tokens, bytes = make([]int64, n), make([]int64, n)
	)
	for i, r := range all {
		request[i], attempt[i], hub[i], tokens[i], bytes[i] = r.Request, r.CommittedAttempt, r.Hub, r.RelayedTokens,
			r.RelayedBytes
		pinned[i] = r.Pin != nil
		if !r.Provider.IsZero() {
			provider[i] = (*[16]byte)(&r.Provider)
		}
	}
	err = s.atOnce(ctx, func(batch *pgx.Batch) {
		batch.Queue(renewHolds, request, s.terms.Lease, s.terms.MaxHold)
		batch.Queue(upsertRenewals, request, attempt, hub, provider, tokens, bytes)
		lapsed, unwritten = nil, nil
		batch.Queue(selectLapsed, request, pinned).Query(func(rows pgx.Rows) error {
			var request [16]byte
			var known bool
			_, err := pgx.ForEachRow(rows, []any{&request, &known}, func() error {
				if known {
					lapsed = append(lapsed, request)
				} else {
					unwritten = append(unwritten, request)
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("extend holds and keep renewals: %w", err)
	}
	return lapsed, unwritten, nil
}

// selectLapsed runs after renewHolds: a hold that is not open then is closed for good. It also returns the
// requests with pins that have no hold.
const selectLapsed = `SELECT u.request_id, h.state IS NOT NULL
FROM unnest($1::uuid[], $2::boolean[]) AS u (request_id, pinned)
LEFT JOIN LATERAL (SELECT state FROM hold WHERE hold.request_id = u.request_id LIMIT 1) h ON true
WHERE h.state IN ('released', 'expired') OR h.state IS NULL AND u.pinned`

// renewHolds locks holds in the order of their ids, as every transaction does.
const renewHolds = `WITH locked AS (SELECT request_id FROM hold WHERE request_id = ANY ($1) AND state = 'open'
	ORDER BY request_id FOR UPDATE)
UPDATE hold h SET expires_at = greatest(h.expires_at, least(h.admitted_at + $3::interval, now() + $2::interval))
FROM locked l WHERE h.request_id = l.request_id`

// upsertRenewals keeps the largest count of the first committed attempt, because a batch
// may arrive twice, and after a newer one.
const upsertRenewals = `INSERT INTO renewal AS r (request_id, committed_attempt, hub_id, provider_id, relayed_tokens,
	relayed_bytes)
SELECT u.* FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[])
	AS u (request_id, committed_attempt, hub_id, provider_id, relayed_tokens, relayed_bytes)
WHERE EXISTS (SELECT FROM hold h WHERE h.request_id = u.request_id AND h.state = 'open')
ORDER BY u.request_id
ON CONFLICT (request_id) DO UPDATE SET renewed_at = now(),
	committed_attempt = excluded.committed_attempt, hub_id = excluded.hub_id, provider_id = excluded.provider_id,
	relayed_tokens = greatest(r.relayed_tokens, excluded.relayed_tokens),
	relayed_bytes = greatest(r.relayed_bytes, excluded.relayed_bytes)
WHERE r.committed_attempt IN (0, excluded.committed_attempt) AND excluded.committed_attempt > 0
	AND (r.committed_attempt = 0 OR (r.hub_id, r.provider_id) = (excluded.hub_id, excluded.provider_id))`
