package auditor

import (
	"cmp"
	"maps"
	"slices"
)

// Kinds of accounts that rows other than postings change.
const (
	kindAvailable = "l:consumer:available"
	kindHeld      = "l:consumer:held"
	kindAccrued   = "l:provider:accrued"
	kindMargin    = "r:usage_margin"
	kindShortfall = "e:shortfall"
	kindDiscount  = "e:discount"
	kindPlanDebt  = "x:plan_accrual"
	kindPlanHeld  = "l:provider:plan_held"

	entryOrphan = "orphan_work"
)

// entryReversal is the kind of entries that undo another.
const entryReversal = "reversal"

// account is one account, by its kind, its owner, and a month, chain or token.
type account struct{ asset, kind, owner, book string }

// income reports whether a posting is on an account in which providers earn; their
// collateral is their own money. Only orphan work and reversals add to such an account by
// an entry, because all other earnings are settled requests.
func (p posting) income() bool {
	switch p.kind {
	case kindAccrued, "l:provider:payable", kindPlanHeld, "l:provider:payout_in_flight":
		return true
	}
	return false
}

// checkEntries judges every entry by itself, and every reversal by the entry that it
// reverses.
func (a *audit) checkEntries() {
	for _, u := range sortedIDs(a.strays) {
		a.r.found(Drift, about("entry", u), "%d postings stand without their entry", a.strays[u])
	}
	business := map[[2]string]id{}
	reversed := map[id]id{}
	for _, u := range sortedIDs(a.entries) {
		e := a.entries[u]
		if _, stray := a.strays[u]; stray {
			continue
		}
		a.checkEntry(u, e)
		key := [2]string{e.kind, e.business}
		if first, ok := business[key]; ok {
			a.r.found(Doubled, about("entry", u), "%s %q was posted before, as %v", e.kind, e.business, first)
		}
		business[key] = u
		if e.reverses.zero() {
			continue
		}
		if first, ok := reversed[e.reverses]; ok {
			a.r.found(Doubled, about("entry", u), "entry %v was reversed before, by %v", e.reverses, first)
		}
		reversed[e.reverses] = u
		a.checkReversal(u, e)
	}
	a.checkOrphans()
}

func (a *audit) checkEntry(u id, e *entry) {
	sums := map[string]wide{}
	var earned wide
	for _, p := range e.postings {
		sums[p.asset] = sums[p.asset].plus(p.amount)
		if p.income() {
			earned = earned.plus(p.amount)
		}
		if !a.chart[p.kind] {
			a.r.found(Drift, about("entry", u), "%s is posted to %s, which is not in the chart", e.kind, p.kind)
		}
		if !a.rules[p.rule(e.kind)] {
			a.r.found(Drift, about("entry", u), "%s posts %d %s to %s, which no rule allows", e.kind, p.amount, p.asset, p.kind)
		}
		if p.amount == 0 {
			a.r.found(Drift, about("entry", u), "a posting of %s is of nothing", e.kind)
		}
	}
	if len(e.postings) < 2 {
		a.r.found(Drift, about("entry", u), "%s has %d postings", e.kind, len(e.postings))
	}
	for _, asset := range slices.Sorted(maps.Keys(sums)) {
		if !sums[asset].zero() {
			a.r.found(Drift, about("entry", u), "the postings of %s sum to %v %s", e.kind, sums[asset], asset)
		}
	}
	if !earned.negative() && !earned.zero() && e.kind != entryOrphan && e.kind != entryReversal {
		a.r.found(Drift, about("entry", u), "%s credits providers with %v for nothing that they served", e.kind, earned)
	}
	if (e.kind == entryReversal) == e.reverses.zero() {
		a.r.found(Drift, about("entry", u), "%s reverses %v", e.kind, e.reverses)
	}
}

// rule is the rule that must allow a posting of an entry.
func (p posting) rule(entryKind string) postingRule {
	side, unit := "credit", "token"
	if p.amount < 0 {
		side = "debit"
	}
	if p.asset == assetUSD {
		unit = "usd"
	}
	return postingRule{entryKind, p.kind, side, unit}
}

