package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Admit decides reservations: those that are plain by a few statements (admit_plain.go), and the
// others by the database's function admit_requests (functions/admit_requests.sql) in a
// transaction of its own. Both are durable when Admit returns. When the second fails, the
// caller does not hear what the first decided, as when the connection is lost during a commit.
//
// Where owners of slices admit for some of the accounts, the caller gets no decision. The error is a SlicesOpen, or
// a SliceOpen where there is one key or the slices cannot be read. The caller has the owners decide or give up
// their slices, and asks again.
func (s *Store) Admit(ctx context.Context, reservations []hold.Reservation) ([]hold.Decision, error) {
	crash.At("billing.admit.before_commit")
	decisions := make([]hold.Decision, len(reservations))
	left, err := s.admitPlain(ctx, reservations, decisions)
	if err == nil && len(left) > 0 {
		err = s.admitWhole(ctx, reservations, left, decisions)
	}
	if pg.IsUnavailable(err) {
		return nil, fault.Wrap(err, fault.Unavailable, fault.AdmissionUnavailable, "the store cannot be reached").After(
			time.Second)
	}
	if open, ok := sliceOpen(err); ok {
		return nil, fmt.Errorf("decide reservations: %w", s.slicesOf(ctx, reservations, open))
	}
	if err != nil {
		return nil, fmt.Errorf("decide reservations: %w", err)
	}
	crash.At("billing.admit.committed")
	s.sayWhyFrozen(ctx, decisions)
	return decisions, nil
}

// admitWhole decides the reservations at the places left by admit_requests, into decisions.
func (s *Store) admitWhole(ctx context.Context, all []hold.Reservation, left []int, decisions []hold.Decision) error {
	reservations := make([]hold.Reservation, len(left))
	for n, i := range left {
		reservations[n] = all[i]
	}
	args := s.admitArgs(reservations)
	var decided []hold.Decision
	err := pg.Retry(ctx, func() (err error) {
		if err := s.keepVendorPrices(ctx, reservations); err != nil {
			return err
		}
		rows, err := s.pool.Query(ctx, admitClaims, args...)
		if err == nil {
			decided, err = s.scanDecisions(rows, len(reservations))
		}
		return err
	})
	for n, d := range decided {
		decisions[left[n]] = d
	}
	return err
}

// sayWhyFrozen adds to the refusals of frozen accounts why those are frozen. It asks only where
// there are such. Without the causes a refusal is shorter and stands all the same, because the
// other decisions are committed.
func (s *Store) sayWhyFrozen(ctx context.Context, decisions []hold.Decision) {
	var frozen [][16]byte
	for _, v := range decisions {
		if v.Outcome == hold.AccountFrozen {
			frozen = append(frozen, v.Admission.Account)
		}
	}
	if len(frozen) == 0 {
		return
	}
	causes, err := s.causes(ctx, frozen)
	if err != nil {
		return
	}
	for i, v := range decisions {
		if v.Outcome != hold.AccountFrozen {
			continue
		}
		for _, c := range causes[v.Admission.Account] {
			decisions[i].FrozenBecause = append(decisions[i].FrozenBecause, c.Text())
		}
	}
}

const admitClaims = `SELECT o_ord, o_outcome, o_account, o_billing, o_amount, o_price,
		o_input, o_output, o_payout_input, o_payout_output, o_unit, o_limit, o_remaining, o_reset_at, o_retry_at,
		o_expires_at, o_now, o_discount, o_priority,
		coalesce((SELECT v.cached_rate FROM vendor_price v WHERE v.price_version_id = o_price), 0)
	FROM admit_requests($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`

