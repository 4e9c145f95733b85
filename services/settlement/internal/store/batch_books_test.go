package store_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/batch"
)

// books are the ledger's books of providers, by the rules of its lines. They list sealed days as the ledger does.
type books struct {
	mu       sync.Mutex
	today    time.Time
	second   int
	changes  map[time.Time][]batch.Change
	balances map[time.Time][]batch.Balance
	sealed   map[time.Time]bool
	has      map[account]money.NanoUSD
	moved    map[account]money.NanoUSD
	held     map[ids.RequestID]batch.Change
	posted   map[string]batch.Posting
	entries  map[string]ids.EntryID
}

type account struct {
	provider    ids.ProviderID
	kind, month string
}

func newBooks(today time.Time) *books {
	return &books{today: today, changes: map[time.Time][]batch.Change{}, balances: map[time.Time][]batch.Balance{},
		sealed: map[time.Time]bool{}, has: map[account]money.NanoUSD{}, moved: map[account]money.NanoUSD{},
		held: map[ids.RequestID]batch.Change{}, posted: map[string]batch.Posting{}, entries: map[string]ids.EntryID{}}
}

// record adds a change of today.
func (b *books) record(c batch.Change) {
	b.second++
	c.At = b.today.Add(time.Duration(b.second) * time.Millisecond)
	b.changes[b.today] = append(b.changes[b.today], c)
	switch c.Kind {
	case batch.Held, batch.Released, batch.HeldRefunded, batch.Forfeited, batch.HeldReversed:
	default:
		at := account{c.Provider, c.Account, c.Month}
		b.has[at] += c.Amount
		b.moved[at] += c.Amount
	}
}

// midnight seals today.
func (b *books) midnight() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, moved := range b.moved {
		b.balances[b.today] = append(b.balances[b.today],
			batch.Balance{Provider: at.provider, Account: at.kind, Month: at.month, Moved: moved, Balance: b.has[at]})
	}
	clear(b.moved)
	b.sealed[b.today] = true
	b.today, b.second = b.today.AddDate(0, 0, 1), 0
}

// free is what a provider has accrued and is not held.
func (b *books) free(p ids.ProviderID) money.NanoUSD {
	free := b.has[account{p, batch.Accrued, ""}]
	for _, h := range b.held {
		if h.Provider == p && h.Month == "" {
			free -= h.Amount
		}
	}
	return free
}

// Changes lists three a page, so that paging is walked.
func (b *books) Changes(_ context.Context, day time.Time, token string) ([]batch.Change, string, batch.Seal, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seal := batch.Seal(sha256.Sum256([]byte(day.String())))
	if !b.sealed[day] {
		return nil, "", seal, batch.ErrDayOpen
	}
	from, _ := strconv.Atoi(token)
	all := b.changes[day]
	to := min(from+3, len(all))
	if to == len(all) {
		return slices.Clone(all[from:to]), "", seal, nil
	}
	return slices.Clone(all[from:to]), strconv.Itoa(to), seal, nil
}

func (b *books) Balances(_ context.Context, day time.Time, _ string) ([]batch.Balance, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.balances[day]), "", nil
}

func (b *books) Free(_ context.Context, p ids.ProviderID) (money.NanoUSD, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free(p), nil
}

func (b *books) Post(_ context.Context, p batch.Posting) (ids.EntryID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := fmt.Sprintf("%s/%s/%s", p.Day.Format(time.DateOnly), p.Provider, p.Chain)
	if first, ok := b.posted[id]; ok {
		if first.Amount != p.Amount {
			return ids.EntryID{}, batch.ErrReused
		}
		return b.entries[id], nil
	}
	if p.Amount <= 0 || b.free(p.Provider) < p.Amount {
		return ids.EntryID{}, batch.ErrRefused
	}
	entry, err := ids.NewEntry(time.Now(), rand.Reader)
	if err != nil {
		return entry, err
	}
	b.posted[id], b.entries[id] = p, entry
	taken := min(p.Amount, -b.has[account{p.Provider, batch.Receivable, ""}])
	b.entry(entry, p.Provider, "earnings_batch", id, map[string]money.NanoUSD{
		batch.Accrued: -p.Amount, batch.Payable: p.Amount - taken, batch.Receivable: taken})
	return entry, nil
}

// entry records the legs of an entry that are not zero.
func (b *books) entry(
	entry ids.EntryID, p ids.ProviderID, kind, business string, legs map[string]money.NanoUSD,
) {
	for _, to := range slices.Sorted(maps.Keys(legs)) {
		if legs[to] != 0 {
			b.record(batch.Change{Kind: batch.Entry, Entry: entry, Provider: p, Account: to, Amount: legs[to],
				EntryKind: kind, BusinessID: business})
		}
	}
}

// earn records a request; held ones wait for a person.
func (b *books) earn(kind batch.Kind, p ids.ProviderID, r ids.RequestID, amount money.NanoUSD, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := batch.Change{Kind: kind, Request: r, Provider: p, Account: batch.Accrued, Amount: amount}
	if kind == batch.Plan {
		c.Account, c.Month = batch.PlanHeld, r.Day().Format("2006-01")
	}
	b.record(c)
	if held {
		c.Kind = batch.Held
		b.record(c)
		b.held[r] = c
	}
}

// end ends what is held of a request.
func (b *books) end(r ids.RequestID, as batch.Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.held[r]; ok {
		delete(b.held, r)
		c.Kind = as
		b.record(c)
	}
}

// refund takes an amount back: of what is free, then of what is payable, and the rest becomes a debt.
func (b *books) refund(p ids.ProviderID, r ids.RequestID, amount money.NanoUSD) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.held[r]; ok {
		delete(b.held, r)
		c.Kind = batch.HeldRefunded
		b.record(c)
	}
	legs := map[string]money.NanoUSD{batch.Accrued: -min(amount, b.free(p))}
	legs[batch.Payable] = -min(amount+legs[batch.Accrued], b.has[account{p, batch.Payable, ""}])
	legs[batch.Receivable] = -(amount + legs[batch.Accrued] + legs[batch.Payable])
	entry, _ := ids.NewEntry(time.Now(), rand.Reader)
	for _, to := range slices.Sorted(maps.Keys(legs)) {
		if legs[to] != 0 {
			b.record(batch.Change{Kind: batch.Refund, Request: r, Entry: entry, Provider: p, Account: to,
				Amount: legs[to], EntryKind: "request_refund", BusinessID: r.String()})
		}
	}
}

// ownLine is settlement's own line of a request.
func ownLine(t *testing.T, pool *pgxpool.Pool, r ids.RequestID, p ids.ProviderID, amount money.NanoUSD, source string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id,
		price_version_id, prompt_tokens, completion_tokens, payout_nano_usd, evidence_source)
		VALUES ($1, $2, $3, 1, 'm', gen_random_uuid(), 1, 1, $4, $5)`, r.Day(), r, p, int64(amount), source); err != nil {
		t.Fatal(err)
	}
}
