package entries

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// reads are balances that a store is asked for.
type reads struct {
	n    int
	fail error
}

func (r *reads) Balances(context.Context) ([]Balance, time.Time, error) {
	r.n++
	return []Balance{
		{Account: ledger.Bank, Asset: ledger.USD, Amount: -3},
		{Account: ledger.Available, Asset: ledger.USD, Amount: money.NanoUSD(2 + r.n)},
	}, time.Now(), r.fail
}

func TestATrialBalanceIsReadOnceAMinuteHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &reads{fail: errors.New("away")}
		trials := NewTrials(store, clock.System)
		if _, err := trials.Trial(t.Context()); !errors.Is(err, store.fail) {
			t.Errorf("the store is away: got the error %v, want %v", err, store.fail)
		}
		store.n, store.fail = 0, nil
		for range 3 {
			trial, err := trials.Trial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !trial.Balanced() {
				t.Errorf("the totals: got %+v, want zero", trial.Totals)
			}
			if got := trial.Balances[0].Account; got != ledger.Bank {
				t.Errorf("the first account: got %s, want %s", got, ledger.Bank)
			}
		}
		if store.n != 1 {
			t.Errorf("reads within a minute: got %d, want 1", store.n)
		}
		time.Sleep(goodFor) //nolint:forbidigo // of a synctest bubble
		trial, err := trials.Trial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if trial.Balanced() {
			t.Errorf("after a minute: got %+v, want another reading, which does not balance", trial.Totals)
		}
	})
}

// A part of the wallets that is sound says nothing of another part, in which a comparison before found a row.
func TestAnInvariantHoldsWhenAWholePassHasFoundNothing(t *testing.T) {
	var c Compared
	if list, pass, _ := c.Found(); pass.Number != 0 {
		t.Fatalf("before the first comparison: got %v of %+v, want no pass", list, pass)
	}
	rules := []Rule{{Name: "a", Scope: "some"}, {Name: "b", Scope: "some"}}
	began := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		drift                        int // of the rule a
		last                         bool
		want                         int // of the rule a
		pass, comparisons, completed int
	}{
		{2, false, 2, 1, 1, 0},
		{0, false, 2, 1, 2, 0}, // the next wallets are sound, and the rows before are not
		{1, true, 2, 1, 3, 1},
		{0, false, 2, 2, 1, 1}, // another pass has not been there yet
		{0, true, 0, 2, 2, 2},
		{0, false, 0, 3, 1, 2},
	} {
		at := began.Add(time.Duration(i) * time.Minute)
		c.Add(rules, Comparison{At: at, Drift: map[string]int{"a": step.drift}, Last: step.last})
		list, pass, complete := c.Found()
		if got := list[0].Drift; got != step.want {
			t.Errorf("comparison %d: drift of a: got %d, want %d", i, got, step.want)
		}
		if got := list[1].Drift; got != 0 {
			t.Errorf("comparison %d: drift of b: got %d, want 0", i, got)
		}
		if !list[0].CheckedAt.Equal(at) {
			t.Errorf("comparison %d: checked at: got %v, want %v", i, list[0].CheckedAt, at)
		}
		if pass.Number != step.pass {
			t.Errorf("comparison %d: pass: got %d, want %d", i, pass.Number, step.pass)
		}
		if pass.Comparisons != step.comparisons {
			t.Errorf("comparison %d: comparisons of the pass: got %d, want %d", i, pass.Comparisons, step.comparisons)
		}
		if pass.Complete != step.last {
			t.Errorf("comparison %d: complete: got %t, want %t", i, pass.Complete, step.last)
		}
		if complete.Number != step.completed {
			t.Errorf("comparison %d: the last complete pass: got %d, want %d", i, complete.Number, step.completed)
		}
	}
}

func TestACursorReadsAsThePlaceThatItWasMadeOf(t *testing.T) {
	want := Place{At: time.Date(2026, 11, 29, 1, 2, 3, 456_000, time.UTC), ID: ids.EntryID{1, 2, 3}}
	got, err := readCursor(writeCursor(want))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
