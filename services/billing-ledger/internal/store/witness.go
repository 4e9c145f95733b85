package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Conclude records witnesses and releases; see hold.Witnesses. Nearly all
// witnesses tell of something served, and take one round trip.
func (s *Store) Conclude(ctx context.Context, all []hold.Witness) (released int, err error) {
	// In one order, for the locks.
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b hold.Witness) int { return bytes.Compare(a.Request[:], b.Request[:]) })
	args, err := witnessArgs(all)
	if err != nil {
		return 0, err
	}
	var unserved []ids.RequestID
	for _, w := range all {
		if w.CommittedAttempt == 0 {
			unserved = append(unserved, w.Request)
		}
	}
	crash.At("billing.conclude.before_commit")
	if len(unserved) == 0 {
		err = s.atOnce(ctx, func(batch *pgx.Batch) { batch.Queue(insertWitnesses, args...) })
	} else {
		released, err = s.release(ctx, args, unserved)
	}
	if err != nil {
		return 0, fmt.Errorf("keep witnesses: %w", err)
	}
	crash.At("billing.conclude.committed")
	return released, nil
}

// release inserts witnesses and closes the holds of those requests that nobody
// had told of before.
func (s *Store) release(ctx context.Context, args []any, unserved []ids.RequestID) (released int, err error) {
	err = s.pipelined(ctx, func(conn *pgx.Conn) error {
		first := make(map[ids.RequestID]bool, len(unserved))
		var back returns
		batch := &pgx.Batch{}
		begin(batch)
		batch.Queue(insertWitnesses, args...).Query(func(rows pgx.Rows) error {
			var request [16]byte
			_, err := pgx.ForEachRow(rows, []any{&request}, func() error {
				first[request] = true
				return nil
			})
			return err
		})
		batch.Queue(`SELECT request_id, account_id, key_id, amount FROM hold
			WHERE request_id = ANY ($1) AND state = 'open' ORDER BY request_id FOR UPDATE`, raw(unserved)).
			Query(func(rows pgx.Rows) error { return back.scan(rows, first) })
		if err := sendAll(ctx, conn, batch); err != nil {
			return fmt.Errorf("lock holds: %w", err)
		}
		released = len(back.closed)
		batch = &pgx.Batch{}
		back.queue(batch, hold.NothingServed)
		commit(batch)
		if err := sendAll(ctx, conn, batch); err != nil {
			return fmt.Errorf("close holds on %s: %w", hold.NothingServed, err)
		}
		return nil
	})
	return released, err
}

// insertWitnesses keeps the first word on each known request and returns the
// requests that it says, now, were not served. The holds of the others are left
// alone: nearly all are settled before their lease ends, and OpenReviews gives
// the rest their time.
const insertWitnesses = `WITH told AS (
	INSERT INTO witness (request_id, outcome, committed_attempt, relayed_tokens, relayed_bytes, http_status, error_code,
		route_mode, requested_provider, fallback_reason, stream, attempts, received_at, first_content_ms, total_ms,
		hub_id, provider_id, metered_prompt, metered_completion)
	SELECT u.* FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[], $7::text[],
		$8::text[], $9::text[], $10::text[], $11::boolean[], $12::jsonb[], $13::timestamptz[], $14::bigint[], $15::bigint[],
		$16::text[], $17::uuid[], $18::bigint[], $19::bigint[])
		AS u (request_id, outcome, committed_attempt, relayed_tokens, relayed_bytes, http_status, error_code,
		route_mode, requested_provider, fallback_reason, stream, attempts, received_at, first_content_ms, total_ms,
		hub_id, provider_id, metered_prompt, metered_completion)
	JOIN LATERAL (SELECT FROM hold h WHERE h.request_id = u.request_id LIMIT 1) known ON true
	ORDER BY u.request_id
	ON CONFLICT (request_id) DO NOTHING
	RETURNING request_id, committed_attempt)
SELECT request_id FROM told WHERE committed_attempt = 0`

func witnessArgs(all []hold.Witness) ([]any, error) {
	n := len(all)
	var (
		request                              = make([][16]byte, n)
		outcome, errorCode, mode             = make([]string, n), make([]string, n), make([]string, n)
		requested, fallback, attempts        = make([]string, n), make([]string, n), make([]string, n)
		committed, status                    = make([]int32, n), make([]int32, n)
		tokens, bytes, firstContent, totalMS = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		stream                               = make([]bool, n)
		received                             = make([]*time.Time, n)
		hubs                                 = make([]string, n)
		providers                            = make([]*[16]byte, n)
		meteredPrompt, meteredCompletion     = make([]*int64, n), make([]*int64, n)
	)
	for i, w := range all {
		text, err := json.Marshal(w.Attempts)
		if err != nil {
			return nil, fmt.Errorf("encode attempts: %w", err)
		}
		request[i], outcome[i], errorCode[i], mode[i] = w.Request, w.Outcome, w.ErrorCode, w.RouteMode
		requested[i], fallback[i], attempts[i] = w.RequestedProvider, w.FallbackReason, string(text)
		committed[i], status[i] = w.CommittedAttempt, w.HTTPStatus
		tokens[i], bytes[i], firstContent[i], totalMS[i] = w.RelayedTokens, w.RelayedBytes, w.FirstContentMS, w.TotalMS
		stream[i], received[i] = w.Stream, nullTime(w.ReceivedAt)
		hub, provider := w.Committed()
		if !provider.IsZero() {
			hubs[i], providers[i] = hub, (*[16]byte)(&provider)
		}
		if w.Metered != nil {
			meteredPrompt[i], meteredCompletion[i] = &w.Metered.Prompt, &w.Metered.Completion
		}
	}
	return []any{
		request, outcome, committed, tokens, bytes, status, errorCode, mode, requested, fallback,
		stream, attempts, received, firstContent, totalMS, hubs, providers, meteredPrompt, meteredCompletion,
	}, nil
}
