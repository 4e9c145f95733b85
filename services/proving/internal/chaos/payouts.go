package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/services/proving/internal/store"
)

const (
	// minPayout and maxPayout bound a payout of a run, in nano-USD: an operator would have to approve of more.
	minPayout, maxPayout = 10_000_000_000, 900_000_000_000
	// askedBound is how long settlement may take to accept what a provider asks for, and paidBound how long until all
	// payouts have ended.
	askedBound = time.Minute
	paidBound  = 2 * time.Minute
	// someOwner is the actor of all payouts.
	someOwner = "wallet:0x00000000000000000000000000000000000000aa"
)

// pay has each provider ask for all that it may be paid, as its owner would through a gateway, and returns when every
// payout has ended. What did not end is in the report.
func (r *run) pay(ctx context.Context) error {
	m := r.market
	if m.paying == nil {
		return nil
	}
	r.tell("paying providers", "", "")
	for _, p := range m.setup.Providers {
		if err := m.askPayout(ctx, p.ProviderID); err != nil {
			r.report.Faulty = append(r.report.Faulty, err.Error())
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, paidBound)
	defer cancel()
	var left store.Unpaid
	err := every(ctx, idleInterval, func() (bool, error) {
		now, err := m.books.Unpaid(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // a database that restarts answers later
		}
		left = now
		return left.None(), nil
	})
	r.report.Paid = append(r.report.Paid, time.Since(began))
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		r.report.Faulty = append(r.report.Faulty, fmt.Sprintf("payouts have not ended after %v: %v", paidBound, left))
		return nil
	}
	return err
}

// askPayout asks for a payout until settlement has it. The same key asks for the same payout, however often it is
// asked.
func (m *market) askPayout(ctx context.Context, provider string) error {
	ctx, cancel := context.WithTimeout(ctx, askedBound)
	defer cancel()
	var gross int64
	last := errors.New("nobody was asked")
	key := ""
	err := every(ctx, idleInterval, func() (bool, error) {
		if key == "" {
			payable, now, err := m.books.Payable(ctx, provider)
			if err != nil {
				last = err
				return false, nil
			}
			gross, key = min(payable, maxPayout), now.UTC().Format(time.RFC3339Nano)
			gross -= gross % 1000
		}
		if gross < minPayout {
			return true, nil
		}
		called, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		usd := fmt.Sprintf("%d.%06d", gross/1_000_000_000, gross/1000%1_000_000)
		last = m.peers().RequestPayout(called, provider, usd, key, someOwner)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("provider %s asks for %d nano-USD: %w", provider, gross, errors.Join(err, last))
	}
	return nil
}