// admitArgs turns the reservations into one array for each parameter of admit_requests.
func (s *Store) admitArgs(reservations []hold.Reservation) []any {
	n := len(reservations)
	var (
		request, key, price        = make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
		model, billing             = make([]string, n), make([]string, n)
		class, tier, unit          = make([]int16, n), make([]int16, n), make([]int16, n)
		images                     = make([]int32, n)
		zero, pinned               = make([]bool, n), make([]bool, n)
		amount, prompt, completion = make([]int64, n), make([]int64, n), make([]int64, n)
		input, output              = make([]int64, n), make([]int64, n)
		payoutInput, payoutOutput  = make([]int64, n), make([]int64, n)
	)
	for i, c := range reservations {
		request[i], key[i], price[i] = c.Request, c.Key, c.Price
		model[i], billing[i] = c.Model, string(c.Billing)
		class[i], zero[i], pinned[i] = int16(c.Class), c.ZeroPriced, c.Pinned
		tier[i], unit[i], images[i] = int16(c.Tier), int16(c.Rates.Unit), c.Images
		amount[i], prompt[i], completion[i] = int64(c.Amount), c.PromptTokens, c.MaxCompletionTokens
		input[i], output[i] = int64(c.Rates.Input), int64(c.Rates.Output)
		payoutInput[i], payoutOutput[i] = int64(c.Rates.PayoutInput), int64(c.Rates.PayoutOutput)
	}
	return []any{
		request, key, model, class, zero, billing, amount, prompt, completion, pinned, price,
		tier, images, input, output, payoutInput, payoutOutput, unit, perMinute(s.limits), s.limits.Concurrent, s.terms.Lease,
	}
}

// perMinute returns the limits with NULL for no limit.
func perMinute(limits limit.Defaults) []*int32 {
	var out []*int32
	for _, n := range limits.PerMinute() {
		if n == limit.Unlimited {
			out = append(out, nil)
			continue
		}
		out = append(out, &n)
	}
	return out
}

// scanDecisions puts the rows, which arrive in the order of their locks, back into the
// order of the reservations.
func (s *Store) scanDecisions(rows pgx.Rows, n int) ([]hold.Decision, error) {
	defer rows.Close()
	decisions := make([]hold.Decision, n)
	seen := 0
	for rows.Next() {
		ord, v, err := scanVerdict(rows)
		if err != nil {
			return nil, fmt.Errorf("scan decision: %w", err)
		}
		v.Admission.Lease = s.terms.Lease
		decisions[ord-1] = v
		seen++
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if seen != n {
		return nil, fmt.Errorf("the database answered %d of %d reservations", seen, n)
	}
	return decisions, nil
}

func scanVerdict(rows pgx.Rows) (int32, hold.Decision, error) {
	var (
		ord                  int32
		outcome, billing     string
		account              *[16]byte
		price                [16]byte
		amount               int64
		rates                money.Rates
		limitPerMinute, left int32
		resetAt, retryAt     time.Time
		expiresAt, now       time.Time
		discount             int16
		priority             bool
	)
	err := rows.Scan(&ord, &outcome, &account, &billing, &amount, &price,
		&rates.Input, &rates.Output, &rates.PayoutInput, &rates.PayoutOutput, &rates.Unit, &limitPerMinute, &left, &resetAt,
		&retryAt, &expiresAt, &now, &discount, &priority, &rates.PayoutCachedInput)
	if err != nil {
		return 0, hold.Decision{}, err
	}
	v := hold.Decision{Outcome: hold.Outcome(outcome)}
	if resets(v.Outcome) && retryAt.After(now) {
		v.ResetsAt, retryAt = retryAt, now
	}
	if account == nil {
		return ord, v, nil
	}
	v.Admission = hold.Admission{
		Account: ids.AccountID(*account), Billing: hold.BillingType(billing), Price: ids.PriceVersionID(price),
		Rates: rates, Held: money.NanoUSD(amount), ExpiresAt: expiresAt, Discount: money.Discount(discount),
		Priority: priority,
		Rate: limit.Rate{
			Limit: limitPerMinute, Remaining: left, Reset: max(resetAt.Sub(now), 0), Retry: max(retryAt.Sub(now), 0),
		},
	}
	return ord, v, nil
}

// resets reports whether an outcome is of a bound that begins anew.
func resets(o hold.Outcome) bool {
	return o == hold.KeyBudgetShort || o == hold.DayCapShort || o == hold.MonthCapShort
}
