package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
)

// cardAccount is a provider's collateral by card in modelled books.
type cardAccount struct{ collateral, escrow, pending, owed, forfeited, out money.NanoUSD }

type payment struct {
	provider               ids.ProviderID
	cents, reversed, given int64
}

// cardBooks are a ledger in memory, in which each fact is posted once, and a card processor. Any answer may be lost.
type cardBooks struct {
	random   *rand.Rand
	entries  map[string]ids.EntryID
	custody  map[string]int64
	treasury map[string]int64
	accounts map[ids.ProviderID]*cardAccount
	payments map[string]*payment
	changes  []position.CardChange
	refunds  map[string]*givenBack
	// stuck: the card processor does not say how a refund ends.
	stuck bool
	// bank: cards take no refund.
	bank bool
}

// givenBack is what became of a part by card, and of which attempt.
type givenBack struct {
	part    refund.Part
	state   refund.PartState
	attempt int
}

func newCardBooks(random *rand.Rand) *cardBooks {
	return &cardBooks{random: random, entries: map[string]ids.EntryID{}, custody: map[string]int64{},
		treasury: map[string]int64{}, accounts: map[ids.ProviderID]*cardAccount{},
		payments: map[string]*payment{}, refunds: map[string]*givenBack{}}
}

func (b *cardBooks) of(id ids.ProviderID) *cardAccount {
	if b.accounts[id] == nil {
		b.accounts[id] = &cardAccount{}
	}
	return b.accounts[id]
}

// post posts a fact once. The answer is lost now and then, before the fact or after it.
func (b *cardBooks) post(key string, do func() bool) (ids.EntryID, error) {
	if b.random.IntN(20) == 0 {
		return ids.EntryID{}, errAnswerLost
	}
	if _, ok := b.entries[key]; !ok {
		if !do() {
			return ids.EntryID{}, fault.New(fault.Precondition, fault.InsufficientEarnings, "there is less")
		}
		var id ids.EntryID
		id[0], id[1], id[15] = byte(len(b.entries)>>8), byte(len(b.entries)), 1
		b.entries[key] = id
	}
	if b.random.IntN(20) == 0 {
		return ids.EntryID{}, errAnswerLost
	}
	return b.entries[key], nil
}

func shift(from, to *money.NanoUSD, n money.NanoUSD) bool {
	if *from < n {
		return false
	}
	*from, *to = *from-n, *to+n
	return true
}

func (b *cardBooks) CustodyMoved(_ context.Context, m position.Movement, token string) (ids.EntryID, error) {
	return b.post(fmt.Sprintf("custody %s %s %d", m.Chain, m.Tx, m.Place), func() bool {
		b.custody[m.Provider.String()+" "+token] += m.Units
		return true
	})
}

func (b *cardBooks) CollateralSlashed(_ context.Context, p slash.Part) (ids.EntryID, error) {
	a := b.of(p.Provider)
	return b.post("slash "+p.Penalty.String(), func() bool { return shift(&a.collateral, &a.escrow, p.Card) })
}

func (b *cardBooks) SlashForfeited(_ context.Context, p slash.Part) (ids.EntryID, error) {
	a := b.of(p.Provider)
	return b.post("end "+p.Penalty.String(), func() bool { return shift(&a.escrow, &a.forfeited, p.Card) })
}

func (b *cardBooks) SlashWon(_ context.Context, p slash.Part) (ids.EntryID, error) {
	a := b.of(p.Provider)
	return b.post("end "+p.Penalty.String(), func() bool { return shift(&a.escrow, &a.collateral, p.Card) })
}

func (b *cardBooks) ChainSlashed(_ context.Context, p slash.Part, _ chain.Quote) (ids.EntryID, error) {
	return b.post(fmt.Sprintf("chain %s %s %s", p.Penalty, p.Chain, p.Depositor), func() bool {
		b.treasury[p.Chain.String()] += p.Units
		return true
	})
}

func (b *cardBooks) RefundAsked(_ context.Context, p refund.Part) (ids.EntryID, error) {
	a := b.of(p.Provider)
	return b.post("asked "+p.ID.String(), func() bool {
		return shift(&a.collateral, &a.pending, money.NanoUSD(p.Cents)*slash.Cent)
	})
}

func (b *cardBooks) RefundUndone(_ context.Context, p refund.Part) (ids.EntryID, error) {
	a, n := b.of(p.Provider), money.NanoUSD(p.Cents)*slash.Cent
	return b.post("undone "+p.ID.String(), func() bool {
		paid := min(n, a.owed)
		a.owed -= paid
		return shift(&a.pending, &a.collateral, n) && shift(&a.collateral, new(money.NanoUSD), paid)
	})
}

