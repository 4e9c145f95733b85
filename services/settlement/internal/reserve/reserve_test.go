package reserve

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
)

func at(place, held, owed uint64) Reading {
	return Reading{Subject: "8453:usdc", Chain: chain.Base, At: place, Held: chain.NewAmount(held),
		Owed: chain.NewAmount(owed)}
}

func TestTwoReadingsAtDifferentBlocksConfirmAShortfallAndItsEnd(t *testing.T) {
	t.Parallel()
	var s Finding
	for i, step := range []struct {
		reading Reading
		want    bool
	}{
		{at(1, 10, 10), false},
		{at(2, 9, 10), false}, // one unit lacks, once
		{at(2, 9, 10), false}, // the same block again
		{at(3, 10, 10), false},
		{at(4, 9, 10), false},
		{at(5, 8, 10), true},
		{at(6, 10, 10), true}, // covered once
		{at(6, 11, 10), true},
		{at(7, 9, 10), true},
		{at(8, 10, 10), true},
		{at(7, 10, 10), true}, // an older block
		{at(9, 10, 10), false},
	} {
		if s = s.After(step.reading); s.Confirmed != step.want {
			t.Errorf("step %d: confirmed: got %t, want %t", i, s.Confirmed, step.want)
		}
	}
}

func TestNoStandingChangesWithoutTwoReadingsThatSayTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var s Finding
	var last Reading
	place := uint64(1)
	for range 10_000 {
		place += uint64(random.IntN(2))
		r := at(place, uint64(random.IntN(3)), 1)
		next := s.After(r)
		same := r.Short() == last.Short()
		if next.Confirmed != s.Confirmed && !same {
			t.Fatalf("after %v and %v: confirmed: got %t, want %t", last, r, next.Confirmed, s.Confirmed)
		}
		s, last = next, r
	}
}

func TestABookShortfallHaltsEveryChainAndAChainsItsOwn(t *testing.T) {
	t.Parallel()
	s := Finding{Reading: at(1, 0, 1), Confirmed: true}
	if !s.Halts(chain.Base) {
		t.Error("its own chain: got false, want true")
	}
	if s.Halts(chain.SVC) {
		t.Error("another chain: got true, want false")
	}
	if books := (Finding{Reading: Reading{Subject: Books}, Confirmed: true}); !books.Halts(chain.SVC) {
		t.Error("the books: got false, want true")
	}
}

func TestTheOwnerStandsForWhatWasGivenAway(t *testing.T) {
	t.Parallel()
	sheet := Sheet{Crypto: 10 * money.USD, Card: 5 * money.USD, Bank: -3 * money.USD, Consumers: 8 * money.USD,
		Providers: 5 * money.USD, Others: money.USD, At: time.Unix(7, 0)}
	for _, c := range []struct {
		funds money.NanoUSD
		short bool
	}{{2*money.USD - 1, true}, {2 * money.USD, false}} {
		r := Terms{OwnFunds: c.funds}.reading(sheet)
		if r.Short() != c.short {
			t.Errorf("funds of %s: short: got %t, want %t, in %s", c.funds, r.Short(), c.short, r)
		}
		if r.At != 7 {
			t.Errorf("place: got %d, want 7", r.At)
		}
	}
}

// still is a chain without any balances, and rows of gas that the books do not have.
type still struct {
	Node
	Rows
}

func (still) Final(context.Context) (chain.Block, error) { return chain.Block{Number: 7}, nil }

func (still) Balances(_ context.Context, of []chain.Address, _ chain.Block) ([]chain.Amount, error) {
	return make([]chain.Amount, len(of)), nil
}

func (still) Leaving(context.Context, chain.ID) ([]Leaving, error)         { return nil, nil }
func (still) Senders(context.Context, chain.ID) ([]chain.Address, error)   { return nil, nil }
func (still) Unswept(context.Context, string, int64, int) ([]Place, error) { return nil, nil }
func (still) Gas(context.Context, chain.ID) (chain.Amount, error)          { return chain.NewAmount(9), nil }

func TestMoreGasThanTheBooksHaveOwesNothing(t *testing.T) {
	t.Parallel()
	for _, units := range []int64{0, -5} {
		l := Looker{Rows: still{}, Node: still{}, Config: chain.Config{ID: chain.Base}}
		readings, err := l.Tokens(t.Context(), func(context.Context) (map[string]int64, error) {
			return map[string]int64{"8453:eth": units}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(readings); got != 1 {
			t.Fatalf("readings: got %d, want 1", got)
		}
		if !readings[0].Owed.IsZero() {
			t.Errorf("%d units in the books: owed: got %s, want 0", units, readings[0].Owed)
		}
	}
}
