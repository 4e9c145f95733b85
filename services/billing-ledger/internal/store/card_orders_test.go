package store_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// What may happen to a card payment, in letters:
//
//	a  settlement posts that the refund is asked for
//	p  it asks for the refund of the payment
//	e  it posts how the refund ended
//	d  the card's owner disputes the payment
//	h  the ledger hears of it
//	w  the dispute is won
//	v  the ledger hears of that
//	f  the card does not take the refund, and the ledger hears of it
//	g  settlement asks again, and posts how it ended then
//
// Each of the chains happens in its order. The last two letters happen where they are asked for.
var happenings = []string{"ape", "dh", "dwv", "efg"}

// orders returns all orders of what may happen in which no letter stands before one that
// precedes it in a chain, and which a filter keeps.
func orders(letters string, keep func(string) bool) []string {
	before := map[byte]string{}
	for _, chain := range happenings {
		for i := 1; i < len(chain); i++ {
			before[chain[i]] += chain[i-1 : i]
		}
	}
	var all []string
	var extend func(string)
	extend = func(done string) {
		if len(done) == len(letters) && keep(done) {
			all = append(all, done)
		}
		for _, next := range []byte(letters) {
			ready := !strings.Contains(done, string(next))
			for _, earlier := range before[next] {
				ready = ready && strings.ContainsRune(done, earlier)
			}
			if ready {
				extend(done + string(next))
			}
		}
	}
	extend("")
	return all
}

// atOnce keeps orders in which the end of a refund is posted at once, and meanwhile those in
// which the ledger hears of the dispute before that.
func atOnce(order string) bool { return strings.Contains(order, "pe") }

func meanwhile(order string) bool {
	p, h, e := strings.Index(order, "p"), strings.Index(order, "h"), strings.Index(order, "e")
	return p < h && h < e
}

// afterwards keeps orders in which the refund is paid in the books before anything else happens.
func afterwards(order string) bool { return strings.HasPrefix(order, "ape") }

// fate is one payment of $20 of a provider that has earned $50.
type fate struct {
	*desk
	poster *posting.Poster
	paid   card.Checkout
	refund card.Refund
	asked  bool
	back   card.Object
	// netted reports whether earnings pay what is owed.
	netted bool
	// bank is what the bank paid.
	bank money.NanoUSD
	// waits reports whether the ledger hears of the dispute once the refund has ended.
	waits bool
}

func (d *desk) fate(t *testing.T, old, netted bool) *fate {
	t.Helper()
	d.provider = newProvider(t)
	post(t, d.env, ledger.Orphan(entryID(t), request(t), d.provider, 50*usd))
	f := &fate{desk: d, poster: &posting.Poster{Store: d.store, Clock: clock.System, Random: rand.Reader}, paid: d.paid(t),
		netted: netted}
	if old {
		d.exec(t, `UPDATE card_payment SET at = now() - interval '200 days' WHERE checkout_id = $1`, f.paid.ID)
	}
	f.refund = card.Refund{ID: newRefundID(t), Checkout: f.paid.ID, Amount: 2000}
	return f
}

func (f *fate) happens(t *testing.T, what rune) {
	t.Helper()
	part := posting.Part{ID: f.refund.ID.String(), Provider: f.provider, Amount: 20 * usd}
	switch what {
	case 'a':
		_, err := f.poster.Post(t.Context(), posting.CollateralRefundAsked{Part: part})
		if f.asked = err == nil; !f.asked && !fault.Is(err, fault.InsufficientEarnings) {
			t.Fatal(err)
		}
	case 'p', 'e':
		if f.asked {
			f.give(t, part, what == 'e')
		}
	case 'd':
		f.back = f.processor.dispute(f.paid.SessionID, 2000)
	case 'w':
		f.processor.win(f.back)
	case 'h', 'v':
		f.hear(t)
	case 'f':
		f.look(t, f.processor.fails(f.refund.ID.String()))
	case 'g':
		f.due(t)
		f.worker.Look(t.Context())
		f.give(t, part, true)
		if f.waits {
			f.look(t, f.back)
		}
	}
	if f.netted && strings.ContainsRune("hv", what) {
		f.net(t)
	}
}

// hear has the ledger hear of the dispute, which waits for a refund that is under way.
func (f *fate) hear(t *testing.T) {
	t.Helper()
	err := f.worker.LookAt(t.Context(), "sandbox", f.back)
	if f.waits = errors.Is(err, card.ErrRefundUnderWay); err != nil && !f.waits {
		t.Fatal(err)
	}
}

