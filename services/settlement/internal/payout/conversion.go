package payout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Convert turns payable earnings into credit. The same operation again returns its conversion. It fails with
// invalid_value, account_missing, insufficient_earnings, rate_limit_exceeded and idempotency_key_reused.
func (k *Keeper) Convert(ctx context.Context, op Operation, amount money.NanoUSD) (Conversion, error) {
	if amount <= 0 || amount > maximum {
		return Conversion{}, fault.New(fault.Invalid, fault.InvalidValue, "amount_usd must be above 0 and at most %s",
			money.NanoUSD(maximum)).On("amount_usd")
	}
	c, known, err := k.deps.Store.KnownConversion(ctx, op)
	if err != nil {
		return Conversion{}, err
	}
	if !known {
		if c, err = k.insertConversion(ctx, op, amount); err != nil {
			return Conversion{}, err
		}
	}
	if c, err = k.finish(ctx, c); err != nil {
		return Conversion{}, err
	}
	if c.Refusal != "" {
		return Conversion{}, fault.New(fault.Precondition, fault.Reason(c.Refusal),
			"the earnings that may be paid out are less").On("amount_usd")
	}
	return c, nil
}

// insertConversion begins a conversion that the books can pay, as far as they say now.
func (k *Keeper) insertConversion(ctx context.Context, op Operation, amount money.NanoUSD) (Conversion, error) {
	payee, err := k.deps.Payees.Payee(ctx, op.ProviderID)
	switch {
	case err != nil:
		return Conversion{}, err
	case payee.Account.IsZero():
		return Conversion{}, fault.New(fault.Precondition, AccountMissing, "no user owns the provider, so there is no credit")
	}
	switch payable, _, err := k.deps.Ledger.Balances(ctx, op.ProviderID); {
	case err != nil:
		return Conversion{}, err
	case payable < amount:
		return Conversion{}, insufficient(payable)
	}
	id, err := ids.New[kindOfID](k.deps.Clock.Now(), k.deps.Random)
	if err != nil {
		return Conversion{}, err
	}
	c := Conversion{ID: id, ProviderID: op.ProviderID, Account: payee.Account, Amount: amount}
	return k.deps.Store.InsertConversion(ctx, c, op)
}

// TooManyConversions is the error for a provider that has had MaxConversions within Every.
func TooManyConversions() error {
	return fault.New(fault.Exhausted, fault.RateLimitExceeded, "there are at most %d conversions an hour",
		MaxConversions).After(Every / MaxConversions)
}

// finish tells the books of a conversion that has not ended.
func (k *Keeper) finish(ctx context.Context, c Conversion) (Conversion, error) {
	if !c.Entry.IsZero() || c.Refusal != "" {
		return c, nil
	}
	entry, err := k.deps.Ledger.Convert(ctx, c)
	crash.At("settlement.conversion.posted")
	switch {
	case fault.Is(err, fault.InsufficientEarnings):
		c.Refusal = string(fault.InsufficientEarnings)
	case err != nil:
		return Conversion{}, err
	default:
		c.Entry = entry
	}
	return k.deps.Store.EndConversion(ctx, c)
}

const (
	// firstPause is how long a conversion waits that the books did not take once, twice as long after each further try,
	// and lastPause at most.
	firstPause = time.Minute
	lastPause  = time.Hour
)

// pause is how long a conversion waits after a number of tries before.
func pause(tries int) time.Duration {
	const doublings = 6
	return min(firstPause<<min(tries, doublings), lastPause)
}

// FinishConversions ends conversions that a process left behind. One that the books do not take waits longer with each
// try, so that it keeps no other one waiting.
func (k *Keeper) FinishConversions(ctx context.Context, limit int) error {
	open, err := k.deps.Store.Conversions(ctx, limit)
	if err != nil {
		return err
	}
	var faults []error
	for _, c := range open {
		if _, err := k.finish(ctx, c); err != nil {
			faults = append(faults, fmt.Errorf("conversion %s: %w", c.ID, err),
				k.deps.Store.DelayConversion(ctx, c, pause(c.Tries)))
		}
	}
	return errors.Join(faults...)
}
