package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// OpenReviews takes open holds that are over and have evidence; see orphan.Store. Only
// the hold is locked, because later reports and renewals can only add to the evidence.
func (s *Store) OpenReviews(ctx context.Context, limit int) (cases []orphan.Case, failed int, err error) {
	// In a transaction of its own, because a transaction that has changed holds may not
	// wait.
	if err := s.awaitHubs(ctx, limit); err != nil {
		return nil, 0, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		cases, failed = nil, 0
		if failed, err = failReviews(ctx, tx, limit); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, selectCases, limit-failed, orphan.MaxPublications, s.terms.Orphan)
		if err != nil {
			return fmt.Errorf("find holds to review: %w", err)
		}
		if cases, err = pgx.CollectRows(rows, scanCase); err != nil {
			return fmt.Errorf("find holds to review: %w", err)
		}
		batch := &pgx.Batch{}
		for _, c := range cases {
			gap := orphan.Gap(c.Publication)
			batch.Queue(`INSERT INTO orphan_review AS v (request_id, publications, next_at) VALUES ($1, 1, now() + $2::interval)
				ON CONFLICT (request_id) DO UPDATE SET publications = v.publications + 1, next_at = excluded.next_at`,
				[16]byte(c.Request), gap)
			batch.Queue(`UPDATE hold SET expires_at = now() + $2::interval WHERE request_id = $1`, [16]byte(c.Request), gap)
		}
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("count publications: %w", err)
		}
		return nil
	})
	return cases, failed, err
}

// awaitHubs gives the hubs of requests of which something was served their time, from the
// gateway's last report or renewal on, before anything is reviewed.
func (s *Store) awaitHubs(ctx context.Context, limit int) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `WITH fresh AS (
			SELECT h.request_id, e.reported_at FROM hold h
				CROSS JOIN LATERAL (SELECT * FROM evidence o WHERE o.request_id = h.request_id LIMIT 1) e
			WHERE h.state = 'open' AND h.expires_at <= now() AND e.reported_at > now() - $2::interval
			ORDER BY h.expires_at LIMIT $1 FOR UPDATE OF h SKIP LOCKED)
		UPDATE hold h SET expires_at = f.reported_at + $2::interval FROM fresh f WHERE h.request_id = f.request_id`,
			limit, s.terms.Orphan)
		if err != nil {
			return fmt.Errorf("extend holds that await usage: %w", err)
		}
		return nil
	})
}

// failReviews closes the holds that no publication has settled.
func failReviews(ctx context.Context, tx pgx.Tx, limit int) (int, error) {
	rows, err := tx.Query(ctx, `SELECT `+holdMoves+` FROM hold h JOIN orphan_review v USING (request_id)
		WHERE h.state = 'open' AND h.expires_at <= now() AND v.publications >= $2
		ORDER BY h.expires_at LIMIT $1 FOR UPDATE OF h SKIP LOCKED`, limit, orphan.MaxPublications)
	if err != nil {
		return 0, fmt.Errorf("find failed reviews: %w", err)
	}
	return giveBack(ctx, tx, rows, hold.ReviewFailed)
}

const selectCases = caseColumns + `
WHERE h.state = 'open' AND h.expires_at <= now() AND e.reported_at <= now() - $3::interval
	AND NOT EXISTS (SELECT FROM orphan_review v WHERE v.request_id = h.request_id AND v.publications >= $2)
ORDER BY h.expires_at LIMIT $1 FOR UPDATE OF h SKIP LOCKED`

const caseColumns = `SELECT h.request_id, h.model_id, h.price_version_id, h.unit, h.input_rate, h.output_rate,
	h.payout_input_rate, h.payout_output_rate, ` + cachedRate + `, h.prompt_tokens, h.max_completion_tokens, h.pinned,
	e.committed_attempt, e.hub_id, e.provider_id, e.relayed_tokens, e.relayed_bytes, e.metered_prompt,
	e.metered_completion, e.route_mode, e.requested_provider, e.fallback_reason, e.first_content_ms, e.reported_at,
	e.source, e.epoch, e.work_receipt_tokens, e.work_receipt_bytes,
	` + servedByVendor + `,
	coalesce((SELECT v.publications FROM orphan_review v WHERE v.request_id = h.request_id), 0) + 1
FROM hold h CROSS JOIN LATERAL (SELECT * FROM evidence o WHERE o.request_id = h.request_id LIMIT 1) e`

func scanCase(row pgx.CollectableRow) (orphan.Case, error) {
	var (
		c                         orphan.Case
		request, price, provider  [16]byte
		meteredPrompt, meteredOut *int64
		sentTokens, sentBytes     *int64
	)
	err := row.Scan(&request, &c.Model, &price, &c.Rates.Unit, &c.Rates.Input, &c.Rates.Output, &c.Rates.PayoutInput,
		&c.Rates.PayoutOutput, &c.Rates.PayoutCachedInput, &c.Bound.Prompt, &c.Bound.Completion, &c.Pinned,
		&c.Attempt, &c.Hub, &provider, &c.RelayedTokens, &c.RelayedBytes, &meteredPrompt, &meteredOut,
		&c.RouteMode, &c.RequestedProvider, &c.FallbackReason, &c.FirstContentMS, &c.ToldAt,
		&c.EvidenceSource, &c.Epoch, &sentTokens, &sentBytes, &c.Vendor, &c.Publication)
	c.Request, c.Price, c.Provider = request, price, provider
	if meteredPrompt != nil && meteredOut != nil {
		c.Metered = &money.Tokens{Prompt: *meteredPrompt, Completion: *meteredOut}
	}
	if sentTokens != nil && sentBytes != nil {
		c.WorkReceipt = &usage.Relayed{Tokens: *sentTokens, Bytes: *sentBytes}
	}
	return c, err
}

