package slash_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/slash"
)

var dollars = position.Rules{Chain: chain.Base, Asset: chain.Asset{Chain: chain.Base, Kind: chain.USDC, Decimals: 6}}

var coins = position.Rules{Chain: chain.SVC, Asset: chain.Asset{Chain: chain.SVC, Kind: chain.Coin, Decimals: 18}}

func draft(share int32) penalty.Draft {
	return penalty.Draft{ID: penalty.ID{1}, ProviderID: ids.ProviderID{2}, ShareBasisPoints: share}
}

func free(on chain.ID, depositor byte, amount uint64) position.Position {
	return position.Position{Chain: on, Depositor: chain.Address{19: depositor}, Free: chain.NewAmount(amount)}
}

func TestAPenaltyTakesItsShareOfEachPositionAndTheLargestTakesTheRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		share int32
		all   []position.Position
		// want are the units that are taken, by the last byte of the depositor.
		want map[byte]int64
	}{
		"a share of one":     {1_000, []position.Position{free(chain.Base, 1, 1_000)}, map[byte]int64{1: 100}},
		"it is rounded down": {1_000, []position.Position{free(chain.Base, 1, 1_009)}, map[byte]int64{1: 100}},
		// 33, 3 and 3 are 9, 0 and 0 of 30 %, and 39 are 11.
		"the largest takes the rest": {3_000, []position.Position{free(chain.Base, 1, 3), free(chain.Base, 2, 33),
			free(chain.Base, 3, 3)}, map[byte]int64{2: 11}},
		"of two that are equal the lower address": {3_000, []position.Position{free(chain.Base, 2, 5),
			free(chain.Base, 1, 5)}, map[byte]int64{1: 2, 2: 1}},
		"less than a unit is left out": {100, []position.Position{free(chain.Base, 1, 99)}, nil},
		"a position on a chain without rules": {1_000, []position.Position{free(chain.Ethereum, 1, 1_000)},
			nil},
	} {
		got := map[byte]int64{}
		for _, p := range slash.Divide(draft(c.share), []position.Rules{dollars}, position.Holdings{Positions: c.all}, 0) {
			got[p.Depositor[19]] = p.Units
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		for depositor, want := range c.want {
			if got[depositor] != want {
				t.Errorf("%s: of depositor %d got %d, want %d", name, depositor, got[depositor], want)
			}
		}
	}
}

// What open penalties have set aside counts as collateral, because shares are parts of one whole, but it is not taken
// twice.
func TestAShareIsOfEscrowTooAndTakesOnlyWhatIsFree(t *testing.T) {
	t.Parallel()
	half := position.Position{Chain: chain.Base, Free: chain.NewAmount(700), Escrow: chain.NewAmount(300)}
	taken := func(p position.Position, share int32) int64 {
		h := position.Holdings{Positions: []position.Position{p}}
		parts := slash.Divide(draft(share), []position.Rules{dollars}, h, 0)
		if len(parts) == 0 {
			return 0
		}
		return parts[0].Units
	}
	if got := taken(half, 3_000); got != 300 {
		t.Errorf("30 %% of 700 free and 300 in escrow: got %d, want 300", got)
	}
	if got := taken(half, 9_000); got != 700 {
		t.Errorf("90 %% of 700 free and 300 in escrow: got %d, want the 700 that are free", got)
	}
	if got := taken(position.Position{Chain: chain.Base, Escrow: chain.NewAmount(300)}, 3_000); got != 0 {
		t.Errorf("30 %% of 300 in escrow: got %d, want nothing", got)
	}
	card := func(free, escrow money.NanoUSD, share int32) money.NanoUSD {
		h := position.Holdings{Card: position.Card{Free: free}}
		for _, p := range slash.Divide(draft(share), nil, h, escrow) {
			return p.Card
		}
		return 0
	}
	if got, want := card(14*money.USD, 6*money.USD, 3_000), 6*money.USD; got != want {
		t.Errorf("30 %% of $14 by card and $6 in escrow: got %s, want %s", got, money.NanoUSD(want))
	}
	if got, want := card(20*money.USD+9*slash.Cent, 0, 1_000), 2*money.USD; got != want {
		t.Errorf("10 %% of $20.09 by card: got %s, want %s, in whole cents", got, money.NanoUSD(want))
	}
	if got := card(9*slash.Cent, 0, 1_000); got != 0 {
		t.Errorf("10 %% of 9 cents by card: got %s, want nothing", got)
	}
}

