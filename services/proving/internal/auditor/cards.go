package auditor

import (
	"maps"
	"slices"
)

// Kinds of entries of payments by card.
const (
	entryCardPaid = "collateral_card"
	entryCardBack = "collateral_card_reversed"
	kindClearing  = "a:card_clearing"
)

// nanoCent is a cent in nano-USD.
const nanoCent = 10_000_000

// cardPayment is a payment by card as the card's owner knows it, by the session in which he paid: so many cents for a
// provider, which went back or did not.
type cardPayment struct {
	provider id
	cents    int64
	back     bool
}

func (w *world) takeCard(r *record) {
	put(w, r, w.cards, r.text("session"), cardPayment{r.id("provider_id"), r.count("cents"), r.flag("back")})
}

// checkCards checks that the books have each payment by card once, with its amount, for its provider, and that what
// went back went back once.
func (a *audit) checkCards() {
	if len(a.cards) == 0 {
		return
	}
	paid, back := map[string]int{}, map[id]int64{}
	for _, u := range sortedIDs(a.entries) {
		e := a.entries[u]
		switch e.kind {
		case entryCardPaid:
			a.checkCardPaid(u, e, paid)
		case entryCardBack:
			if provider, ok := e.provider(); ok {
				back[provider] += e.on(kindClearing, "")
			}
		}
	}
	due := map[id]int64{}
	for _, session := range slices.Sorted(maps.Keys(a.cards)) {
		p := a.cards[session]
		a.r.count("payments by card that were judged")
		if paid[session] == 0 {
			a.r.found(Lost, "payment "+session, "%d cents were paid by card, and no entry has them", p.cents)
		}
		if due[p.provider] += 0; p.back { // whose nothing went back is judged too
			due[p.provider] += p.cents * nanoCent
		}
	}
	for _, provider := range sortedIDs(due) {
		switch subject := about("provider", provider); {
		case back[provider] > due[provider]:
			a.r.found(Doubled, subject, "%d of what was paid by card went back, and in the books %d", due[provider],
				back[provider])
		case back[provider] < due[provider]:
			a.r.found(Lost, subject, "%d of what was paid by card went back, and in the books %d", due[provider],
				back[provider])
		}
	}
}

func (a *audit) checkCardPaid(u id, e *entry, paid map[string]int) {
	p, known := a.cards[e.business]
	paid[e.business]++
	switch got := e.on("l:provider:collateral", p.provider.String()); {
	case !known:
		a.r.found(Drift, about("entry", u), "it is of payment %s, which nobody made", e.business)
	case paid[e.business] > 1:
		a.r.found(Doubled, about("entry", u), "payment %s is in the books %d times", e.business, paid[e.business])
	case got != p.cents*nanoCent:
		a.r.found(Drift, about("entry", u), "%d cents were paid for %v, and %d are in the books", p.cents, p.provider, got)
	}
}

// provider is whose money the entry moves.
func (e *entry) provider() (id, bool) {
	for _, p := range e.postings {
		if u, ok := parseID(p.owner); ok {
			return u, true
		}
	}
	return id{}, false
}
