package store_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/batch"
)

// plans are the ledger's side of months: it counts for itself, pays every month whole, and withholds what is held.
type plans struct {
	*books
	mu     sync.Mutex
	closed map[string]batch.ClosedMonth
	late   map[string]money.NanoUSD
	freed  map[ids.RequestID]bool
	shares []batch.PlanShare
	// deaf loses the answer of the next close.
	deaf bool
}

func newPlans(b *books) *plans {
	return &plans{books: b, closed: map[string]batch.ClosedMonth{}, late: map[string]money.NanoUSD{},
		freed: map[ids.RequestID]bool{}}
}

func (p *plans) Pool(context.Context, string) (money.NanoUSD, error) { return 1_000_000, nil }

func (p *plans) CloseMonth(_ context.Context, m batch.MonthCount, pool money.NanoUSD) (batch.ClosedMonth, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shares = nil
	var earned money.NanoUSD
	for at, has := range p.has {
		if at.kind == batch.PlanHeld && at.month == m.Month && has > 0 {
			s := batch.PlanShare{Provider: at.provider, Earned: has, Paid: has}
			for _, h := range p.held {
				if h.Provider == at.provider && h.Month == m.Month {
					s.Withheld += h.Amount
				}
			}
			s.WithheldPaid = s.Withheld
			p.shares = append(p.shares, s)
			earned += has
		}
	}
	if earned != m.Earned || int64(len(p.shares)) != m.Providers {
		return batch.ClosedMonth{}, fmt.Errorf("%w: %s by %d", batch.ErrCountsDiffer, earned, len(p.shares))
	}
	// The close is now, by the ledger's clock.
	c := batch.ClosedMonth{Month: m.Month, Through: m.Through, Earned: earned, Providers: m.Providers, Pool: pool,
		Paid: earned, At: p.today.Add(time.Duration(p.second) * time.Millisecond)}
	p.closed[m.Month] = c
	if p.deaf {
		p.deaf = false
		return batch.ClosedMonth{}, errKilled
	}
	return c, nil
}

func (p *plans) ClosedMonth(_ context.Context, month string) (batch.ClosedMonth, error) {
	if c, ok := p.closed[month]; ok {
		return c, nil
	}
	return batch.ClosedMonth{}, batch.ErrMonthOpen
}

// MonthShares gives one share a page, so that paging is walked.
func (p *plans) MonthShares(_ context.Context, _, token string) ([]batch.PlanShare, string, error) {
	i := len(token)
	if i+1 >= len(p.shares) {
		return p.shares[min(i, len(p.shares)):], "", nil
	}
	return p.shares[i : i+1], token + "x", nil
}

func (p *plans) PostLate(_ context.Context, l batch.Late) (ids.EntryID, error) {
	p.late[l.Month+" "+l.Day.Format(time.DateOnly)] += l.Amount
	return ids.NewEntry(time.Now(), rand.Reader)
}

func (p *plans) PostRelease(_ context.Context, r batch.Release) (ids.EntryID, error) {
	p.freed[r.Request] = true
	return ids.NewEntry(time.Now(), rand.Reader)
}

// hasClosedMarch checks what is kept of the month that the test closes.
func (c *closing) hasClosedMarch(t *testing.T) {
	t.Helper()
	kept, found, err := c.store.PlanMonth(t.Context(), "2026-03")
	if err != nil {
		t.Errorf("closed: got the error %v, want none", err)
	} else if !found {
		t.Error("closed: got no month, want it")
	} else if kept.Earned != 143 {
		t.Errorf("closed: got %+v, want 143 earned", kept)
	} else if kept.Providers != 2 {
		t.Errorf("closed: got %+v, want 2 providers", kept)
	}
	var shares int
	if err := c.pool.QueryRow(t.Context(), `SELECT count(*) FROM plan_share WHERE month = '2026-03'`).
		Scan(&shares); err != nil {
		t.Fatal(err)
	}
	if shares != 2 {
		t.Errorf("shares: got %d, want 2", shares)
	}
}