func (b *cardBooks) Refunded(_ context.Context, p refund.Part, _ bool) (ids.EntryID, error) {
	a := b.of(p.Provider)
	return b.post(refundedKey(p.ID, p.CardAttempt), func() bool {
		is := b.refunds[p.ID.String()]
		return is.state != refund.PartPosted && is.attempt == p.CardAttempt &&
			shift(&a.pending, &a.out, money.NanoUSD(p.Cents)*slash.Cent)
	})
}

// pay has a provider pay by card.
func (b *cardBooks) pay(id ids.ProviderID, cents int64) {
	b.payments[newUUID(b.random)] = &payment{provider: id, cents: cents}
	b.of(id).collateral += money.NanoUSD(cents) * slash.Cent
	b.change(id, false)
}

// chargeBack has a card's owner take back all that is left of one of a provider's payments.
func (b *cardBooks) chargeBack(id ids.ProviderID) {
	for _, p := range b.payments {
		left := p.cents - p.reversed - p.given
		if p.provider != id || left == 0 {
			continue
		}
		p.reversed += left
		a, n := b.of(id), money.NanoUSD(left)*slash.Cent
		taken := min(n, a.collateral)
		a.collateral, a.owed, a.out = a.collateral-taken, a.owed+n-taken, a.out+n
		b.change(id, true)
		return
	}
}

func (b *cardBooks) change(id ids.ProviderID, reversed bool) {
	b.changes = append(b.changes, position.CardChange{Number: int64(len(b.changes)) + 1, Provider: id, Reversed: reversed})
}

func (b *cardBooks) Changes(_ context.Context, after int64) ([]position.CardChange, bool, error) {
	return b.changes[after:], false, nil
}

func (b *cardBooks) Balance(_ context.Context, id ids.ProviderID, _ bool) (position.CardBalance, error) {
	var left money.NanoUSD
	for _, p := range b.payments {
		if p.provider == id {
			left += money.NanoUSD(p.cents-p.reversed-p.given) * slash.Cent
		}
	}
	return position.CardBalance{Free: min(b.of(id).collateral, left), Owed: b.of(id).owed}, nil
}

func (b *cardBooks) Payments(_ context.Context, id ids.ProviderID) (list []refund.Payment, _ error) {
	for checkout, p := range b.payments {
		if left := p.cents - p.reversed - p.given; p.provider == id && left > 0 {
			list = append(list, refund.Payment{Checkout: checkout, Cents: left})
		}
	}
	return list, nil
}

func (b *cardBooks) PayBack(_ context.Context, p refund.Part) (refund.PartState, int, error) {
	is := b.refunds[p.ID.String()]
	if is == nil {
		is = &givenBack{part: p, state: refund.PartPosted, attempt: 1}
		b.refunds[p.ID.String()] = is
	}
	if is.state != refund.PartPosted {
		return is.state, is.attempt, nil
	}
	of := b.payments[p.Checkout]
	switch {
	case is.attempt == 1 && of.cents-of.reversed-of.given < p.Cents:
		is.state = refund.PartTakenBack
	case b.bank:
		of.given += p.Cents
		is.state = refund.PartByBank
	case b.stuck || b.random.IntN(3) == 0:
	case is.attempt > 1:
		is.state = refund.PartByCard
	default:
		of.given += p.Cents
		is.state = refund.PartByCard
	}
	return is.state, is.attempt, nil
}

func refundedKey(id refund.PartID, attempt int) string {
	return fmt.Sprintf("refunded %s %d", id, attempt)
}

// fail has a card not take what was given back to it, at most three times.
func (b *cardBooks) fail(id ids.ProviderID) {
	for _, is := range b.refunds {
		if is.part.Provider != id || is.state != refund.PartByCard || is.attempt > 3 {
			continue
		}
		n := money.NanoUSD(is.part.Cents) * slash.Cent
		if _, paid := b.entries[refundedKey(is.part.ID, is.attempt)]; paid {
			shift(&b.of(id).out, &b.of(id).pending, n)
		}
		b.changes = append(b.changes, position.CardChange{Number: int64(len(b.changes)) + 1, Provider: id,
			Failed: position.CardFailure{Part: is.part.ID.String(), Attempt: is.attempt}})
		is.state, is.attempt = refund.PartPosted, is.attempt+1
		return
	}
}

func newUUID(random *rand.Rand) string {
	return fmt.Sprintf("%08x-0000-7000-8000-%012x", random.Uint32(), random.Uint64()&0xffffffffffff)
}
