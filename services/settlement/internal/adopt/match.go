package adopt

import (
	"math/bits"
	"slices"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// nanoPerMicro is the nano-USD in the smallest unit of USDC.
const nanoPerMicro = 1_000

// coinUnits is how many units of the books one coin has.
const coinUnits = 1_000_000_000

// payment is the call of a nonce that would pay a payout. Of a coin the amount is what the transaction, or the
// signer's record, moves. ok is false where the nonce cannot be that payout's.
func (f Facts) payment(n Nonce, l *Lost) (c sending.Call, amount chain.Amount, q chain.Quote, ok bool) {
	if l.Address.IsZero() || f.Asset.Decimals == 0 || l.Row != nil && l.Row.Chain != f.Chain ||
		l.End == Confirmed && l.Token != f.Chain.Token(f.Asset.Kind) {
		return c, amount, q, false
	}
	r := sending.Request{Chain: f.Chain, Key: n.Key, Purpose: payout.Purpose, Ref: l.ID.String()}
	if f.Asset.Kind != chain.Coin {
		amount = chain.NewAmount(uint64(l.Net() / nanoPerMicro))
		r.To, r.Data = f.Asset.Contract, sending.Transfer(l.Address, amount)
	} else {
		if amount, q, ok = f.coins(n, l); !ok {
			return c, amount, q, false
		}
		r.To, r.Value = l.Address, amount
	}
	gas := uint64(defaultGas)
	if n.Sent != nil {
		gas = n.Sent.Gas
	}
	return sending.Prepared{Request: r, Sender: n.Sender, Gas: gas}.At(n.Nonce), amount, q, true
}

// coins is what a nonce moves, and the price that it means for a payout.
func (f Facts) coins(n Nonce, l *Lost) (amount chain.Amount, q chain.Quote, ok bool) {
	switch {
	case n.Sent != nil && !n.Cancels():
		amount, q.At = n.Sent.Value, n.Sent.At
	case n.Promised != nil && n.Promised.Asset.IsZero():
		amount, q.At = n.Promised.Amount, l.At
	}
	units, rest, ok := amount.Units(f.Asset.Decimals)
	if !ok || !rest.IsZero() || units <= 0 {
		return amount, q, false
	}
	if l.End == Confirmed {
		return amount, l.Quote, units == l.Units
	}
	// Every rate that buys so many units is as good: the highest of them.
	hi, lo := bits.Mul64(uint64(l.Net()), coinUnits)
	if hi >= uint64(units) {
		return amount, q, false
	}
	rate, _ := bits.Div64(hi, lo, uint64(units))
	q.Rate, q.Source = money.NanoUSD(rate), "transaction"
	return amount, q, q.Rate > 0
}

// pays reports whether a nonce is that of a payout, as far as the witnesses tell.
func (f Facts) pays(n Nonce, l *Lost) bool {
	c, _, _, ok := f.payment(n, l)
	if !ok || l.Row != nil && (l.Row.State == payout.Signing || l.Row.State == payout.Submitted || l.Row.State.Final()) {
		return false
	}
	succeeded := n.Receipt != nil && n.Receipt.Succeeded && !n.Cancels()
	switch {
	case n.Sent == nil && (l.End != InFlight || n.Mined), succeeded && l.End == Failed,
		n.Sent != nil && !succeeded && l.End == Confirmed:
		return false
	case n.Sent != nil && !n.Cancels():
		return c.To == n.Sent.To && c.Value == n.Sent.Value && string(c.Data) == string(n.Sent.Data)
	default:
		return n.Promised != nil && n.Promised.Content == c.Hash
	}
}

// matches pairs nonces with payouts. The payouts of a provider follow one another, and so do their nonces; where that
// allows more than one pairing, or an address and an amount are those of two providers, nothing is paired.
func (f Facts) matches(w Words) map[int]int {
	pairs := map[int]int{}
	taken := map[int]bool{}
	candidates := make([][]int, len(f.Nonces))
	for i, n := range f.Nonces {
		if n.Key != sending.Payout || n.Known != nil {
			continue
		}
		for j := range f.Payouts {
			if f.pays(n, &f.Payouts[j]) {
				candidates[i] = append(candidates[i], j)
			}
		}
		if j, ok := f.named(n, candidates[i], w); ok && !taken[j] {
			pairs[i], taken[j], candidates[i] = j, true, nil
		}
	}
	for _, group := range f.groups(candidates, taken) {
		for i, j := range group.only() {
			pairs[i] = j
		}
	}
	return pairs
}

// named is the payout that an operator says a transaction pays. A word chooses among the payouts that the witnesses
// allow. Where they allow none, a payout without a row may have had the address of the transaction before, unless that
// is the address of another provider: nobody is paid by what another one received.
func (f Facts) named(n Nonce, candidates []int, w Words) (place int, ok bool) {
	if n.Sent == nil {
		return 0, false
	}
	id, said := w.Match[n.Sent.Hash]
	j := slices.IndexFunc(f.Payouts, func(l Lost) bool { return said && l.ID == id })
	if j < 0 || slices.Contains(candidates, j) {
		return max(j, 0), j >= 0
	}
	l := f.Payouts[j]
	l.Address = paid(n.Sent, f.Asset)
	if len(candidates) > 0 || l.Row != nil || f.another(l) || !f.pays(n, &l) {
		return 0, false
	}
	f.Payouts[j].Address = l.Address
	return j, true
}

// another reports whether the address of a payout is that of another provider.
func (f Facts) another(l Lost) bool {
	return slices.ContainsFunc(f.Payouts, func(o Lost) bool { return o.Provider != l.Provider && o.Address == l.Address })
}

// paid is the address that a transaction pays.
func paid(s *chain.Found, asset chain.Asset) (a chain.Address) {
	if asset.Kind == chain.Coin {
		return s.To
	}
	if len(s.Data) == 4+32+32 {
		copy(a[:], s.Data[4+12:])
	}
	return a
}

// group is the nonces that may be those of the payouts of one provider.
type group struct {
	nonces, payouts []int
	fits            map[[2]int]bool
	// must are payouts that the books have paid.
	must map[int]bool
}

// groups are by provider. A nonce with candidates of two providers is in none.
func (f Facts) groups(candidates [][]int, taken map[int]bool) map[[16]byte]*group {
	all := map[[16]byte]*group{}
	for i, list := range candidates {
		var of [16]byte
		alone := len(list) > 0
		for _, j := range list {
			alone = alone && f.Payouts[j].Provider == f.Payouts[list[0]].Provider
			of = f.Payouts[j].Provider
		}
		if !alone {
			continue
		}
		g := all[of]
		if g == nil {
			g = &group{fits: map[[2]int]bool{}, must: map[int]bool{}}
			all[of] = g
		}
		g.nonces = append(g.nonces, i)
		for _, j := range list {
			g.fits[[2]int{i, j}] = !taken[j]
		}
	}
	for of, g := range all {
		for j := range f.Payouts {
			if [16]byte(f.Payouts[j].Provider) == of && !taken[j] {
				g.payouts = append(g.payouts, j)
				g.must[j] = f.Payouts[j].End == Confirmed && f.Payouts[j].Token == f.Chain.Token(f.Asset.Kind)
			}
		}
	}
	return all
}

// only returns the one pairing of all nonces that keeps both orders and leaves out no payout that was paid; nothing
// where there is none, or another one.
func (g *group) only() map[int]int {
	// ways counts the pairings of the nonces from a on with the payouts from b on, up to two.
	ways := make([][]int, len(g.nonces)+1)
	for a := range ways {
		ways[a] = make([]int, len(g.payouts)+1)
	}
	for a := len(g.nonces); a >= 0; a-- {
		for b := len(g.payouts); b >= 0; b-- {
			switch {
			case a == len(g.nonces) && b == len(g.payouts):
				ways[a][b] = 1
			case b < len(g.payouts):
				n := 0
				if !g.must[g.payouts[b]] {
					n += ways[a][b+1]
				}
				if a < len(g.nonces) && g.fits[[2]int{g.nonces[a], g.payouts[b]}] {
					n += ways[a+1][b+1]
				}
				ways[a][b] = min(n, 2)
			}
		}
	}
	if ways[0][0] != 1 {
		return nil
	}
	pairs := map[int]int{}
	for a, b := 0, 0; a < len(g.nonces); b++ {
		if g.fits[[2]int{g.nonces[a], g.payouts[b]}] && ways[a+1][b+1] == 1 {
			pairs[g.nonces[a]] = g.payouts[b]
			a++
		}
	}
	return pairs
}
