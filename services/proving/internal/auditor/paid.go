package auditor

import (
	"cmp"
	"encoding/hex"
	"math/big"
	"slices"
)

// checkPayouts judges every payout by its entries and by its transaction.
func (a *audit) checkPayouts() {
	entries := a.payoutEntries()
	calls := map[string][]nonce{}
	for at, c := range a.sends {
		if c.purpose == "payout" {
			calls[c.ref] = append(calls[c.ref], at)
		}
	}
	for _, u := range sortedIDs(a.paid) {
		p := a.paid[u]
		subject := about("payout", u)
		a.r.count("payouts that were judged")
		if !p.ended() {
			a.r.doubt(subject, "it is still %s", p.state)
		}
		a.checkPayoutEntries(subject, p, entries[u.String()])
		delete(entries, u.String())
		switch all := calls[u.String()]; {
		case len(all) > 1:
			a.r.found(Doubled, subject, "it has %d nonces", len(all))
		case len(all) == 1:
			a.checkPayoutCall(subject, p, a.sends[all[0]], all[0])
		case p.amount != nil || p.state == payoutConfirmed:
			a.r.found(Drift, subject, "it is %s, and nothing was to be sent", p.state)
		}
	}
	for _, e := range entries {
		for _, u := range slices.Concat(e.asked, e.confirmed, e.failed) {
			a.r.found(Drift, about("entry", u), "%s is of payout %q, which there is not", a.entries[u].kind,
				a.entries[u].business)
		}
	}
	a.checkNonces()
}

// payoutEntries are the entries of a payout, by kind.
type payoutEntries struct{ asked, confirmed, failed []id }

func (a *audit) payoutEntries() map[string]*payoutEntries {
	all := map[string]*payoutEntries{}
	for _, u := range sortedIDs(a.entries) {
		e := a.entries[u]
		of := all[e.business]
		if of == nil {
			of = &payoutEntries{}
		}
		switch e.kind {
		case "payout_requested":
			of.asked = append(of.asked, u)
		case "payout_confirmed":
			of.confirmed = append(of.confirmed, u)
		case "payout_failed":
			of.failed = append(of.failed, u)
		default:
			continue
		}
		all[e.business] = of
	}
	return all
}

// checkPayoutEntries checks that the entries of a payout are those of its state, each of the payout's amount.
func (a *audit) checkPayoutEntries(subject string, p *payout, e *payoutEntries) {
	if e == nil {
		e = &payoutEntries{}
	}
	if len(e.confirmed)+len(e.failed) > 1 {
		a.r.found(Doubled, subject, "it ends %d times: confirmed %d times and failed %d times",
			len(e.confirmed)+len(e.failed), len(e.confirmed), len(e.failed))
	}
	asked, confirmed, failed := 1, 0, 0
	switch {
	case p.state == payoutRequested:
		asked = min(len(e.asked), 1)
	case p.state == payoutConfirmed:
		confirmed = 1
	case p.state == payoutFailed && p.reserved.zero():
		asked = 0
	case p.state == payoutFailed || p.state == payoutCancelled:
		failed = 1
	}
	if got := [3]int{len(e.asked), len(e.confirmed), len(e.failed)}; got != [3]int{asked, confirmed, failed} {
		v := Drift
		if len(e.confirmed) < confirmed || len(e.failed) < failed {
			v = Unpaid
		}
		a.r.found(v, subject, "it is %s, and was posted as requested, confirmed and failed %v times", p.state, got)
	}
	owner := p.provider.String()
	for _, one := range []struct {
		entries []id
		said    id
		flight  int64
	}{{e.asked, p.reserved, p.gross}, {e.confirmed, p.final, -p.gross}, {e.failed, p.final, -p.gross}} {
		for _, entry := range one.entries {
			if got := a.entries[entry].on("l:provider:payout_in_flight", owner); got != one.flight {
				a.r.found(Drift, subject, "entry %v moves %d in flight, and %d is due", entry, got, one.flight)
			}
			if p.state != payoutRequested && one.said != entry && p.ended() {
				a.r.found(Drift, subject, "it names entry %v, and its own is %v", one.said, entry)
			}
		}
	}
	for _, entry := range e.confirmed {
		if fee := a.entries[entry].on("r:payout_fee", ""); fee != p.fee {
			a.r.found(Drift, subject, "entry %v takes a fee of %d, and %d is due", entry, fee, p.fee)
		}
	}
}

