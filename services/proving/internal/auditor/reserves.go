package auditor

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// coinUnits is how many of a coin's smallest units make one unit of the books.
var coinUnits = big.NewInt(1_000_000_000)

// booked converts what a chain counts of an asset to the units of the books.
func booked(asset string, amount *big.Int) *big.Int {
	if strings.HasSuffix(asset, ":usdc") {
		return amount
	}
	return new(big.Int).Quo(amount, coinUnits)
}

// checkReserves checks that the platform holds what its books say. On each chain that was read, hot wallets, treasury
// and deposit addresses hold at least a:crypto of each asset, and the contract at least all positions. And what
// consumers and providers may claim is covered by a:crypto, a:card_clearing and a:bank, but for what the platform has
// given and lost: credit as goodwill, orphan work and all other expenses.
func (a *audit) checkReserves() {
	crypto := map[string]wide{}
	var assets, spent, claims wide
	for _, e := range a.entries {
		for _, p := range e.postings {
			if p.kind == "a:crypto" && p.asset != assetUSD {
				crypto[p.asset] = crypto[p.asset].minus(p.amount)
			}
			if p.asset == assetUSD {
				side(&assets, &spent, &claims, p.kind, p.amount)
			}
		}
	}
	for u, q := range a.requests {
		for i := range q.lines {
			for _, leg := range q.lines[i].legs(u) {
				side(&assets, &spent, &claims, leg.kind, leg.amount)
			}
		}
	}
	if cover := assets.add(spent); cover.less(claims) {
		a.r.found(Overdrawn, "reserves", "consumers and providers may claim %v, of which %v is held and %v was given or lost",
			claims, assets, spent)
	}
	a.checkHeld(crypto)
	a.checkCards()
}

// side adds a posting to the sum of its side.
func side(assets, spent, claims *wide, kind string, amount int64) {
	switch {
	case kind == "a:crypto" || kind == "a:card_clearing" || kind == "a:bank":
		*assets = assets.minus(amount)
	case strings.HasPrefix(kind, "e:") || kind == kindPlanDebt || strings.HasSuffix(kind, "_receivable"):
		*spent = spent.minus(amount)
	case strings.HasPrefix(kind, "l:consumer:") || strings.HasPrefix(kind, "l:provider:"):
		*claims = claims.plus(amount)
	}
}

// checkHeld compares what wallets hold with the books.
func (a *audit) checkHeld(crypto map[string]wide) {
	holds := map[string]*big.Int{}
	for key, amount := range a.holdings {
		name := key.asset
		if key.role == "contract" {
			name = "contract of " + key.asset
		}
		if holds[name] == nil {
			holds[name] = new(big.Int)
		}
		holds[name].Add(holds[name], amount)
	}
	for _, asset := range slices.Sorted(maps.Keys(crypto)) {
		chain, err := strconv.ParseInt(chainOf(asset), 10, 64)
		if _, looked := a.looked[chain]; err != nil || !looked {
			a.r.note("assets whose chains were not read")
			continue
		}
		held := holds[asset]
		if held == nil {
			held = new(big.Int)
		}
		a.r.count("assets whose reserves were counted")
		if booked(asset, held).Cmp(crypto[asset].big()) < 0 {
			a.r.found(Overdrawn, "reserves of "+asset, "the books have %v, and wallets hold %v", crypto[asset],
				booked(asset, held))
		}
	}
	for _, chain := range slices.SortedFunc(maps.Keys(a.staked()), cmp.Compare[int64]) {
		asset, found := "", false
		for key := range a.holdings {
			if key.role == "contract" && strings.HasPrefix(key.asset, strconv.FormatInt(chain, 10)+":") {
				asset, found = key.asset, true
			}
		}
		if !found {
			continue
		}
		a.r.count("contracts whose positions were summed")
		if held := holds["contract of "+asset]; held.Cmp(a.staked()[chain]) < 0 {
			a.r.found(Overdrawn, "contract of chain "+strconv.FormatInt(chain, 10), "positions are %v, and it holds %v",
				a.staked()[chain], held)
		}
	}
}
