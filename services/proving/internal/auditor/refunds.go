package auditor

// Kinds of entries that give a charge back.
const (
	entryRefund   = "request_refund"
	entryGoodwill = "goodwill_refund"
	// entryBroken gives back the part of an answer that broke off and did not come.
	entryBroken = "broken_answer"
)

// refunds reports whether an entry gives a charge back, or reverses such an entry.
func (a *audit) refunds(e *entry) bool {
	if undone := a.entries[e.reverses]; undone != nil {
		e = undone
	}
	return e.kind == entryRefund || e.kind == entryGoodwill || e.kind == entryBroken
}

// givenBack is how much of a request's charge was given back because its answer broke off,
// in nano-USD.
func (a *audit) givenBack(request id) int64 {
	if a.broken == nil {
		a.broken = map[string]int64{}
		for _, e := range a.entries {
			if e.kind != entryBroken {
				continue
			}
			for _, p := range e.postings {
				if p.kind == kindAvailable {
					a.broken[e.business] += p.amount
				}
			}
		}
	}
	return a.broken[request.String()]
}

// corrected reports whether a request settled, before its gateway's report, for tokens that
// its hub relayed and its client did not get, and the charge for these was given back since.
// The ledger leaves a rest of 1 nano-USD, because both prices are rounded. The provider is
// paid for what it sent all the same. Plans and free models charge nothing.
func (a *audit) corrected(u id, q *request, ceiling tokens, sent int64) bool {
	s := &q.lines[0]
	if q.report == nil || s.settledAt >= q.report.recordedAt+a.skew || s.tokens.prompt > ceiling.prompt ||
		s.tokens.completion > max(ceiling.completion, sent) {
		return false
	}
	if s.source != sourcePayg {
		a.r.note("requests that cost nothing and count tokens that did not come")
		return true
	}
	due, ok := s.rates.listPrice(ceiling)
	rest := wideOf(s.charged).minus(a.givenBack(u)).minus(due)
	return ok && (rest.zero() || rest == wideOf(1))
}

// checkRefunds checks that a refund of a request is exactly its charge, goes to the
// account that paid, and is made once.
func (a *audit) checkRefunds() {
	refunded := map[id]id{}
	undone := map[id]bool{}
	for _, e := range a.entries {
		undone[e.reverses] = true
	}
	for _, u := range sortedIDs(a.entries) {
		e := a.entries[u]
		if e.kind != entryRefund && e.kind != entryGoodwill || undone[u] {
			continue
		}
		request, ok := parseID(e.business)
		q := a.requests[request]
		if !ok || q == nil || len(q.lines) == 0 {
			a.r.found(Drift, about("entry", u), "%s is of %s, of which nothing was settled", e.kind, e.business)
			continue
		}
		if first, twice := refunded[request]; twice {
			a.r.found(Doubled, about("request", request), "its charge is given back twice, by %v and %v", first, u)
		}
		refunded[request] = u
		s := &q.lines[0]
		var back wide
		for _, p := range e.postings {
			if p.kind == kindAvailable && p.owner == s.account.String() {
				back = back.plus(p.amount)
			}
		}
		if back != wideOf(s.charged) {
			a.r.found(Drift, about("request", request), "%v are given back of %d charged", back, s.charged)
		}
	}
}