// SettledReviews takes reviewed requests that are settled and due again; see
// orphan.Store. A request whose hold is closed without a line or a receipt is due no
// more.
func (s *Store) SettledReviews(ctx context.Context, limit int) ([]orphan.Publication, error) {
	var out []orphan.Publication
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		out = nil
		rows, err := tx.Query(ctx,
			`SELECT v.request_id, v.publications + 1 FROM orphan_review v JOIN hold h USING (request_id)
			WHERE v.next_at <= now() AND h.state <> 'open' ORDER BY v.next_at LIMIT $1 FOR UPDATE OF v SKIP LOCKED`, limit)
		if err != nil {
			return fmt.Errorf("find settled reviews: %w", err)
		}
		number := map[ids.RequestID]int{}
		var requests []ids.RequestID
		var request [16]byte
		var n int
		if _, err := pgx.ForEachRow(rows, []any{&request, &n}, func() error {
			number[request] = n
			requests = append(requests, request)
			return nil
		}); err != nil {
			return fmt.Errorf("find settled reviews: %w", err)
		}
		events, err := readEvents(ctx, tx, requests)
		if err != nil {
			return err
		}
		if err := addLate(ctx, tx, requests, events); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		for _, r := range requests {
			n := number[r]
			e, due := events[r]
			if !due || n > orphan.MaxPublications {
				batch.Queue(`UPDATE orphan_review SET next_at = NULL WHERE request_id = $1`, [16]byte(r))
				continue
			}
			out = append(out, orphan.Publication{Event: e, Number: n})
			batch.Queue(
				`UPDATE orphan_review SET publications = $2::integer,
				next_at = CASE WHEN $2::integer < $3::integer THEN now() + $4::interval END
				WHERE request_id = $1`, [16]byte(r), n, orphan.MaxPublications, orphan.Gap(n))
		}
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("count publications: %w", err)
		}
		return nil
	})
	return out, err
}

// readEvents reads settled requests as the events that settled them.
func readEvents(ctx context.Context, tx pgx.Tx, requests []ids.RequestID) (map[ids.RequestID]usage.Event, error) {
	rows, err := tx.Query(ctx,
		`SELECT s.request_id, s.attempt, s.hub_id, s.provider_id, s.epoch, s.model_id, s.price_version_id,
			s.unit, s.input_rate, s.output_rate, s.payout_input_rate, s.payout_output_rate, s.ending, s.prompt_tokens,
			s.completion_tokens, s.claim_state, s.claimed_prompt, s.claimed_completion, s.recounted_completion,
			s.delivered_bytes, s.estimated_prompt, s.route_mode, s.requested_provider, s.fallback_reason, s.dispatched_at,
			s.ended_at,
				s.first_content_ms, s.evidence_source, coalesce(s.connection_mode, 1), s.vendor, s.cached_tokens, s.cached_rate
		FROM unnest($1::date[], $2::uuid[]) AS u (day, request_id)
		JOIN usage_settlement s ON s.day = u.day AND s.request_id = u.request_id`, days(requests), raw(requests))
	if err != nil {
		return nil, fmt.Errorf("read settled requests: %w", err)
	}
	events := map[ids.RequestID]usage.Event{}
	all, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("read settled requests: %w", err)
	}
	for _, e := range all {
		events[e.Request] = e
	}
	return events, nil
}

func scanEvent(row pgx.CollectableRow) (usage.Event, error) {
	var (
		e                        usage.Event
		request, provider, price [16]byte
		dispatched, ended        *time.Time
	)
	err := row.Scan(&request, &e.Attempt, &e.Hub, &provider, &e.Epoch, &e.Model, &price,
		&e.Rates.Unit, &e.Rates.Input, &e.Rates.Output, &e.Rates.PayoutInput, &e.Rates.PayoutOutput, &e.Ending,
		&e.Billable.Prompt, &e.Billable.Completion,
		&e.ClaimState, &e.Claimed.Prompt, &e.Claimed.Completion, &e.RecountedCompletion, &e.DeliveredBytes,
		&e.EstimatedPrompt,
		&e.RouteMode, &e.RequestedProvider, &e.FallbackReason, &dispatched, &ended, &e.FirstContentMS, &e.EvidenceSource,
		&e.Mode, &e.Vendor, &e.CachedPrompt, &e.Rates.PayoutCachedInput)
	e.Request, e.Provider, e.Price, e.Settled = request, provider, price, true
	if dispatched != nil {
		e.DispatchedAt = dispatched.UTC()
	}
	if ended != nil {
		e.EndedAt = ended.UTC()
	}
	return e, err
}
