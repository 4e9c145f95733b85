package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// ExpireHolds closes open holds that are over by the database's clock and of
// which nothing is known to have been served; the others are for OpenReviews.
// Holds that another transaction is closing are left to it.
func (s *Store) ExpireHolds(ctx context.Context, limit int) (int, error) {
	expired := 0
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT request_id, account_id, key_id, amount FROM hold
			WHERE state = 'open' AND expires_at <= now() AND NOT EXISTS (SELECT FROM evidence e WHERE e.request_id = hold.request_id)
			ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED`, limit)
		if err != nil {
			return fmt.Errorf("find holds that are over: %w", err)
		}
		expired, err = giveBack(ctx, tx, rows, hold.OverUnserved)
		return err
	})
	return expired, err
}

// giveBack closes the holds in rows, which are locked, and returns their money
// and their places.
func giveBack(ctx context.Context, tx pgx.Tx, rows pgx.Rows, why hold.Trigger) (int, error) {
	var closed []ids.RequestID
	wallets := map[ids.AccountID]usage.Change{}
	ended := map[ids.KeyID]int{}
	var request, account, key [16]byte
	var amount int64
	_, err := pgx.ForEachRow(rows, []any{&request, &account, &key, &amount}, func() error {
		closed = append(closed, request)
		change := wallets[account]
		change.Released += nano(amount)
		wallets[account] = change
		ended[key]++
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("lock holds: %w", err)
	}
	if len(closed) == 0 {
		return 0, nil
	}
	if _, err := lockWallets(ctx, tx, keysOf(wallets)); err != nil {
		return 0, err
	}
	batch := &pgx.Batch{}
	closeHolds(batch, closed, why)
	moveWallets(batch, wallets)
	endInflight(batch, ended)
	if err := sendAll(ctx, tx, batch); err != nil {
		return 0, fmt.Errorf("close holds on %s: %w", why, err)
	}
	return len(closed), nil
}

// lockWallets locks in the order of ids, as everybody does.
func lockWallets(ctx context.Context, tx pgx.Tx, accounts [][16]byte) (map[ids.AccountID]usage.Wallet, error) {
	rows, err := tx.Query(ctx, `SELECT account_id, posted, held FROM wallet
		WHERE account_id = ANY ($1) ORDER BY account_id FOR UPDATE`, accounts)
	if err != nil {
		return nil, fmt.Errorf("lock wallets: %w", err)
	}
	wallets := make(map[ids.AccountID]usage.Wallet, len(accounts))
	var account [16]byte
	var posted, held int64
	_, err = pgx.ForEachRow(rows, []any{&account, &posted, &held}, func() error {
		wallets[account] = usage.Wallet{Posted: nano(posted), Held: nano(held)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock wallets: %w", err)
	}
	return wallets, nil
}

// closeHolds moves open holds, which are locked, to where the trigger leads.
func closeHolds(batch *pgx.Batch, closed []ids.RequestID, why hold.Trigger) {
	if to, ok := hold.Open.After(why); ok && len(closed) > 0 {
		batch.Queue(`UPDATE hold SET state = $2, closed_at = now() WHERE request_id = ANY ($1)`, raw(closed), string(to))
	}
}

func moveWallets(batch *pgx.Batch, changes map[ids.AccountID]usage.Change) {
	var accounts [][16]byte
	var charged, released []int64
	for account, c := range changes {
		if c != (usage.Change{}) {
			accounts = append(accounts, account)
			charged = append(charged, int64(c.Charged))
			released = append(released, int64(c.Released))
		}
	}
	if len(accounts) > 0 {
		batch.Queue(`UPDATE wallet w SET posted = w.posted - c.charged, held = w.held - c.released
			FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS c (account_id, charged, released)
			WHERE w.account_id = c.account_id`, accounts, charged, released)
	}
}

func endInflight(batch *pgx.Batch, ended map[ids.KeyID]int) {
	var keys [][16]byte
	var counts []int32
	for key, n := range ended {
		keys = append(keys, key)
		counts = append(counts, int32(n))
	}
	if len(keys) > 0 {
		batch.Queue(`UPDATE key_inflight f SET n = f.n - c.n
			FROM unnest($1::uuid[], $2::integer[]) AS c (key_id, n) WHERE f.key_id = c.key_id`, keys, counts)
	}
}

func keysOf[K any, V any](m map[ids.Of[K]]V) [][16]byte {
	out := make([][16]byte, 0, len(m))
	for id := range m {
		out = append(out, id)
	}
	return out
}

// Conclude records witnesses and releases; see hold.Witnesses.
func (s *Store) Conclude(ctx context.Context, all []hold.Witness) (released int, err error) {
	// In one order, so that two gateways that tell the same do not wait for
	// each other.
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b hold.Witness) int { return strings.Compare(string(a.Request[:]), string(b.Request[:])) })
	args, err := witnessArgs(all)
	if err != nil {
		return 0, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insertWitnesses, args...)
		if err != nil {
			return fmt.Errorf("insert witnesses: %w", err)
		}
		unserved, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil {
			return fmt.Errorf("insert witnesses: %w", err)
		}
		rows, err = tx.Query(ctx, `SELECT request_id, account_id, key_id, amount FROM hold
			WHERE request_id = ANY ($1) AND state = 'open' ORDER BY request_id FOR UPDATE`, unserved)
		if err != nil {
			return fmt.Errorf("lock holds: %w", err)
		}
		released, err = giveBack(ctx, tx, rows, hold.NothingServed)
		crash.At("billing.conclude.before_commit")
		return err
	})
	crash.At("billing.conclude.committed")
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
	WHERE EXISTS (SELECT FROM hold h WHERE h.request_id = u.request_id)
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
