package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
)

// Closer closes days. Several may work on one store.
type Closer struct {
	Store  Store
	Ledger Ledger
	Payees Payees
	Clock  clock.Clock
	Log    *slog.Logger
	// Start is the first day that is batched; zero for the day of the oldest earning line.
	Start time.Time
	// Interval is the pause between two passes.
	Interval time.Duration
	// Patience is how long a day waits for settlement's own lines to be mended.
	Patience time.Duration

	// A day that waits is looked at again then.
	waits  time.Time
	waitOn Outcome
}

// maxDays bounds the days of one pass. Further ones wait for the next.
const maxDays = 40

// waitPasses is how many passes go by before a day that waits is looked at again: the witnesses read all of its lines.
const waitPasses = 2

// Pass closes days until one is not sealed or waits, and calls closed after each. It returns why the last one waits,
// or Committed.
func (c *Closer) Pass(ctx context.Context, closed func(day time.Time) error) (Outcome, error) {
	if c.Clock.Now().Before(c.waits) {
		return c.waitOn, nil
	}
	for range maxDays {
		place, err := c.Store.Place(ctx, c.Start)
		if err != nil || place.Day.IsZero() {
			return Committed, err
		}
		switch err := c.collect(ctx, place); {
		case errors.Is(err, ErrDayOpen):
			return Committed, nil
		case err != nil:
			return Committed, fmt.Errorf("collect %s: %w", place.Day.Format(time.DateOnly), err)
		}
		outcome, err := c.commit(ctx, place.Day)
		if err != nil {
			return Committed, fmt.Errorf("commit %s: %w", place.Day.Format(time.DateOnly), err)
		}
		if outcome != Committed {
			c.waits, c.waitOn = c.Clock.Now().Add(waitPasses*c.Interval), outcome
			return outcome, nil
		}
		crash.At("settlement.batch.committed")
		if err := closed(place.Day); err != nil {
			return Committed, err
		}
	}
	return Committed, nil
}

// collect keeps the ledger's list of a day.
func (c *Closer) collect(ctx context.Context, place Place) error {
	if place.Collected {
		return nil
	}
	// Nearly every pass finds the day open, and needs no transaction for that.
	if _, _, _, err := c.Ledger.Changes(ctx, place.Day, ""); err != nil {
		return err
	}
	err := c.Store.Collect(ctx, place.Day, func(page Page) (Seal, error) {
		seal, err := c.lines(ctx, place.Day, page)
		if err != nil {
			return seal, err
		}
		return seal, c.balances(ctx, place.Day, page)
	})
	if err == nil {
		crash.At("settlement.batch.collected")
	}
	return err
}

func (c *Closer) lines(ctx context.Context, day time.Time, page Page) (seal Seal, err error) {
	var token string
	var number int64
	lines := make([]Line, 0, PageSize)
	for {
		var changes []Change
		if changes, token, seal, err = c.Ledger.Changes(ctx, day, token); err != nil {
			return seal, err
		}
		lines = lines[:0]
		for _, change := range changes {
			number++
			lines = append(lines, Line{Day: day, Number: number, Change: change})
		}
		if err := page.AddLines(ctx, lines); err != nil {
			return seal, err
		}
		if token == "" {
			return seal, nil
		}
	}
}

func (c *Closer) balances(ctx context.Context, day time.Time, page Page) error {
	var token string
	for {
		balances, next, err := c.Ledger.Balances(ctx, day, token)
		if err != nil {
			return err
		}
		if err := page.AddBalances(ctx, balances); err != nil {
			return err
		}
		if token = next; token == "" {
			return nil
		}
	}
}

// maxPayees bounds the providers of one question for beneficiaries.
const maxPayees = 500

func (c *Closer) commit(ctx context.Context, day time.Time) (Outcome, error) {
	findings, err := c.Store.Examine(ctx, day)
	if err != nil {
		return "", err
	}
	if outcome := findings.Judge(c.Patience); outcome != Committed {
		return outcome, nil
	}
	for _, d := range findings.Differences[:min(len(findings.Differences), 10)] {
		c.Log.ErrorContext(ctx, "a provider is blocked, because a witness contradicts the ledger's list of its day",
			"day", day.Format(time.DateOnly), "provider_id", d.Provider.String(), "cause", string(d.Cause),
			"differences", d.Count)
	}
	providers, err := c.Store.Participants(ctx, day)
	if err != nil {
		return "", err
	}
	payees := map[ids.ProviderID]chain.Address{}
	for len(providers) > 0 {
		n := min(len(providers), maxPayees)
		some, err := c.Payees.Payees(ctx, providers[:n])
		if err != nil {
			return "", fmt.Errorf("ask where providers are paid: %w", err)
		}
		for provider, address := range some {
			payees[provider] = address
		}
		providers = providers[n:]
	}
	return Committed, c.Store.Commit(ctx, day, findings, func(seal Seal, participants []Participant) ([]Batch, error) {
		return Assemble(day, seal, participants, payees)
	})
}
