package auditor

import "slices"

// Words of the ledger's rows.
const (
	stateOpen     = "open"
	stateSettled  = "settled"
	stateReleased = "released"
	stateExpired  = "expired"

	sourcePayg   = "payg"
	sourceFree   = "free"
	sourcePlan   = "plan"
	sourceOrphan = "orphan"

	endingCompleted    = "completed"
	endingPlatformLost = "platform_lost"
	endingWallLimit    = "wall_limit"

	sourceGateway     = "gateway"
	sourceWorkReceipt = "receipt"
)

// overdue is how long after its time a hold without service may still be open, in
// microseconds.
const overdue = 60_000_000

// legs are the postings that a settled request is by itself. Orphan work has an entry of
// its own. Plans are settled in the month of the request.
func (s *settlement) legs(u id) []posting {
	switch s.source {
	case sourcePayg:
		return []posting{
			{kind: kindAvailable, owner: s.account.String(), amount: -s.charged}, {kind: kindShortfall, amount: -s.shortfall},
			{kind: kindDiscount, amount: -s.discount},
			{kind: kindAccrued, owner: s.provider.String(), amount: s.payout}, {kind: kindMargin, amount: s.fee},
		}
	case sourcePlan:
		month := date(u.day()).Format("2006-01")
		return []posting{{kind: kindPlanDebt, book: month, amount: -s.payout},
			{kind: kindPlanHeld, owner: s.provider.String(), book: month, amount: s.payout}}
	}
	return nil
}

// checkHolds judges every hold and every settled request, by itself and by the other.
func (a *audit) checkHolds() {
	for _, u := range a.ordered {
		q := a.requests[u]
		for i := range q.lines {
			a.checkLine(u, q, &q.lines[i])
		}
		if len(q.lines) > 1 {
			a.r.found(Doubled, about("request", u), "it is settled %d times, for %d and %d", len(q.lines), q.lines[0].charged,
				q.lines[1].charged)
		}
		if q.hold != nil {
			a.checkHold(u, q)
		} else if len(q.lines) > 0 {
			a.r.found(Drift, about("request", u), "it is settled, and there is no hold")
		}
		if q.quarantined && a.invented(q) {
			a.r.note("requests that somebody made up, whose usage is in quarantine")
		} else if len(q.lines) == 0 && q.quarantined && (q.hold == nil || q.hold.state != stateSettled) {
			a.r.doubt(about("request", u), "its usage is in quarantine, and nothing of it is settled")
		}
	}
}

// invented reports whether the records of all clients and engines are there, and nobody but the quarantine knows the
// request.
func (a *audit) invented(q *request) bool {
	return len(a.calls) > 0 && len(a.served) > 0 && q.hold == nil && q.report == nil &&
		len(q.lines)+len(q.earnings)+len(q.calls)+len(q.engines)+len(q.receipts) == 0
}

// checkLine computes the amounts of a settled request anew.
func (a *audit) checkLine(u id, q *request, s *settlement) {
	drift := func(format string, args ...any) { a.r.found(Drift, about("request", u), format, args...) }
	if s.day != u.day() {
		drift("it is settled on day %d, and its id is of day %d since 1970", s.day, u.day())
	}
	if !s.rates.counts(s.tokens) {
		drift("%d + %d are settled, which unit %d does not count", s.tokens.prompt, s.tokens.completion, s.rates.unit)
	}
	if list, ok := s.rates.listPrice(s.tokens); !ok || list != s.listPrice {
		drift("%d + %d tokens cost %d, and the list price is %d", s.tokens.prompt, s.tokens.completion, list, s.listPrice)
	}
	if payout, ok := s.rates.payout(s.tokens); !ok || payout != s.payout {
		drift("%d + %d tokens pay %d, and the payout is %d", s.tokens.prompt, s.tokens.completion, payout, s.payout)
	}
	if wideOf(s.listPrice).minus(s.payout) != wideOf(s.fee) || s.payout < 0 || s.fee < 0 {
		drift("a list price of %d and a payout of %d leave a fee of %d", s.listPrice, s.payout, s.fee)
	}
	if s.charged < 0 || s.shortfall < 0 || s.discount < 0 {
		drift("%d are charged, %d are short and %d are discount", s.charged, s.shortfall, s.discount)
	}
	switch s.source {
	case sourcePayg:
		if wideOf(s.charged).plus(s.shortfall).plus(s.discount) != wideOf(s.listPrice) {
			drift("%d charged and %d short are not the list price of %d", s.charged, s.shortfall, s.listPrice)
		}
		if q.hold != nil && s.discount != discountOf(q.hold.discount, s.listPrice) {
			drift("%d are discount of %d, and %d hundredths of a percent were agreed", s.discount, s.listPrice, q.hold.discount)
		}
		if s.shortfall > 0 && q.hold != nil && s.charged < q.hold.amount {
			drift("%d are short, and only %d of the %d held are charged", s.shortfall, s.charged, q.hold.amount)
		}
	case sourceFree, sourcePlan, sourceOrphan:
		if s.charged != 0 || s.shortfall != 0 || s.discount != 0 || s.source == sourceFree && s.listPrice != 0 {
			drift("source %s charges %d, with %d short, of %d", s.source, s.charged, s.shortfall, s.listPrice)
		}
	default:
		a.r.doubt(about("request", u), "its source %q is not known", s.source)
	}
	if s.evidence == sourceGateway && !q.reviewed {
		drift("it is settled by the gateway's count, and was never reviewed")
	}
}