// transferSelector begins the data of transfer(address,uint256).
var transferSelector = []byte{0xa9, 0x05, 0x9c, 0xbb}

// sends returns what a call sends to whom: tokens by their contract, or coins.
func (c *chainCall) sends() (to address, amount *big.Int, token bool) {
	if len(c.data) == 0 {
		return c.to, c.value, false
	}
	if len(c.data) != 68 ||
		hex.EncodeToString(c.data[:16]) != hex.EncodeToString(transferSelector)+"000000000000000000000000" {
		return address{}, new(big.Int), true
	}
	return address(c.data[16:36]), new(big.Int).SetBytes(c.data[36:]), true
}

// coinChain is the chain on which payouts are in the coin.
const coinChain = 254

// due reports whether an amount is the payout less its fee: USDC of a millionth of a dollar each, or as many coins as
// that buys, rounded down to the billionth of one.
func (p *payout) due(amount *big.Int) bool {
	net := big.NewInt(p.gross - p.fee)
	if p.chain != coinChain {
		return amount.Cmp(net.Quo(net, big.NewInt(1000))) == 0
	}
	if p.rate <= 0 {
		return false
	}
	whole := net.Mul(net, big.NewInt(1_000_000_000))
	units := whole.Quo(whole, big.NewInt(p.rate))
	return amount.Cmp(units.Mul(units, big.NewInt(1_000_000_000))) == 0
}

// checkPayoutCall checks that a payout's transaction sends what is due where it is due, and has the end of the payout.
func (a *audit) checkPayoutCall(subject string, p *payout, c *chainCall, at nonce) {
	to, amount, token := c.sends()
	if to != p.at || p.amount == nil || amount.Cmp(p.amount) != 0 || !p.due(amount) || at.chain != p.chain ||
		token != (p.chain != coinChain) {
		a.r.found(Drift, subject, "its transaction sends %v to %x on chain %d, and %d less %d is due to %x on %d", amount, to,
			at.chain, p.gross, p.fee, p.at, p.chain)
	}
	end, ended := a.ends[at]
	if ended && a.signed[end.hash].nonce != at {
		a.r.found(Drift, subject, "it ended by transaction %x, which was never signed for it", end.hash)
	}
	want := map[string]string{payoutConfirmed: "succeeded", payoutFailed: "reverted", payoutCancelled: ""}[p.state]
	if p.ended() && end.outcome != want && (p.state != payoutFailed || end.outcome != "cancelled") {
		v := Drift
		if end.outcome == "succeeded" {
			v = Doubled
		}
		a.r.found(v, subject, "it is %s, and its transaction %q", p.state, end.outcome)
	}
}

// checkNonces checks that each sender's nonces have no gap, and each nonce one content.
func (a *audit) checkNonces() {
	bySender := map[account20][]int64{}
	for at := range a.sends {
		bySender[at.account20] = append(bySender[at.account20], at.n)
	}
	for at, s := range a.senders {
		all := bySender[at]
		slices.Sort(all)
		for i, n := range all {
			if want := s.next - int64(len(all)-i); n != want {
				a.r.found(Drift, at.subject(), "nonce %d stands where %d is due, before %d", n, want, s.next)
				break
			}
		}
	}
	for hash, s := range a.signed {
		c := a.sends[s.nonce]
		if c == nil || !s.cancels && c.hash != s.hash {
			a.r.found(Doubled, s.subject(), "transaction %x has another content than nonce %d", hash, s.n)
		}
	}
	if len(bySender) > len(a.senders) {
		a.r.found(Drift, "senders", "%d send, and %d are known", len(bySender), len(a.senders))
	}
}

// subject is the address as the subject of a finding.
func (c account20) subject() string { return "address " + hex.EncodeToString(c.at[:]) }

// compareNonces puts nonces in order.
func compareNonces(x, y nonce) int {
	return cmp.Or(cmp.Compare(x.chain, y.chain), slices.Compare(x.at[:], y.at[:]), cmp.Compare(x.n, y.n))
}
