package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func shares(held ...money.NanoUSD) []Share {
	out := make([]Share, len(held))
	for i, h := range held {
		out[i] = Share{Provider: ids.ProviderID{byte(i + 1)}, Held: h}
	}
	return out
}

func closeMonth(t *testing.T, pool money.NanoUSD, all []Share) []Entry {
	t.Helper()
	var n byte
	entries, err := PlanClose(func() (ids.EntryID, error) {
		n++
		return ids.EntryID{n}, nil
	}, "2026-03", pool, all)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestAMonthIsClosedFromItsPool(t *testing.T) {
	for _, tc := range []struct {
		name string
		pool money.NanoUSD
		held []Share
		want []string
	}{
		{"13 the pool covers it", 20, shares(5, 7), []string{
			"D l:provider:plan_held/2026-03 5; C l:provider:payable 5",
			"D l:provider:plan_held/2026-03 7; C l:provider:payable 7",
			"D l:plan_pool/2026-03 20; C x:plan_accrual/2026-03 12; C r:plan 8",
		}},
		{"13 to the last", 12, shares(5, 7), []string{
			"D l:provider:plan_held/2026-03 5; C l:provider:payable 5",
			"D l:provider:plan_held/2026-03 7; C l:provider:payable 7",
			"D l:plan_pool/2026-03 12; C x:plan_accrual/2026-03 12",
		}},
		// 10·5/15 = 3 1/3, 10·7/15 = 4 2/3, 10·3/15 = 2: the one left goes to the second.
		{"14 the pool is short", 10, shares(5, 7, 3), []string{
			"D l:provider:plan_held/2026-03 5; C l:provider:payable 3; C x:plan_accrual/2026-03 2",
			"D l:provider:plan_held/2026-03 7; C l:provider:payable 5; C x:plan_accrual/2026-03 2",
			"D l:provider:plan_held/2026-03 3; C l:provider:payable 2; C x:plan_accrual/2026-03 1",
			"D l:plan_pool/2026-03 10; C x:plan_accrual/2026-03 10",
		}},
		{"14 equal remainders go by provider", 2, shares(1, 1, 1), []string{
			"D l:provider:plan_held/2026-03 1; C l:provider:payable 1",
			"D l:provider:plan_held/2026-03 1; C l:provider:payable 1",
			"D l:provider:plan_held/2026-03 1; C x:plan_accrual/2026-03 1",
			"D l:plan_pool/2026-03 2; C x:plan_accrual/2026-03 2",
		}},
		{"14 an empty pool", 0, shares(1), []string{"D l:provider:plan_held/2026-03 1; C x:plan_accrual/2026-03 1"}},
		{"13 nobody served", 6, nil, []string{"D l:plan_pool/2026-03 6; C r:plan 6"}},
		{"nothing at all", 0, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, e := range closeMonth(t, tc.pool, tc.held) {
				got = append(got, legs(e))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("entries\n%q\nwant\n%q", got, tc.want)
			}
		})
	}
}

// After the close nothing is left in the month's accounts, every provider is
// within one nano-USD of its exact share, and the order of the shares decides
// nothing.
func TestClosingAMonthIsExactForAnyShares(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		var held []money.NanoUSD
		var total money.NanoUSD
		limit := []int64{3, 1000, int64(MaxAmount) / 12}[r.IntN(3)]
		for range r.IntN(12) {
			held = append(held, money.NanoUSD(1+r.Int64N(limit)))
			total += held[len(held)-1]
		}
		pool := money.NanoUSD(r.Int64N(int64(total)*5/4 + 2))
		all := shares(held...)
		divided, err := DividePool(pool, all)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := slices.Clone(all)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again, err := DividePool(pool, shuffled); err != nil {
			t.Fatalf("pool %d, shares: got the error %v, want none", pool, err)
		} else if !slices.Equal(again, divided) {
			t.Fatalf("pool %d, shares: again: got %+v, want %+v", pool, again, divided)
		}
		var paid money.NanoUSD
		for _, s := range divided {
			paid += s.Paid
			exact := float64(s.Held) * min(1, float64(pool)/float64(total))
			switch {
			case s.Paid > s.Held || s.Paid < 0:
				t.Fatalf("pool %d, shares: s.Paid: got %d, want at most %d and at least 0", pool, s.Paid, s.Held)
			case total < 1e9 && float64(s.Paid) <= exact-1:
				t.Fatalf("pool %d, shares: s.Paid: got %v, want more than %v, where total < 1e9", pool, float64(s.Paid), exact-1)
			case total < 1e9 && float64(s.Paid) >= exact+1:
				t.Fatalf("pool %d, shares: s.Paid: got %v, want less than %v, where total < 1e9", pool, float64(s.Paid), exact+1)
			}
		}
		if paid != min(pool, total) {
			t.Fatalf("pool: got %d, want %d", paid, min(pool, total))
		}
		// As the month's requests and sales left the books.
		balance := map[AccountKind]money.NanoUSD{PlanPool: pool, PlanAccrual: -total, PlanHeld: total}
		for _, e := range closeMonth(t, pool, all) {
			for _, p := range e.Postings {
				balance[p.Account.Kind] += p.Amount
			}
		}
		switch {
		case balance[PlanPool] != 0:
			t.Fatalf("pool %d, shares: balance[PlanPool]: got %v, want 0", pool, balance[PlanPool])
		case balance[PlanAccrual] != 0:
			t.Fatalf("pool %d, shares: balance[PlanAccrual]: got %v, want 0", pool, balance[PlanAccrual])
		case balance[PlanHeld] != 0:
			t.Fatalf("pool %d, shares: balance[PlanHeld]: got %v, want 0", pool, balance[PlanHeld])
		}
	}
}

func TestSharesOutOfRangeAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		pool money.NanoUSD
		held []Share
	}{
		"negative pool":  {-1, shares(1)},
		"zero share":     {1, shares(0)},
		"negative share": {1, shares(-5, 10)},
		"no provider":    {1, []Share{{Held: 1}}},
		"twice":          {1, []Share{{Provider: provider, Held: 1}, {Provider: provider, Held: 2}}},
		"too much":       {1, shares(MaxAmount, 1)},
		"huge pool":      {MaxAmount + 1, shares(1)},
	} {
		if _, err := DividePool(tc.pool, tc.held); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
