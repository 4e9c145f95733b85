package entries

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Balance is what the accounts of a kind come to: credits less debits. A total has no kind.
type Balance struct {
	Account ledger.AccountKind
	Book    string
	Asset   ledger.Asset
	Amount  money.NanoUSD
}

// Trial is a trial balance.
type Trial struct {
	Balances, Totals []Balance
	At               time.Time
}

// Balanced reports whether every total is zero.
func (t Trial) Balanced() bool {
	return !slices.ContainsFunc(t.Totals, func(b Balance) bool { return b.Amount != 0 })
}

// BalanceStore reads what all accounts come to, on one view of the data.
type BalanceStore interface {
	Balances(ctx context.Context) ([]Balance, time.Time, error)
}

// goodFor is how long a trial balance is shown, because reading one takes the longer the more
// providers and days there are.
const goodFor = time.Minute

// Trials answers operators. It is safe for concurrent use.
type Trials struct {
	store BalanceStore
	clock clock.Clock
	// turn is held while the last trial balance is read or made, so that one caller makes it and the
	// others wait for it.
	turn   chan struct{}
	last   Trial
	madeAt time.Time
	made   bool
}

// NewTrials returns trial balances of a store.
func NewTrials(store BalanceStore, c clock.Clock) *Trials {
	return &Trials{store: store, clock: c, turn: make(chan struct{}, 1)}
}

// Trial returns a trial balance that is at most a minute old.
func (t *Trials) Trial(ctx context.Context) (Trial, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return Trial{}, fmt.Errorf("wait for the trial balance: %w", ctx.Err())
	}
	defer func() { <-t.turn }()
	now := t.clock.Now()
	if age := now.Sub(t.madeAt); t.made && age >= 0 && age < goodFor {
		return t.last, nil
	}
	list, at, err := t.store.Balances(ctx)
	if err != nil {
		return Trial{}, fmt.Errorf("read what the accounts come to: %w", err)
	}
	t.last, t.madeAt, t.made = trialOf(list, at), now, true
	return t.last, nil
}

// trialOf sorts and adds up balances.
func trialOf(list []Balance, at time.Time) Trial {
	sums := map[ledger.Asset]money.NanoUSD{ledger.USD: 0}
	for _, b := range list {
		sums[b.Asset] += b.Amount
	}
	t := Trial{Balances: list, At: at}
	for _, asset := range slices.Sorted(maps.Keys(sums)) {
		t.Totals = append(t.Totals, Balance{Asset: asset, Amount: sums[asset]})
	}
	slices.SortFunc(t.Balances, func(a, b Balance) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Book, b.Book), cmp.Compare(a.Asset, b.Asset))
	})
	return t
}