// checkHold compares a hold with its settled request.
func (a *audit) checkHold(u id, q *request) {
	h := q.hold
	drift := func(format string, args ...any) { a.r.found(Drift, about("request", u), format, args...) }
	if (h.state == stateOpen) != (h.closed == 0) {
		drift("its hold is %s and was closed at %d", h.state, h.closed)
	}
	switch h.state {
	case stateOpen:
		a.checkOpen(u, q)
	case stateSettled:
		if len(q.lines) == 0 {
			drift("its hold is settled, and there is no settled request")
		}
	case stateReleased, stateExpired:
	default:
		a.r.doubt(about("request", u), "its hold's state %q is not known", h.state)
	}
	for i := range q.lines {
		s := &q.lines[i]
		if s.account != h.account || s.key != h.key || s.model != h.model || s.price != h.price || s.rates != h.rates {
			drift("its settled request is not of the account, key, model or price of its hold")
		}
		if s.tokens.completion > h.maxCompletion {
			drift("%d completion tokens are settled, and its hold is for %d", s.tokens.completion, h.maxCompletion)
		}
		// Only tokens of a prompt are estimated.
		if h.rates.unit != unitToken && s.tokens.prompt > h.prompt {
			drift("%d of the prompt are settled, and its hold is for %d", s.tokens.prompt, h.prompt)
		}
		orphan := s.source == sourceOrphan
		if closed := h.state == stateReleased || h.state == stateExpired; orphan && !closed || !orphan &&
			h.state != stateSettled || !orphan && s.source != h.billing {
			drift("it is settled from %s, and its hold is %s and of %s", s.source, h.state, h.billing)
		}
		if !orphan && h.closed != s.settledAt && h.closed != 0 {
			drift("its hold closed at %d and it was settled at %d", h.closed, s.settledAt)
		}
	}
}

// checkOpen judges a hold that is still open: it may still be settled, unless its time is
// long over and nothing of it is known to have been served.
func (a *audit) checkOpen(u id, q *request) {
	a.r.Open++
	if len(q.lines) > 0 {
		return // a contradiction, which is found elsewhere
	}
	served := q.report != nil || slices.ContainsFunc(q.engines, func(e engineCall) bool { return e.tokens.completion > 0 })
	if !served && a.exportedAt > q.hold.expiresAt+overdue {
		a.r.found(Drift, about("request", u), "its hold of %d is still open, %d s after its time", q.hold.amount,
			(a.exportedAt-q.hold.expiresAt)/1_000_000)
		return
	}
	a.r.doubt(about("request", u), "its hold of %d is still open: something is yet to come", q.hold.amount)
}

// discountOf is what a discount takes off a list price, rounded down.
func discountOf(agreed, list int64) int64 {
	if agreed <= 0 || list <= 0 {
		return 0
	}
	return list/10_000*agreed + list%10_000*agreed/10_000
}
