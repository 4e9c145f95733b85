package auditor

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
)

func (w *world) takeBack(r *record) {
	put(w, r, w.backs, r.id("refund_id"), &back{r.id("provider_id"), w.once(r.text("state")), r.time("due_at"),
		r.timeOr("paying_at"), r.timeOr("ended_at")})
}

func (w *world) takeBackPart(r *record) {
	p := backPart{refund: r.id("refund_id"), chain: r.integerOr("chain_id", 0), state: w.once(r.text("state"))}
	if p.chain != 0 {
		p.depositor = r.address("depositor")
	}
	put(w, r, w.backParts, r.id("part_id"), p)
}

func (w *world) takePenalty(r *record) {
	put(w, r, w.spans, r.id("penalty_id"), &open{"penalty", r.id("provider_id"), r.time("opened_at"),
		max(r.timeOr("executed_at"), r.timeOr("resolved_at"))})
}

// takePayoutChange keeps when a payout was asked for, and when it ended.
func (w *world) takePayoutChange(r *record) {
	u, at := r.id("payout_id"), r.time("changed_at")
	s := w.spans[u]
	if s == nil {
		s = &open{what: "payout", from: at}
		put(w, r, w.spans, u, s)
	}
	s.from = min(s.from, at)
	switch r.text("to_state") {
	case payoutConfirmed, payoutFailed, payoutCancelled:
		s.until = at
	}
}

// checkBacks checks that collateral is paid back once, to the depositor and as the chain says, while no payout and no
// penalty was open.
func (a *audit) checkBacks() {
	of := map[id][]backPart{}
	for _, u := range sortedIDs(a.backParts) {
		p := a.backParts[u]
		of[p.refund] = append(of[p.refund], p)
	}
	used := map[eventKey]bool{}
	for _, u := range sortedIDs(a.backs) {
		b, subject := a.backs[u], about("refund", u)
		a.r.count("refunds of collateral that were judged")
		switch {
		case b.state == "paying" || b.state == "asked" && b.due+a.skew+minute < a.exportedAt:
			a.r.doubt(subject, "it is due, and %s", b.state)
		case b.state == "paid":
			a.checkBeside(subject, b)
			for _, p := range of[u] {
				if p.chain != 0 {
					a.checkPaidBack(subject, b, p, used)
				}
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(a.refunded), func(x, y eventKey) int {
		return cmp.Or(cmp.Compare(x.chain, y.chain), cmp.Compare(x.number, y.number))
	}) {
		if e := a.refunded[key]; !used[key] {
			a.r.found(Doubled, about("provider", e.provider), "event %d of chain %d pays %v back to %x, and no refund does",
				key.number, key.chain, e.amount, e.depositor)
		}
	}
}

// checkBeside checks that no payout and no penalty of the provider was open while a refund was paid.
func (a *audit) checkBeside(subject string, b *back) {
	for _, u := range sortedIDs(a.spans) {
		s := a.spans[u]
		provider, until := s.provider, s.until
		if p := a.paid[u]; p != nil {
			provider = p.provider
		}
		if until == 0 {
			until = math.MaxInt64
		}
		if provider == b.provider && s.from < b.ended && b.paying < until {
			a.r.found(Overdrawn, subject, "it is paid while %s %v is open", s.what, u)
		}
	}
}

// checkPaidBack checks a part of a refund that is paid: one event, the transfer of its transaction, and an empty
// position.
func (a *audit) checkPaidBack(subject string, b *back, p backPart, used map[eventKey]bool) {
	times := 0
	for key, e := range a.refunded {
		if used[key] || key.chain != p.chain || e.provider != b.provider || e.depositor != p.depositor {
			continue
		}
		times++
		used[key] = true
		a.checkArrived(subject, key.chain, e)
	}
	switch {
	case p.state != "done":
		if times > 0 {
			a.r.found(Doubled, subject, "its part of %x is %s, and was paid %d times", p.depositor, p.state, times)
		}
	case times > 1:
		a.r.found(Doubled, subject, "%x is paid back %d times", p.depositor, times)
	case times == 0:
		a.r.found(Unpaid, subject, "%x is not paid back", p.depositor)
	default:
		a.r.count("positions that were paid back once")
	}
	for key, s := range a.stakes {
		if key.chain == p.chain && key.depositor == p.depositor && s.provider == b.provider && p.state == "done" &&
			s.free.Sign()+s.escrow.Sign() > 0 {
			a.r.found(Unpaid, subject, "%x still has %v free and %v in escrow", p.depositor, s.free, s.escrow)
		}
	}
}

// checkArrived compares what a contract has paid back with the chain. Only tokens are seen: coins that a contract sends
// are no transactions.
func (a *audit) checkArrived(subject string, chain int64, e refunded) {
	if _, looked := a.looked[chain]; !looked || chain == coinChain {
		return
	}
	sum := new(big.Int)
	for _, t := range a.transfers {
		if t.chain == chain && t.hash == e.tx && t.to == e.depositor {
			sum.Add(sum, t.amount)
		}
	}
	if sum.Cmp(e.amount) != 0 {
		a.r.found(Drift, subject, "%v is paid back to %x, and %v arrived by %x", e.amount, e.depositor, sum, e.tx)
	}
}