// give asks for the refund, and posts how it ended.
func (f *fate) give(t *testing.T, part posting.Part, end bool) {
	t.Helper()
	stands, err := f.refunds.Ask(t.Context(), f.refund)
	if err != nil {
		t.Fatal(err)
	}
	var fact posting.Fact
	switch stands.State {
	case card.ByCard:
		fact = posting.CollateralRefunded{Part: part, From: ledger.CardClearing, Attempt: stands.Attempt}
	case card.FromBank:
		fact = posting.CollateralRefunded{Part: part, From: ledger.Bank, Attempt: stands.Attempt}
	case card.Reversed:
		fact = posting.CollateralRefundUndone{Part: part}
	case card.Asked:
		t.Fatal("the refund: got asked, want an end")
	}
	if !end {
		return
	}
	for range 2 {
		if _, err := f.poster.Post(t.Context(), fact); err != nil {
			t.Fatal(err)
		}
	}
	if stands.State == card.FromBank {
		f.bank = 20 * usd
	}
}

// net has a batch of $15 pay what is owed.
func (f *fate) net(t *testing.T) {
	t.Helper()
	if _, err := f.poster.Post(t.Context(), posting.EarningsBatch{Day: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		Provider: f.provider, Chain: "8453", Amount: 15 * usd}); err != nil {
		t.Fatal(err)
	}
}

// clearing is what the card processor owes by the books, its costs left out.
func (f *fate) clearing(t *testing.T) money.NanoUSD {
	t.Helper()
	return money.NanoUSD(scan[int64](t, f.env, `SELECT -coalesce(sum(p.amount), 0)::bigint FROM posting p
		WHERE p.account_kind = 'a:card_clearing' AND p.entry_kind <> 'card_cost' AND EXISTS (SELECT FROM posting o
			WHERE o.entry_id = p.entry_id AND o.owner_id = $1)`, [16]byte(f.provider)))
}

// check wants that the provider and the card's owner have $70 together, what is owed taken
// off, and that the books are those of the card processor.
func (f *fate) check(t *testing.T) {
	t.Helper()
	var books money.NanoUSD
	for _, kind := range []string{"l:provider:accrued", "l:provider:payable", "l:provider:collateral",
		"l:provider:collateral_refund_pending", "a:provider_receivable"} {
		books += f.balance(t, kind)
	}
	at := f.processor.balances["pi_"+f.paid.SessionID]
	if got, want := books+f.bank+at.Returned.Nano(), 70*usd; got != want {
		t.Errorf("provider and card's owner have: got %v, want %v", got, want)
	}
	if got, want := f.clearing(t), at.Total.Nano()-at.Returned.Nano(); got != want {
		t.Errorf("the card processor owes: got %v, want %v", got, want)
	}
}

// ended wants nothing on its way back, and as much collateral as is left of the payment.
func (f *fate) ended(t *testing.T) {
	t.Helper()
	if got := f.balance(t, "l:provider:collateral_refund_pending"); got != 0 {
		t.Errorf("on its way back for ever: got %v, want 0", got)
	}
	left := money.NanoUSD(scan[int64](t, f.env, `SELECT (cents - reversed - refunded) * 10000000 FROM card_payment_back
		WHERE provider_id = $1`, [16]byte(f.provider)))
	f.wantCollateral(t, max(0, left))
}

func TestNoOrderGivesCollateralTwiceOrLosesACentOfIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, run := range []struct {
		name        string
		old, netted bool
		orders      []string
	}{
		{"by card", false, false, orders("apedhwv", meanwhile)},
		{"by card, and earnings pay debts", false, true, orders("apedhwv", atOnce)},
		{"by the bank, and earnings pay debts", true, true, orders("apedhwv", meanwhile)},
		{"by card, which fails", false, false, orders("apedhwvfg", afterwards)},
	} {
		for _, order := range run.orders {
			t.Run(run.name+" "+order, func(t *testing.T) {
				f := d.fate(t, run.old, run.netted)
				for i, what := range order {
					f.happens(t, what)
					if heardAll(order[:i+1]) && !f.waits {
						f.check(t)
					}
				}
				f.ended(t)
			})
		}
	}
	for _, i := range d.audited(t).Invariants {
		if i.Drift != 0 && !strings.HasPrefix(i.Name, "orphan work") { // of which the earnings are made here
			t.Errorf("drift: %s: %v", i.Name, i.Examples)
		}
	}
}

// heardAll reports whether the ledger has heard of all that happened at the card processor.
func heardAll(happened string) bool {
	heard := strings.ContainsAny(happened, "hv")
	return heard == strings.Contains(happened, "d") &&
		strings.Contains(happened, "p") == strings.Contains(happened, "e") &&
		strings.Contains(happened, "w") == strings.Contains(happened, "v")
}
