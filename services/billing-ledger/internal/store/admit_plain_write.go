package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// admitPlain decides the plain reservations of a batch in one transaction, into decisions. It
// returns the places of those that are left to admit_requests. Nothing is decided when the
// transaction fails.
func (s *Store) admitPlain(
	ctx context.Context, reservations []hold.Reservation, decisions []hold.Decision,
) (left []int, err error) {
	b := s.newPlainBatch(reservations)
	if len(b.asked) == 0 {
		return b.left(nil), nil
	}
	var decided []int
	// Who admits meanwhile from a slice is for the caller to ask, not to be recalled here.
	err = s.piped(ctx, func(conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(`BEGIN`)
		securePlain(batch)
		b.read(batch, s.limits)
		if err := sendAll(ctx, conn, batch); err != nil {
			return fmt.Errorf("lock wallets and read keys: %w", err)
		}
		decided = b.decide(decisions)
		batch = &pgx.Batch{}
		if !b.write(batch, decisions, decided) && b.stranded == 0 {
			return nil // nothing to commit: the rollback ends the locks
		}
		commit(batch)
		if err := sendAll(ctx, conn, batch); err != nil {
			return fmt.Errorf("write holds: %w", err)
		}
		return nil
	})
	if pg.IsUnique(err, "hold_pkey") {
		// Another batch admitted a request meanwhile for another account.
		return b.left(nil), nil
	}
	if err != nil {
		return nil, err
	}
	for _, key := range b.bounded {
		s.boundedKeys.add(key)
	}
	return b.left(decided), nil
}

// left are the places of the reservations that are not decided.
func (b *plainBatch) left(decided []int) (left []int) {
	if len(decided) == len(b.reservations) {
		return nil
	}
	for i := range b.reservations {
		if !slices.Contains(decided, i) {
			left = append(left, i)
		}
	}
	return left
}

// securePlain is secure for statements that join: they are planned once for a connection, and a
// plan that was made while a table was empty reads no table whole when it no longer is.
func securePlain(batch *pgx.Batch) {
	batch.Queue(`SELECT set_config('plan_cache_mode', 'force_generic_plan', true),
		set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true),
		set_config('idle_in_transaction_session_timeout', '3s', true),
		CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
			set_config('synchronous_commit', 'on', true) END`)
}

const insertHolds = `INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
		max_completion_tokens, images, pinned, price_version_id, unit, input_rate, output_rate, payout_input_rate,
		payout_output_rate, rate_limit, rate_remaining, rate_reset_at, expires_at)
	SELECT u.*, $20 FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bigint[],
		$7::bigint[], $8::bigint[], $9::integer[], $10::boolean[], $11::uuid[], $12::smallint[], $13::bigint[],
		$14::bigint[], $15::bigint[], $16::bigint[], $17::integer[], $18::integer[], $19::timestamptz[]) u`

// write queues what the admitted among the decided requests change, under the locks of read. It
// returns false when nothing was admitted. That a request was admitted before, by a batch for another
// account, ends the transaction: its hold cannot be inserted again.
func (b *plainBatch) write(batch *pgx.Batch, decisions []hold.Decision, decided []int) bool {
	admitted := make([]int, 0, len(decided))
	for _, i := range decided {
		if decisions[i].Outcome == hold.Admitted {
			admitted = append(admitted, i)
		}
	}
	if len(admitted) == 0 {
		return false
	}
	// The locks on new holds are taken in the order of their ids.
	slices.SortFunc(admitted, func(i, j int) int {
		return bytes.Compare(b.reservations[i].Request[:], b.reservations[j].Request[:])
	})
	b.insertHolds(batch, decisions, admitted)
	b.count(batch)
	return true
}

