package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// MonthCount is what settlement counts of a month of plans: what providers earned by its requests that the ledger
// recorded up to a day.
type MonthCount struct {
	// Month is as in 2026-03.
	Month     string
	Through   time.Time
	Earned    money.NanoUSD
	Providers int64
	// Blocked is how many of the providers are blocked. The month waits for them.
	Blocked int64
}

// ClosedMonth is a closed month, as the ledger has it.
type ClosedMonth struct {
	Month      string
	Through    time.Time
	Earned     money.NanoUSD
	Providers  int64
	Pool, Paid money.NanoUSD
	At         time.Time
}

// PlanShare is what a provider has of a closed month. What is withheld waits for the end of what is held.
type PlanShare struct {
	Provider               ids.ProviderID
	Earned, Paid           money.NanoUSD
	Withheld, WithheldPaid money.NanoUSD
}

// Late is what a provider earned by the plans of a closed month, and the ledger recorded on a later day.
type Late struct {
	Month    string
	Day      time.Time
	Provider ids.ProviderID
	Amount   money.NanoUSD
}

// Release is earnings of a closed month that were held at its close, and are released.
type Release struct {
	Month   string
	Request ids.RequestID
}

// The errors of months.
var (
	// ErrCountsDiffer is the error where the ledger counts otherwise.
	ErrCountsDiffer = errors.New("the ledger counts the month otherwise")
	// ErrMonthOpen is the error for a month that the ledger has not closed.
	ErrMonthOpen = errors.New("the month is not closed")
)

// PlanLedger is billing-ledger's side of months.
type PlanLedger interface {
	// Pool returns what is in the pool of a month.
	Pool(ctx context.Context, month string) (money.NanoUSD, error)
	// CloseMonth closes a month, unless the ledger counts otherwise: ErrCountsDiffer.
	CloseMonth(ctx context.Context, m MonthCount, pool money.NanoUSD) (ClosedMonth, error)
	// ClosedMonth returns a closed month, or ErrMonthOpen.
	ClosedMonth(ctx context.Context, month string) (ClosedMonth, error)
	// MonthShares returns a page of the shares of a closed month, and the token of the next one.
	MonthShares(ctx context.Context, month, token string) ([]PlanShare, string, error)
	// PostLate and PostRelease post what belongs to a closed month, once.
	PostLate(ctx context.Context, l Late) (ids.EntryID, error)
	PostRelease(ctx context.Context, r Release) (ids.EntryID, error)
}

// PlanStore keeps months.
type PlanStore interface {
	// DueMonths lists months that are not kept although the second day of the month behind them is committed, the
	// oldest first.
	DueMonths(ctx context.Context) ([]string, error)
	// LastDay returns the last day that is committed.
	LastDay(ctx context.Context) (time.Time, error)
	// CountMonth counts a month up to a day.
	CountMonth(ctx context.Context, month string, through time.Time) (MonthCount, error)
	// KeepMonth keeps a closed month with the shares that each passes to add, in one transaction.
	KeepMonth(ctx context.Context, m ClosedMonth, each func(add func([]PlanShare) error) error) error
	// DueLate and DueReleases list what is not posted of closed months, as far as days are committed.
	DueLate(ctx context.Context, limit int) ([]Late, error)
	DueReleases(ctx context.Context, limit int) ([]Release, error)
	// KeepLate and KeepRelease keep what is posted.
	KeepLate(ctx context.Context, l Late, entry ids.EntryID) error
	KeepRelease(ctx context.Context, r Release, entry ids.EntryID) error
}

// Months closes months of plans: when the second day of the next month is batched, because reviews take a day.
type Months struct {
	Store  PlanStore
	Ledger PlanLedger
	Log    *slog.Logger
}

// maxFollowUps bounds what one pass posts of closed months. The rest waits for the next.
const maxFollowUps = 1_000

// Pass closes the months that are due, and posts what came later. It returns how many months could not be closed.
func (m *Months) Pass(ctx context.Context) (waiting int, err error) {
	due, err := m.Store.DueMonths(ctx)
	if err != nil {
		return 0, err
	}
	failed := m.closeAll(ctx, due, &waiting)
	return waiting, errors.Join(failed, m.followUp(ctx))
}

// closeAll closes months in their order, up to one that fails. Those that are not closed are counted.
func (m *Months) closeAll(ctx context.Context, due []string, waiting *int) error {
	for i, month := range due {
		closed, err := m.close(ctx, month)
		if err != nil {
			*waiting += len(due) - i
			return fmt.Errorf("close the month %s: %w", month, err)
		}
		if !closed {
			*waiting++
		}
	}
	return nil
}

// close closes a month, and reports whether it is closed. A month that the ledger has closed already, because the
// process died then, is kept as it is there.
func (m *Months) close(ctx context.Context, month string) (bool, error) {
	closed, err := m.Ledger.ClosedMonth(ctx, month)
	if errors.Is(err, ErrMonthOpen) {
		return m.closeNow(ctx, month)
	}
	if err != nil {
		return false, err
	}
	return true, m.keep(ctx, closed)
}

func (m *Months) closeNow(ctx context.Context, month string) (bool, error) {
	through, err := m.Store.LastDay(ctx)
	if err != nil {
		return false, err
	}
	count, err := m.Store.CountMonth(ctx, month, through)
	if err != nil {
		return false, err
	}
	if count.Blocked > 0 {
		m.Log.ErrorContext(ctx, "a month of plans waits for providers that are blocked", "month", month,
			"providers", count.Blocked)
		return false, nil
	}
	pool, err := m.Ledger.Pool(ctx, month)
	if err != nil {
		return false, err
	}
	closed, err := m.Ledger.CloseMonth(ctx, count, pool)
	if errors.Is(err, ErrCountsDiffer) {
		m.Log.ErrorContext(ctx, "a month of plans cannot be closed", "month", month, "through",
			through.Format(time.DateOnly), "earned_usd", count.Earned.String(), "providers", count.Providers, "error", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	crash.At("settlement.month.closed")
	return true, m.keep(ctx, closed)
}

func (m *Months) keep(ctx context.Context, closed ClosedMonth) error {
	return m.Store.KeepMonth(ctx, closed, func(add func([]PlanShare) error) error {
		for token := ""; ; {
			shares, next, err := m.Ledger.MonthShares(ctx, closed.Month, token)
			if err != nil {
				return err
			}
			if err := add(shares); err != nil {
				return err
			}
			if token = next; token == "" {
				return nil
			}
		}
	})
}

// followUp posts what came after the close of months. What cannot be posted keeps nothing else waiting.
func (m *Months) followUp(ctx context.Context) error {
	var failed error
	late, err := m.Store.DueLate(ctx, maxFollowUps)
	if err != nil {
		return err
	}
	for _, l := range late {
		entry, err := m.Ledger.PostLate(ctx, l)
		if err == nil {
			err = m.Store.KeepLate(ctx, l, entry)
		}
		if err != nil {
			failed = fmt.Errorf("post what %s earned late by the plans of %s: %w", l.Provider, l.Month, err)
		}
	}
	releases, err := m.Store.DueReleases(ctx, maxFollowUps)
	if err != nil {
		return err
	}
	for _, r := range releases {
		entry, err := m.Ledger.PostRelease(ctx, r)
		if err == nil {
			err = m.Store.KeepRelease(ctx, r, entry)
		}
		if err != nil {
			failed = fmt.Errorf("post the released share of request %s: %w", r.Request, err)
		}
	}
	return failed
}