func TestAMonthOfPlansClosesOnceWithWhatCameLater(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	ledger := newPlans(c.books)
	months := &batch.Months{Store: c.store, Ledger: ledger, Log: slog.New(slog.DiscardHandler)}
	one, two := newProvider(t), newProvider(t)
	c.earn(t, batch.Plan, one, 100, false)
	withheld := c.earn(t, batch.Plan, two, 40, true)
	c.earn(t, batch.Plan, two, 3, false)
	month := func() (waiting int, err error) {
		c.pass(t)
		return months.Pass(t.Context())
	}
	for c.books.today.Before(time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC)) {
		c.books.midnight()
	}
	if _, err := month(); err != nil {
		t.Fatalf("before the second day is batched: got the error %v, want none", err)
	} else if len(ledger.closed) != 0 {
		t.Fatalf("before the second day is batched: got %d months closed, want none", len(ledger.closed))
	}
	c.books.midnight()
	ledger.deaf = true
	if _, err := month(); err == nil {
		t.Fatal("an answer that was lost: got no error, want one")
	}
	if waiting, err := month(); err != nil {
		t.Fatalf("the second day batched: got the error %v, want none", err)
	} else if waiting != 0 {
		t.Fatalf("the second day batched: got %d months waiting, want none", waiting)
	}
	c.hasClosedMarch(t)
	// Of the closed month, 7 and 5 are recorded later, 5 of them held, and what was held at the close is released.
	last := c.books.today
	for amount, held := range map[money.NanoUSD]bool{7: false, 5: true} {
		r := request(t, time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC))
		ownLine(t, c.pool, r, one, amount, "hub")
		c.books.earn(batch.Plan, one, r, amount, held)
		if held {
			defer func(r ids.RequestID) {
				day := c.books.today
				c.books.end(r, batch.Released)
				c.books.midnight()
				for range 2 {
					if _, err := month(); err != nil {
						t.Error(err)
					}
				}
				if got := ledger.late["2026-03 "+day.Format(time.DateOnly)]; got != 5 {
					t.Errorf("late and released: got %s, want 5 once", got)
				}
			}(r)
		}
	}
	c.books.end(withheld, batch.Released)
	c.books.midnight()
	for range 2 {
		if _, err := month(); err != nil {
			t.Fatal(err)
		}
	}
	if got := ledger.late["2026-03 "+last.Format(time.DateOnly)]; got != 7 {
		t.Errorf("late: got %s, want 7 once, without what is held", got)
	}
	if !ledger.freed[withheld] {
		t.Errorf("released: got %v, want the request that was held at the close", ledger.freed)
	}
	c.audit(t)
}

func TestAMonthWaitsForWhoIsBlocked(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	ledger := newPlans(c.books)
	months := &batch.Months{Store: c.store, Ledger: ledger, Log: slog.New(slog.DiscardHandler)}
	c.closer.Start = firstDay
	r, p := request(t, c.books.today), newProvider(t)
	c.books.earn(batch.Plan, p, r, 100, false)
	for c.books.today.Before(time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC)) {
		c.books.midnight()
	}
	c.pass(t)
	if waiting, err := months.Pass(t.Context()); err != nil {
		t.Errorf("a blocked provider: got the error %v, want none", err)
	} else if waiting != 1 {
		t.Errorf("a blocked provider: got %d months waiting, want 1", waiting)
	}
	if n, err := c.store.Unblock(t.Context(), p, "looked at"); err != nil {
		t.Errorf("lifted: got the error %v, want none", err)
	} else if n != 1 {
		t.Errorf("lifted: got %d, want 1", n)
	}
	if waiting, err := months.Pass(t.Context()); err != nil {
		t.Errorf("lifted: got the error %v, want none", err)
	} else if waiting != 0 {
		t.Errorf("lifted: got %d months waiting, want none", waiting)
	}
}