func (b *plainBatch) insertHolds(batch *pgx.Batch, decisions []hold.Decision, admitted []int) {
	n := len(admitted)
	var (
		request, account, key, price = make([][16]byte, n), make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
		model, billing               = make([]string, n), make([]string, n)
		amount, prompt, completion   = make([]int64, n), make([]int64, n), make([]int64, n)
		input, output                = make([]int64, n), make([]int64, n)
		payoutInput, payoutOutput    = make([]int64, n), make([]int64, n)
		images, perMinute, remaining = make([]int32, n), make([]int32, n), make([]int32, n)
		pinned, unit, reset          = make([]bool, n), make([]int16, n), make([]time.Time, n)
	)
	a := b.known[b.reservations[admitted[0]].Key].account // all have one moment
	for row, i := range admitted {
		r, d := b.reservations[i], decisions[i].Admission
		request[row], account[row], key[row], price[row] = r.Request, d.Account, r.Key, r.Price
		model[row], billing[row] = r.Model, string(r.Billing)
		amount[row], prompt[row], completion[row] = int64(r.Amount), r.PromptTokens, r.MaxCompletionTokens
		input[row], output[row] = int64(r.Rates.Input), int64(r.Rates.Output)
		payoutInput[row], payoutOutput[row] = int64(r.Rates.PayoutInput), int64(r.Rates.PayoutOutput)
		images[row], pinned[row], unit[row] = r.Images, r.Pinned, int16(r.Rates.Unit)
		perMinute[row], remaining[row], reset[row] = d.Rate.Limit, d.Rate.Remaining, a.Now.Add(d.Rate.Reset)
	}
	batch.Queue(insertHolds, request, account, key, model, billing, amount, prompt, completion, images, pinned, price,
		unit, input, output, payoutInput, payoutOutput, perMinute, remaining, reset, a.Now.Add(b.lease))
}

// count queues the changes of places, wallets and rates, in any order, because the wallets are locked.
func (b *plainBatch) count(batch *pgx.Batch) {
	var keys [][16]byte
	var admitted []int32
	taken := map[*hold.Account]int64{}
	var rates rateRows
	for _, id := range b.keys {
		k := b.known[id]
		if k == nil || k.Admitted == 0 {
			continue
		}
		keys, admitted = append(keys, id), append(admitted, k.Admitted)
		taken[k.account] += int64(k.Taken)
		rates.add(k)
	}
	batch.Queue(`UPDATE key_inflight f SET n = f.n + u.n FROM unnest($1::uuid[], $2::integer[]) AS u (id, n)
		WHERE f.key_id = u.id`, keys, admitted)
	var accounts [][16]byte
	var amounts []int64
	for a, amount := range taken {
		if amount > 0 {
			accounts, amounts = append(accounts, a.ID), append(amounts, amount)
		}
	}
	if len(accounts) > 0 {
		batch.Queue(`UPDATE wallet w SET held = w.held + u.amount FROM unnest($1::uuid[], $2::bigint[]) AS u (id, amount)
			WHERE w.account_id = u.id`, accounts, amounts)
	}
	rates.write(batch)
}

// rateRows are the rates that a batch moves on: of keys by class, and the one of each account that
// all zero-priced models share.
type rateRows struct {
	keys    [][16]byte
	classes []int16
	full    []time.Time
	zero    map[ids.AccountID]*hold.Account
}

// add adds the rates in which requests of a key were counted.
func (r *rateRows) add(k *plainKey) {
	for i, counted := range k.Counted {
		switch class := limit.Class(i + 1); {
		case !counted || k.Limits[i] == limit.Unlimited:
		case class == limit.ZeroPriced:
			if r.zero == nil {
				r.zero = map[ids.AccountID]*hold.Account{}
			}
			r.zero[k.account.ID] = k.account
		default:
			r.keys, r.classes = append(r.keys, k.ID), append(r.classes, int16(class))
			r.full = append(r.full, k.account.Now.Add(k.Ahead[i]))
		}
	}
}

func (r *rateRows) write(batch *pgx.Batch) {
	if len(r.keys) > 0 {
		batch.Queue(`INSERT INTO key_rate (key_id, class, full_at)
			SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[])
			ON CONFLICT (key_id, class) DO UPDATE SET full_at = excluded.full_at`, r.keys, r.classes, r.full)
	}
	if len(r.zero) == 0 {
		return
	}
	var full []time.Time
	accounts := make([][16]byte, 0, len(r.zero))
	for id, a := range r.zero {
		accounts, full = append(accounts, id), append(full, a.Now.Add(a.ZeroPriced))
	}
	batch.Queue(`INSERT INTO account_rate (account_id, class, full_at)
		SELECT u.id, 4, u.full_at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, full_at)
		ON CONFLICT (account_id, class) DO UPDATE SET full_at = excluded.full_at`, accounts, full)
}