// checkReversal checks that a reversal takes back exactly what was posted.
func (a *audit) checkReversal(u id, e *entry) {
	first := a.entries[e.reverses]
	if first == nil {
		a.r.found(Drift, about("entry", u), "it reverses entry %v, which there is not", e.reverses)
		return
	}
	if first.kind == entryReversal {
		a.r.found(Drift, about("entry", u), "it reverses entry %v, which is a reversal itself", e.reverses)
	}
	left := map[account]wide{}
	for _, p := range slices.Concat(first.postings, e.postings) {
		key := account{p.asset, p.kind, p.owner, p.book}
		left[key] = left[key].plus(p.amount)
	}
	for _, key := range sortedAccounts(left) {
		if sum := left[key]; !sum.zero() {
			a.r.found(Drift, about("entry", u), "it does not take back entry %v exactly: %v %s are left on %s %s",
				e.reverses, sum, key.asset, key.kind, key.owner)
		}
	}
}

// checkOrphans compares the entries for orphan work with their settled requests.
func (a *audit) checkOrphans() {
	paid := map[id]bool{}
	for _, u := range sortedIDs(a.entries) {
		e := a.entries[u]
		if e.kind != entryOrphan || !e.reverses.zero() {
			continue
		}
		request, ok := parseID(e.business)
		var s *settlement
		if q := a.requests[request]; ok && q != nil && len(q.lines) > 0 {
			s = &q.lines[0]
		}
		if s == nil || s.source != sourceOrphan {
			a.r.found(Drift, about("entry", u), "orphan work of %s is posted, which no settled request is", e.business)
			continue
		}
		paid[request] = true
		for _, p := range e.postings {
			if p.kind == kindAccrued && (p.amount != s.payout || p.owner != s.provider.String()) {
				a.r.found(Drift, about("request", request), "orphan work credits %d to %s, and %d of %v is settled", p.amount,
					p.owner, s.payout, s.provider)
			}
		}
	}
	for _, u := range a.ordered {
		for _, s := range a.requests[u].lines {
			if s.source == sourceOrphan && s.payout > 0 && !paid[u] {
				a.r.found(Unpaid, about("request", u), "orphan work of %d is settled, and no entry credits it", s.payout)
			}
		}
	}
}

// checkTrialBalance sums, for each asset, all postings and all rows that are entries by
// themselves.
func (a *audit) checkTrialBalance() {
	sums := map[account]wide{}
	post := func(to account, amount int64) { sums[to] = sums[to].plus(amount) }
	for _, e := range a.entries {
		for _, p := range e.postings {
			post(account{asset: p.asset, kind: p.kind, book: p.book}, p.amount)
		}
	}
	for u, q := range a.requests {
		if h := q.hold; h != nil && h.state == stateOpen {
			post(account{asset: assetUSD, kind: kindAvailable}, -h.amount)
			post(account{asset: assetUSD, kind: kindHeld}, h.amount)
		}
		for i := range q.lines {
			for _, leg := range q.lines[i].legs(u) {
				post(account{asset: assetUSD, kind: leg.kind, book: leg.book}, leg.amount)
			}
		}
	}
	total := map[string]wide{}
	for _, c := range sortedAccounts(sums) {
		total[c.asset] = total[c.asset].add(sums[c])
		a.r.Balances = append(a.r.Balances, Balance{Asset: c.asset, Kind: c.kind, Book: c.book, Amount: sums[c].String()})
	}
	for _, asset := range slices.Sorted(maps.Keys(total)) {
		if !total[asset].zero() {
			a.r.found(Drift, "asset "+asset, "its accounts sum to %v", total[asset])
		}
	}
}

// sortedAccounts are the accounts in their order.
func sortedAccounts[V any](m map[account]V) []account {
	return slices.SortedFunc(maps.Keys(m), compareAccounts)
}

func compareAccounts(x, y account) int {
	return cmp.Or(cmp.Compare(x.asset, y.asset), cmp.Compare(x.kind, y.kind), cmp.Compare(x.owner, y.owner),
		cmp.Compare(x.book, y.book))
}
