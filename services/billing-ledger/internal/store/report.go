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
	"svc.internal/services/billing-ledger/internal/usage"
)

// Conclude records reports, frees the places of their requests and releases the holds of
// which nothing was served; see hold.ReportStore. A transaction that closes a hold looks
// for its report under the lock that is taken here after the report is written, so that
// each place is freed once.
func (s *Store) Conclude(
	ctx context.Context, all []hold.RequestReport,
) (released int, unwritten []ids.RequestID, err error) {
	// In one order, for the locks.
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b hold.RequestReport) int { return bytes.Compare(a.Request[:], b.Request[:]) })
	args, err := reportArgs(all)
	if err != nil {
		return 0, nil, err
	}
	requests := make([]ids.RequestID, len(all))
	for i, w := range all {
		requests[i] = w.Request
	}
	crash.At("billing.conclude.before_commit")
	err = s.pipelined(ctx, func(conn *pgx.Conn) error {
		told, holds, err := insertReports(ctx, conn, args, requests)
		if err != nil {
			return err
		}
		closed, moves := concluded(told, holds)
		released = len(closed)
		batch := &pgx.Batch{}
		queueWallets(batch, moves.Wallets)
		closeHolds(batch, closed, moves.Refunded, hold.NothingServed)
		move(batch, moves)
		leftAtOnce(batch, all, told, holds)
		unwritten = nil
		queueUnwritten(batch, all, told, &unwritten)
		commit(batch)
		if err := sendAll(ctx, conn, batch); err != nil {
			return fmt.Errorf("free places and release holds: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("keep reports: %w", err)
	}
	crash.At("billing.conclude.committed")
	return released, unwritten, nil
}

// queueUnwritten reads which requests with pins have no report now, although one was to be stored: their
// holds were not written then. Nearly always there is none to ask about. It does not ask for
// holds, because a hold that was written meanwhile would hide that its report is missing.
func queueUnwritten(
	batch *pgx.Batch, all []hold.RequestReport, told map[ids.RequestID]gatewayReport, into *[]ids.RequestID,
) {
	var doubtful []ids.RequestID
	for _, w := range all {
		if _, stored := told[w.Request]; w.Pin != nil && !stored {
			doubtful = append(doubtful, w.Request)
		}
	}
	if len(doubtful) == 0 {
		return
	}
	batch.Queue(`SELECT u.request_id FROM unnest($1::uuid[]) AS u (request_id)
		WHERE NOT EXISTS (SELECT FROM request_report w WHERE w.request_id = u.request_id)`, raw(doubtful)).
		Query(func(rows pgx.Rows) error { return scanUnwritten(rows, into) })
}

const selectUnwritten = `SELECT u.request_id FROM unnest($1::uuid[]) AS u (request_id)
	WHERE NOT EXISTS (SELECT FROM hold h WHERE h.request_id = u.request_id)`

func scanUnwritten(rows pgx.Rows, into *[]ids.RequestID) error {
	requests, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	for _, r := range requests {
		*into = append(*into, r)
	}
	return err
}

// Unwritten returns which of the requests have no hold.
func (s *Store) Unwritten(ctx context.Context, requests []ids.RequestID) (unwritten []ids.RequestID, err error) {
	rows, err := s.pool.Query(ctx, selectUnwritten, raw(requests))
	if err == nil {
		err = scanUnwritten(rows, &unwritten)
	}
	if err != nil {
		return nil, fmt.Errorf("select requests without holds: %w", err)
	}
	return unwritten, nil
}

// gatewayReport is what a report that was stored just now says of its request.
type gatewayReport struct {
	served   bool
	byCaller bool
}

// insertReports stores the first report of each known request and returns the reports
// that it stored. It locks the open holds among them.
func insertReports(
	ctx context.Context, conn *pgx.Conn, args []any, requests []ids.RequestID,
) (map[ids.RequestID]gatewayReport, map[ids.RequestID]usage.Hold, error) {
	told := make(map[ids.RequestID]gatewayReport, len(requests))
	var holds map[ids.RequestID]usage.Hold
	batch := &pgx.Batch{}
	begin(batch)
	batch.Queue(insertReport, args...).Query(func(rows pgx.Rows) error {
		var request [16]byte
		var w gatewayReport
		_, err := pgx.ForEachRow(rows, []any{&request, &w.served, &w.byCaller}, func() error {
			told[request] = w
			return nil
		})
		return err
	})
	batch.Queue(`SELECT `+holdMoves+
		` FROM hold h WHERE h.request_id = ANY ($1) AND h.state = 'open' ORDER BY h.request_id FOR UPDATE`, raw(requests)).
		Query(func(rows pgx.Rows) (err error) {
			holds, err = scanMoved(rows)
			return err
		})
	if err := sendAll(ctx, conn, batch); err != nil {
		return nil, nil, fmt.Errorf("insert reports and lock holds: %w", err)
	}
	return told, holds, nil
}

// concluded frees the places of the open holds that were just reported, and closes the
// holds of which nothing was served. The other holds stay open: nearly all of them are
// settled before their lease ends, and OpenReviews gives the rest their time.
func concluded(
	told map[ids.RequestID]gatewayReport, holds map[ids.RequestID]usage.Hold,
) (closed []ids.RequestID, moves usage.Moves) {
	moves = usage.NewMoves()
	for request, w := range told {
		h, open := holds[request]
		if !open {
			continue
		}
		moves.Leave(h)
		if !w.served {
			closed = append(closed, request)
			moves.Return(request, h, w.byCaller)
		}
	}
	return closed, moves
}

// leftAtOnce counts the requests that were just reported and that their clients left
// within the time in which that is free (hold.RequestReport.LeftAtOnce). Class 7 of
// account_rate allows limit.LeftAtOnce of them a minute; an account above that is refused
// for ten seconds. The account that pays for visitors is not counted, because one visitor
// would close the playground to all others.
func leftAtOnce(batch *pgx.Batch, all []hold.RequestReport, told map[ids.RequestID]gatewayReport,
	holds map[ids.RequestID]usage.Hold) {
	counts := map[ids.AccountID]int{}
	for _, w := range all {
		_, first := told[w.Request]
		if h, open := holds[w.Request]; first && open && w.LeftAtOnce() {
			counts[h.Account]++
		}
	}
	leave(batch, `INSERT INTO account_rate AS r (account_id, class, full_at)
		SELECT c.id, 7, CASE WHEN c.n < 30 THEN now() + c.n * interval '2 seconds' ELSE now() + interval '68 seconds' END
		FROM unnest($1::uuid[], $2::integer[]) AS c (id, n)
		WHERE NOT EXISTS (SELECT FROM playground_account p WHERE p.account_id = c.id) ORDER BY c.id
		ON CONFLICT (account_id, class) DO UPDATE SET full_at =
			CASE WHEN greatest(r.full_at, now()) + (excluded.full_at - now()) < now() + interval '60 seconds'
				THEN greatest(r.full_at, now()) + (excluded.full_at - now()) ELSE now() + interval '68 seconds' END`, counts)
}

const insertReport = `INSERT INTO request_report (request_id, outcome, committed_attempt, relayed_tokens, relayed_bytes,
	http_status, error_code,
		route_mode, requested_provider, fallback_reason, stream, attempts, received_at, first_content_ms, total_ms,
		hub_id, provider_id, metered_prompt, metered_completion, continued_as)
	SELECT u.* FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[], $7::text[],
		$8::text[], $9::text[], $10::text[], $11::boolean[], $12::jsonb[], $13::timestamptz[], $14::bigint[], $15::bigint[],
		$16::text[], $17::uuid[], $18::bigint[], $19::bigint[], $20::uuid[])
		AS u (request_id, outcome, committed_attempt, relayed_tokens, relayed_bytes, http_status, error_code,
		route_mode, requested_provider, fallback_reason, stream, attempts, received_at, first_content_ms, total_ms,
		hub_id, provider_id, metered_prompt, metered_completion, continued_as)
	JOIN LATERAL (SELECT FROM hold h WHERE h.request_id = u.request_id LIMIT 1) known ON true
	ORDER BY u.request_id
	ON CONFLICT (request_id) DO NOTHING
	RETURNING request_id, committed_attempt > 0, outcome = 'client_gone'`

func reportArgs(all []hold.RequestReport) ([]any, error) {
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
		providers, continued                 = make([]*[16]byte, n), make([]*[16]byte, n)
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
		if next := w.ContinuedAs; !next.IsZero() {
			continued[i] = (*[16]byte)(&next)
		}
		if w.Metered != nil {
			meteredPrompt[i], meteredCompletion[i] = &w.Metered.Prompt, &w.Metered.Completion
		}
	}
	return []any{
		request, outcome, committed, tokens, bytes, status, errorCode, mode, requested, fallback,
		stream, attempts, received, firstContent, totalMS, hubs, providers, meteredPrompt, meteredCompletion, continued,
	}, nil
}
