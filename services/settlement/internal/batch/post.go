package batch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

const (
	// maxShares bounds the shares of one page.
	maxShares = 200
	// settleAfter is how long after an attempt a smaller one may follow: by then no call of the attempt is under way.
	settleAfter = time.Minute
	// maxAttempts bounds the attempts for a share. Of what is refused so often, nothing is posted; it is carried.
	maxAttempts = 100
)

// Post posts every share that is not posted: the share, or what the books still have of it. It returns how many it
// posted. A share that cannot be posted now keeps no other one waiting.
func (c *Closer) Post(ctx context.Context) (posted int, err error) {
	var after SharePlace
	var failed error
	for {
		shares, err := c.Store.Unposted(ctx, after, maxShares)
		if err != nil {
			return posted, err
		}
		for _, u := range shares {
			done, err := c.post(ctx, u)
			if errors.Is(err, ErrAttempted) {
				continue // the other process posts the share, or the next pass does
			}
			if err != nil {
				failed = fmt.Errorf("post the share of %s of %s: %w", u.Provider, u.Day.Format(time.DateOnly), err)
			}
			if done {
				posted++
			}
			if ctx.Err() != nil {
				return posted, ctx.Err()
			}
		}
		if len(shares) < maxShares {
			return posted, failed
		}
		after = shares[len(shares)-1].SharePlace
	}
}

// post makes one attempt for a share. It first repeats the last attempt, because nobody may have heard what became of
// it: a repeat of what was posted returns the first entry.
func (c *Closer) post(ctx context.Context, u Unposted) (done bool, err error) {
	if u.Amount == 0 {
		return true, c.Store.SetPosted(ctx, u, 0, ids.EntryID{})
	}
	if len(u.Attempts) > 0 {
		last := u.Attempts[0]
		done, err := c.repeat(ctx, u, last.Amount)
		if done || err != nil {
			return done, err
		}
		if last.Since < settleAfter {
			return false, nil
		}
	}
	return c.attempt(ctx, u)
}

// attempt posts what the books have now of a share of which nothing is posted.
func (c *Closer) attempt(ctx context.Context, u Unposted) (done bool, err error) {
	free, err := c.Ledger.Free(ctx, u.Provider)
	if err != nil {
		return false, err
	}
	next := Attempt{Number: 1, Amount: min(u.Amount, free)}
	if len(u.Attempts) > 0 {
		next = Attempt{Number: u.Attempts[0].Number + 1, Amount: min(u.Attempts[0].Amount-1, free)}
	}
	if next.Amount <= 0 || next.Number > maxAttempts {
		return true, c.Store.SetPosted(ctx, u, 0, ids.EntryID{})
	}
	if err := c.Store.Attempt(ctx, u, next); err != nil {
		return false, err
	}
	crash.At("settlement.batch.attempted")
	return c.repeat(ctx, u, next.Amount)
}

// repeat posts an attempt. Where another amount was posted, that is one of the attempts before.
func (c *Closer) repeat(ctx context.Context, u Unposted, amount money.NanoUSD) (done bool, err error) {
	entry, err := c.Ledger.Post(ctx, Posting{Day: u.Day, Provider: u.Provider, Chain: u.Chain, Amount: amount})
	switch {
	case errors.Is(err, ErrRefused):
		return false, nil // the next pass asks for less
	case errors.Is(err, ErrReused):
		return c.find(ctx, u, amount)
	case err != nil:
		return false, err
	}
	crash.At("settlement.batch.posted")
	return true, c.Store.SetPosted(ctx, u, amount, entry)
}

// find looks for the attempt that was posted.
func (c *Closer) find(ctx context.Context, u Unposted, but money.NanoUSD) (done bool, err error) {
	for _, a := range u.Attempts {
		if a.Amount == but {
			continue
		}
		entry, err := c.Ledger.Post(ctx, Posting{Day: u.Day, Provider: u.Provider, Chain: u.Chain, Amount: a.Amount})
		if errors.Is(err, ErrReused) {
			continue
		}
		if err != nil {
			return false, err
		}
		return true, c.Store.SetPosted(ctx, u, a.Amount, entry)
	}
	return false, fmt.Errorf("%w, which was never attempted", ErrReused)
}
