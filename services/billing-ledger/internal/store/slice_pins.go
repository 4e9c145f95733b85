package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// maxPins bounds the holds of one transaction of WritePins. A turn writes at most slice.Config.Batch times
// slice.MaxPlaces.
const maxPins = 1000

// writePins writes holds that are not there yet, under the locks on their wallets. A hold takes its
// amount, and one place, from the slice that its request was admitted from. Where the slice is gone, or
// has too little left, the hold has no amount. Then settling charges what is available. Requests of
// cleared days are left out, because they are closed, and so are those of unknown keys. No request comes
// twice (unique). $21 is for a planted fault.
//
// The first condition has the text of kept_from(), because a call of that function costs more than the rest of the
// statement. IS TRUE keeps the planner from making a join of the look-up in written, because the join would compare
// each pin with each. The look-up uses a hashed table.
const writePins = `WITH fresh AS MATERIALIZED (
		SELECT u.*, CASE WHEN sum(u.amount) OVER (PARTITION BY u.account_id, u.epoch ORDER BY u.request_id) <= s.amount
			THEN u.amount ELSE 0 END AS taken
		FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[],
			$6::bigint[], $7::bigint[], $8::bigint[], $9::integer[], $10::boolean[], $11::uuid[], $12::smallint[],
			$13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::integer[], $18::integer[],
			$19::timestamptz[], $20::timestamptz[], $22::bigint[])
			AS u (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens, max_completion_tokens,
			images, pinned, price_version_id, unit, input_rate, output_rate, payout_input_rate, payout_output_rate,
			rate_limit, rate_remaining, rate_reset_at, admitted_at, epoch)
		JOIN consumer_key ck ON ck.id = u.key_id AND ck.account_id = u.account_id
		LEFT JOIN slice s ON s.account_id = u.account_id AND s.epoch = u.epoch
		WHERE u.request_id >= coalesce((SELECT first_request_of(max(day) + 1) FROM cleared_day),
				'00000000-0000-0000-0000-000000000000')
			AND NOT EXISTS (SELECT FROM hold h WHERE h.request_id = u.request_id)
	), written AS (
		INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
			max_completion_tokens, images, pinned, price_version_id, unit, input_rate, output_rate, payout_input_rate,
			payout_output_rate, rate_limit, rate_remaining, rate_reset_at, admitted_at, expires_at)
		SELECT request_id, account_id, key_id, model_id, billing_type, taken, prompt_tokens, max_completion_tokens,
			images, pinned, price_version_id, unit, input_rate, output_rate, payout_input_rate, payout_output_rate,
			rate_limit, rate_remaining, rate_reset_at, least(admitted_at, now()), now() + $23::interval
		FROM fresh ORDER BY request_id ON CONFLICT (request_id) DO NOTHING RETURNING request_id, key_id
	), moved AS (
		UPDATE slice s SET amount = s.amount - CASE WHEN $21 THEN 0 ELSE m.amount END, places = greatest(s.places - m.n, 0)
		FROM (SELECT f.account_id, f.epoch, sum(f.taken)::bigint AS amount, count(*)::integer AS n
			FROM fresh f WHERE f.request_id IN (SELECT request_id FROM written) IS TRUE GROUP BY f.account_id, f.epoch) m
		WHERE s.account_id = m.account_id AND s.epoch = m.epoch
	)
	UPDATE key_inflight f SET n = f.n + w.n
	FROM (SELECT key_id, count(*)::integer AS n FROM written GROUP BY key_id) w WHERE f.key_id = w.key_id`

// walletsInOrder locks wallets of accounts. It comes first and alone: what is read after it is current.
const walletsInOrder = `SELECT FROM wallet WHERE account_id = ANY ($1) ORDER BY account_id FOR UPDATE`

// WritePins writes the holds of requests that were admitted from slices, of any slices. A hold that
// is there already is left alone, so that anybody may write a pin at any time. See usage.ErrRefused.
func (s *Store) WritePins(ctx context.Context, pins []hold.Pin) error {
	for some := range slices.Chunk(pins, maxPins) {
		err := s.writeSomePins(ctx, some)
		if refused(err) {
			err = errors.Join(usage.ErrRefused, err)
		}
		if err != nil {
			return fmt.Errorf("write holds of admitted requests: %w", err)
		}
	}
	return nil
}

func (s *Store) writeSomePins(ctx context.Context, pins []hold.Pin) error {
	accounts := make([][16]byte, len(pins))
	for i, p := range pins {
		accounts[i] = p.Account
	}
	return s.atOnce(ctx, func(batch *pgx.Batch) {
		batch.Queue(walletsInOrder, accounts)
		s.queuePins(batch, pins)
	})
}

// unique returns the first pin of each request.
func unique(pins []hold.Pin) []hold.Pin {
	seen := make(map[ids.RequestID]struct{}, len(pins))
	out := make([]hold.Pin, 0, len(pins))
	for i := range pins {
		if _, again := seen[pins[i].Request]; !again {
			seen[pins[i].Request] = struct{}{}
			out = append(out, pins[i])
		}
	}
	return out
}

// queuePins queues the writing of pins, whose wallets are locked.
func (s *Store) queuePins(batch *pgx.Batch, pins []hold.Pin) {
	pins = unique(pins)
	n := len(pins)
	if n == 0 {
		return
	}
	var (
		request, account, key, price = make([][16]byte, n), make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
		model, billing               = make([]string, n), make([]string, n)
		amount, prompt, completion   = make([]int64, n), make([]int64, n), make([]int64, n)
		input, output, epoch         = make([]int64, n), make([]int64, n), make([]int64, n)
		payoutInput, payoutOutput    = make([]int64, n), make([]int64, n)
		images, perMinute, remaining = make([]int32, n), make([]int32, n), make([]int32, n)
		pinned, unit                 = make([]bool, n), make([]int16, n)
		reset, admitted              = make([]time.Time, n), make([]time.Time, n)
	)
	for i, p := range pins {
		request[i], account[i], key[i], price[i] = p.Request, p.Account, p.Key, p.Price
		model[i], billing[i] = p.Model, string(p.Billing)
		amount[i], prompt[i], completion[i] = int64(p.Amount), p.Prompt, p.MaxCompletion
		input[i], output[i], epoch[i] = int64(p.Rates.Input), int64(p.Rates.Output), p.Epoch
		payoutInput[i], payoutOutput[i] = int64(p.Rates.PayoutInput), int64(p.Rates.PayoutOutput)
		images[i], pinned[i], unit[i] = p.Images, p.Pinned, int16(p.Rates.Unit)
		perMinute[i], remaining[i], reset[i] = p.RateLimit, p.RateRemaining, p.AdmittedAt.Add(p.RateReset)
		admitted[i] = p.AdmittedAt
	}
	batch.Queue(writePins, request, account, key, model, billing, amount, prompt, completion, images, pinned, price,
		unit, input, output, payoutInput, payoutOutput, perMinute, remaining, reset, admitted,
		crash.Planted(crash.PinWithoutSlice), epoch, s.terms.Lease)
}