// Whatever stands behind a provider: the parts in one token are at most its share of the whole, all of it where enough
// is free, and none takes more than its position has free. What the books count of a part is what is taken on the
// chain.
func TestPartsAreWithinTheShareAndWithinWhatIsFree(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 14)) // the histories are the same every time
	for range 5_000 {
		rules := []position.Rules{dollars, coins}[r.IntN(2)]
		h := position.Holdings{Positions: make([]position.Position, 1+r.IntN(6))}
		scale := []uint64{10, 1_000_000_007, 5_000_000_000_000_000_000}[r.IntN(3)]
		for i := range h.Positions {
			h.Positions[i] = free(rules.Chain, byte(i+1), r.Uint64N(scale))
			if r.IntN(3) == 0 {
				h.Positions[i].Escrow = chain.NewAmount(r.Uint64N(scale))
			}
		}
		checkParts(t, rules, h, int32(1+r.IntN(penalty.MaxShare)))
		if t.Failed() {
			return
		}
	}
}

func checkParts(t *testing.T, rules position.Rules, h position.Holdings, share int32) {
	t.Helper()
	parts := slash.Divide(draft(share), []position.Rules{rules}, h, 0)
	var whole, escrow, largest chain.Amount
	for _, p := range h.Positions {
		whole, _ = whole.Add(p.Total())
		escrow, _ = escrow.Add(p.Escrow)
		if p.Free.Cmp(largest) > 0 {
			largest = p.Free
		}
	}
	most, _, _ := largest.Units(rules.Asset.Decimals)
	of, _ := whole.MulDiv(uint64(share), penalty.Whole)
	bound, _, _ := of.Units(rules.Asset.Decimals)
	var sum int64
	for _, p := range parts {
		sum += p.Units
		if amount, _ := chain.AmountOfUnits(p.Units, rules.Asset.Decimals); amount != p.Amount {
			t.Errorf("%d units are %s on the chain, want %s", p.Units, p.Amount, amount)
		}
		if p.Units <= 0 {
			t.Errorf("got a part of %d units, want above zero", p.Units)
		}
		i := slices.IndexFunc(h.Positions, func(one position.Position) bool { return one.Depositor == p.Depositor })
		if p.Amount.Cmp(h.Positions[i].Free) > 0 {
			t.Errorf("%s is taken of a position with %s free", p.Amount, h.Positions[i].Free)
		}
	}
	switch {
	case sum > bound:
		t.Errorf("%d of 10,000 of %s are %d units, and the parts %d", share, whole, bound, sum)
	case escrow.IsZero() && most >= bound && sum != bound:
		t.Errorf("%d of 10,000 of %s, enough of it free, are %d units, and the parts %d", share, whole, bound, sum)
	}
	slices.Reverse(h.Positions)
	again := slash.Divide(draft(share), []position.Rules{rules}, h, 0)
	if !slices.EqualFunc(parts, again, func(a, b slash.Part) bool { return a.ID == b.ID && a.Units == b.Units }) {
		t.Errorf("the parts depend on the order in which positions are read: %v and %v", parts, again)
	}
}

func TestPartsHaveIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := position.Holdings{Card: position.Card{Free: 20 * money.USD}, Positions: []position.Position{
		free(chain.Base, 1, 1_000), free(chain.Base, 2, 1_000), free(chain.SVC, 1, 1_000_000_000_000)}}
	seen := map[contract.Word]bool{}
	parts := slash.Divide(draft(1_000), []position.Rules{dollars, coins}, h, 0)
	for _, p := range parts {
		seen[p.ID] = true
	}
	if len(parts) != 4 {
		t.Errorf("got %d parts, want 4", len(parts))
	}
	if len(seen) != 4 {
		t.Errorf("got %d ids, want 4", len(seen))
	}
}
