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
		out[i] = Share{Provider: ids.ProviderID{byte(i + 1)}, Earned: h}
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
			exact := float64(s.Earned) * min(1, float64(pool)/float64(total))
			switch {
			case s.Paid > s.Earned || s.Paid < 0:
				t.Fatalf("pool %d, shares: s.Paid: got %d, want at most %d and at least 0", pool, s.Paid, s.Earned)
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

// What is held when a month is closed stops nobody's payment, and leaves nothing behind,
// however it ends.
func TestWithheldEarningsEndExactlyAfterTheClose(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		balance := map[AccountKind]money.NanoUSD{}
		add := func(e Entry, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range e.Postings {
				balance[p.Account.Kind] += p.Amount
			}
		}
		var all []Share
		var total money.NanoUSD
		for i := range 1 + r.IntN(8) {
			s := Share{Provider: ids.ProviderID{byte(i + 1)}, Earned: money.NanoUSD(1 + r.Int64N(1000))}
			s.Withheld = money.NanoUSD(r.Int64N(int64(s.Earned) + 1))
			total += s.Earned
			all = append(all, s)
		}
		pool := money.NanoUSD(r.Int64N(int64(total)*5/4 + 2))
		balance[PlanPool], balance[PlanAccrual], balance[PlanHeld] = pool, -total, total
		divided, err := DividePool(pool, all)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range closeMonth(t, pool, all) {
			add(e, nil)
		}
		var waits money.NanoUSD
		for _, s := range divided {
			waits += s.Withheld - s.WithheldPaid
		}
		if got := -balance[PlanAccrual]; got != waits {
			t.Fatalf("accrual of the closed month: got %d, want what is withheld and unpaid, %d", got, waits)
		}
		for _, s := range divided {
			for w := (Withheld{s.Withheld, s.WithheldPaid}); w.Earned > 0; {
				n := money.NanoUSD(1 + r.Int64N(int64(w.Earned)))
				var paid money.NanoUSD
				if paid, w, err = w.End(n); err != nil {
					t.Fatal(err)
				}
				if r.IntN(2) == 0 {
					add(PlanShare(newFact("released"), s.Provider, "2026-03", n, paid, 0))
					continue
				}
				add(PlanForfeit(newFact("forfeited"), s.Provider, "2026-03", n))
				if paid > 0 {
					add(PlanUnclaim(newFact("unclaimed"), "2026-03", paid))
				}
			}
		}
		for _, kind := range []AccountKind{PlanPool, PlanAccrual, PlanHeld} {
			if balance[kind] != 0 {
				t.Fatalf("%s: got %d, want 0", kind, balance[kind])
			}
		}
		if got := balance[Payable] + balance[PlanRevenue]; got != pool {
			t.Fatalf("paid and revenue: got %d, want the pool, %d", got, pool)
		}
	}
}

func TestNothingEndsThatIsNotHeld(t *testing.T) {
	for _, tc := range []struct {
		Withheld
		ends money.NanoUSD
	}{
		{Withheld{5, 3}, 6}, {Withheld{5, 3}, 0}, {Withheld{5, 3}, -1}, {Withheld{}, 1}, {Withheld{5, 6}, 1},
	} {
		if _, _, err := tc.End(tc.ends); err == nil {
			t.Errorf("%d of %+v: accepted", tc.ends, tc.Withheld)
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
		"no provider":    {1, []Share{{Earned: 1}}},
		"twice":          {1, []Share{{Provider: provider, Earned: 1}, {Provider: provider, Earned: 2}}},
		"too much":       {1, shares(MaxAmount, 1)},
		"huge pool":      {MaxAmount + 1, shares(1)},
		"held too much":  {1, []Share{{Provider: provider, Earned: 1, Withheld: 2}}},
		"held below 0":   {1, []Share{{Provider: provider, Earned: 1, Withheld: -1}}},
		"negative debt":  {1, []Share{{Provider: provider, Earned: 1, Owed: -1}}},
	} {
		if _, err := DividePool(tc.pool, tc.held); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
