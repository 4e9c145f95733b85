package store_test

import (
	"context"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/batch"
)

// history makes random days: two workers, each of whose calls may be lost, close and post them.
type history struct {
	*closing
	rng       *mathrand.Rand
	providers []ids.ProviderID
	requests  []batch.Change
	unheard   []batch.Change
	workers   [2]*batch.Closer
}

func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	h := &history{closing: newClosing(t), rng: mathrand.New(mathrand.NewPCG(seed, 1))}
	for range 3 {
		h.providers = append(h.providers, newProvider(t))
	}
	for i := range h.workers {
		f := &flaky{Store: h.store, books: h.books, rng: mathrand.New(mathrand.NewPCG(seed, uint64(i+2))), rate: 0.05}
		h.workers[i] = h.worker(f, f)
	}
	return h
}

// step is one event of a day.
func (h *history) step(t *testing.T) {
	t.Helper()
	p := h.providers[h.rng.IntN(len(h.providers))]
	amount := money.NanoUSD(1 + h.rng.IntN(1000))
	switch n := h.rng.IntN(12); {
	case n < 6:
		h.served(t, p, amount)
	case n < 7 && len(h.requests) > 0:
		h.books.end(h.requests[h.rng.IntN(len(h.requests))].Request, batch.Released)
	case n < 9 && len(h.requests) > 0:
		i := h.rng.IntN(len(h.requests))
		if c := h.requests[i]; c.Kind == batch.Payg {
			h.books.refund(c.Provider, c.Request, c.Amount)
			h.requests = append(h.requests[:i], h.requests[i+1:]...)
		}
	case n < 10:
		h.books.mu.Lock()
		if has := h.books.has[account{p, batch.Payable, ""}]; has > 0 {
			part := 1 + money.NanoUSD(h.rng.Int64N(int64(has)))
			h.books.entry(ids.EntryID(newID(t)), p, "earnings_credit", "c", map[string]money.NanoUSD{batch.Payable: -part})
		}
		h.books.mu.Unlock()
	default:
		h.work(t)
	}
}

// served is a request, of which settlement may hear late.
func (h *history) served(t *testing.T, p ids.ProviderID, amount money.NanoUSD) {
	t.Helper()
	kind := []batch.Kind{batch.Payg, batch.Payg, batch.Orphan, batch.Plan}[h.rng.IntN(4)]
	// Some are settled a day after they were made.
	r := request(t, h.books.today.AddDate(0, 0, -h.rng.IntN(2)))
	h.books.earn(kind, p, r, amount, h.rng.IntN(5) == 0)
	c := batch.Change{Kind: kind, Provider: p, Request: r, Amount: amount}
	h.requests = append(h.requests, c)
	if h.rng.IntN(40) == 0 {
		h.unheard = append(h.unheard, c)
		return
	}
	ownLine(t, h.pool, r, p, amount, "hub")
}

// work has both workers work at once.
func (h *history) work(t *testing.T) {
	t.Helper()
	h.clock.Advance(time.Hour)
	var both sync.WaitGroup
	for _, w := range h.workers {
		both.Go(func() {
			ctx := context.Background()
			_, _ = w.Pass(ctx, func(time.Time) error { return nil }) // lost calls fail
			_, _ = w.Post(ctx)
		})
	}
	both.Wait()
	h.age(t)
}

// finish mends all lines, and lets quiet days pass until nothing is carried.
func (h *history) finish(t *testing.T) {
	t.Helper()
	for _, c := range h.unheard {
		ownLine(t, h.pool, c.Request, c.Provider, c.Amount, "hub")
	}
	for range 3 {
		h.books.midnight()
		for range 4 {
			h.pass(t)
			h.age(t)
		}
	}
}

func TestOfEveryHistoryAllThatWasEarnedAndIsFreeIsBatchedOnce(t *testing.T) {
	t.Parallel()
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		h := newHistory(t, uint64(seed))
		if _, err := h.pool.Exec(t.Context(), `SELECT 1`); err != nil {
			t.Fatal(err)
		}
		h.closer.Start, h.workers[0].Start, h.workers[1].Start = firstDay, firstDay, firstDay
		for range 6 {
			for range 25 {
				h.step(t)
			}
			h.books.midnight()
		}
		h.finish(t)
		h.audit(t)
		for _, p := range h.providers {
			if free := h.books.free(p); free != 0 {
				t.Errorf("seed %d: free of %s that no batch has: got %s, want none", seed, p, free)
			}
			var posted, batched money.NanoUSD
			if err := h.pool.QueryRow(t.Context(), `SELECT coalesce(sum(posted), 0)::bigint,
				coalesce((SELECT balance FROM batch_balance WHERE provider_id = $1 AND account = 'batched'
					ORDER BY day DESC LIMIT 1), 0) FROM batch_share WHERE provider_id = $1`, p).Scan(&posted, &batched); err != nil {
				t.Fatal(err)
			}
			var entries money.NanoUSD
			for _, e := range h.books.posted {
				if e.Provider == p {
					entries += e.Amount
				}
			}
			if posted != entries {
				t.Errorf("seed %d: posted of %s: got %s, want the %s of the books", seed, p, posted, entries)
			}
		}
		var blocks, open int
		if err := h.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM batch_block),
			(SELECT count(*) FROM batch_share WHERE posted IS NULL)`).Scan(&blocks, &open); err != nil {
			t.Fatal(err)
		}
		if open != 0 {
			t.Errorf("seed %d: shares that are not posted: got %d, want none", seed, open)
		}
		t.Logf("seed %d: %d blocks", seed, blocks)
	}
}
