package auditor

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// months are the rows of plans' months that are closed.
type months struct {
	closed map[string]closedMonth
	// divided are the shares that the ledger has, and settled those that settlement has.
	divided, stated map[monthShare]planShare
	said            map[string]closedMonth
}

func newMonths() months {
	return months{closed: map[string]closedMonth{}, divided: map[monthShare]planShare{},
		stated: map[monthShare]planShare{}, said: map[string]closedMonth{}}
}

// closedMonth is a row of closed_month or plan_month.
type closedMonth struct {
	through                       int64
	pool, earned, paid, providers int64
	closedAt                      int64
}

// monthShare names a provider's share of a month.
type monthShare struct {
	month    string
	provider id
}

// planShare is a row of closed_share or plan_share.
type planShare struct{ earned, paid, withheld, withheldPaid int64 }

func (w *world) takeClosedMonth(r *record) { w.takeMonth(r, w.closed) }
func (w *world) takePlanMonth(r *record)   { w.takeMonth(r, w.said) }

func (w *world) takeMonth(r *record, into map[string]closedMonth) {
	put(w, r, into, w.once(r.text("month")), closedMonth{
		through: r.day("through"), pool: r.count("pool"), earned: r.count("earned"), paid: r.count("paid"),
		providers: r.count("providers"), closedAt: r.time("closed_at"),
	})
}

func (w *world) takeClosedShare(r *record) { w.takePlanShare(r, w.divided) }
func (w *world) takeStatedShare(r *record) { w.takePlanShare(r, w.stated) }

func (w *world) takePlanShare(r *record, into map[monthShare]planShare) {
	put(w, r, into, monthShare{w.once(r.text("month")), r.id("provider_id")}, planShare{
		r.count("earned"), r.count("paid"), r.count("withheld"), r.count("withheld_paid"),
	})
}

// checkMonths divides the pool of every closed month anew.
func (a *audit) checkMonths() {
	for _, month := range slices.Sorted(maps.Keys(a.closed)) {
		m := a.closed[month]
		a.r.count("months whose pool was divided")
		shares := a.monthShares(month, m)
		var earned wide
		for _, s := range shares {
			earned = earned.plus(s.earned)
		}
		pool := a.pool(month)
		paid := pool
		if earned.less(pool) {
			paid = earned
		}
		subject := "month " + month
		if wideOf(m.pool) != pool || wideOf(m.earned) != earned || wideOf(m.paid) != paid ||
			m.providers != int64(len(shares)) {
			a.r.found(Drift, subject, "%d providers earned %v of a pool of %v that pays %v, and it was closed with %d, %d, "+
				"%d and %d", len(shares), earned, pool, paid, m.providers, m.earned, m.pool, m.paid)
		}
		divide(pool, earned, shares)
		a.compareMonth(month, shares)
		if said, ok := a.said[month]; ok {
			said.closedAt = m.closedAt
			if said != m {
				a.r.found(Drift, subject, "the ledger closed it with %+v, and settlement says %+v", m, said)
			}
		} else {
			a.r.doubt(subject, "the ledger closed it, and settlement has yet to hear of it")
		}
	}
	for _, month := range slices.Sorted(maps.Keys(a.said)) {
		if _, ok := a.closed[month]; !ok {
			a.r.found(Drift, "month "+month, "settlement closed it, and the ledger has not")
		}
	}
}

// pool is what plans paid into a month's pool, less refunds.
func (a *audit) pool(month string) (sum wide) {
	for _, e := range a.entries {
		for _, p := range e.postings {
			if p.kind == "l:plan_pool" && p.book == month && e.kind != "plan_close" {
				sum = sum.plus(p.amount)
			}
		}
	}
	return sum
}

// monthShares are what providers had earned by plans of a month when it was closed, and what of it was held.
func (a *audit) monthShares(month string, m closedMonth) map[id]*planShare {
	shares := map[id]*planShare{}
	of := func(provider id) *planShare {
		if shares[provider] == nil {
			shares[provider] = &planShare{}
		}
		return shares[provider]
	}
	for u, q := range a.requests {
		for i := range q.lines {
			s := &q.lines[i]
			for _, leg := range s.legs(u) {
				if leg.kind == kindPlanHeld && leg.book == month && recorded(s.settledAt) <= m.through {
					of(s.provider).earned += leg.amount
				}
			}
		}
	}
	for _, e := range a.entries {
		for _, p := range e.postings {
			provider, ok := parseID(p.owner)
			if ok && p.kind == kindPlanHeld && p.book == month && e.at < m.closedAt && e.kind != "plan_late" {
				of(provider).earned += p.amount
			}
		}
	}
	for _, h := range a.held {
		if h.book == month && h.withheld(m) {
			of(h.provider).withheld += h.payout
		}
	}
	for provider, s := range shares {
		if s.withheld = min(s.withheld, s.earned); s.earned <= 0 {
			delete(shares, provider)
		}
	}
	return shares
}

// divide sets what each share is paid: all of it, or its part of the pool by the method of the largest remainder, of
// which the smaller id goes first. What is held waits with the part that the free earnings, rounded down, leave.
func divide(pool, earned wide, shares map[id]*planShare) {
	type part struct {
		provider  id
		remainder *big.Int
	}
	var parts []part
	left := pool
	for _, provider := range sortedIDs(shares) {
		s := shares[provider]
		s.paid = s.earned
		if !earned.less(pool) && earned != pool {
			product := new(big.Int).Mul(big.NewInt(s.earned), pool.big())
			quotient, remainder := product.QuoRem(product, earned.big(), new(big.Int))
			s.paid = quotient.Int64()
			left = left.minus(s.paid)
			parts = append(parts, part{provider, remainder})
		}
	}
	slices.SortStableFunc(parts, func(x, y part) int { return y.remainder.Cmp(x.remainder) })
	for _, p := range parts {
		if !left.positive() {
			break
		}
		shares[p.provider].paid++
		left = left.minus(1)
	}
	for _, s := range shares {
		free := new(big.Int).Mul(big.NewInt(s.paid), big.NewInt(s.earned-s.withheld))
		s.withheldPaid = s.paid - free.Quo(free, big.NewInt(s.earned)).Int64()
	}
}

// compareMonth compares the shares of a month with those of both services, and with the entries.
func (a *audit) compareMonth(month string, shares map[id]*planShare) {
	providers := map[id]bool{}
	for provider := range shares {
		providers[provider] = true
	}
	for _, all := range []map[monthShare]planShare{a.divided, a.stated} {
		for key := range all {
			if key.month == month {
				providers[key.provider] = true
			}
		}
	}
	entries := a.monthEntries(month)
	for _, provider := range sortedIDs(providers) {
		subject := about("provider", provider)
		var want planShare
		if s := shares[provider]; s != nil {
			want = *s
		}
		key := monthShare{month, provider}
		if a.divided[key] != want {
			a.r.found(Drift, subject, "its share of %s is %+v, and the ledger has %+v", month, want, a.divided[key])
		}
		if _, heard := a.said[month]; heard && a.stated[key] != want {
			a.r.found(Drift, subject, "its share of %s is %+v, and settlement has %+v", month, want, a.stated[key])
		}
		a.checkMonthEntries(subject, month, want, entries[provider])
	}
}

// monthEntry is what an entry takes from what a provider earned by plans, and what it pays of it, or leaves to nobody.
type monthEntry struct {
	business    string
	taken, paid int64
}

func (a *audit) monthEntries(month string) map[id][]monthEntry {
	unclaimed := map[string]int64{}
	for _, e := range a.entries {
		if e.kind == "plan_unclaimed" {
			unclaimed[e.business] += e.on("r:plan", "")
		}
	}
	all := map[id][]monthEntry{}
	for _, u := range sortedIDs(a.entries) {
		e := a.entries[u]
		if e.kind != "plan_share" && !a.forfeitsWithheld(e.kind, e.business, month) {
			continue
		}
		for _, p := range e.postings {
			if provider, ok := parseID(p.owner); ok && p.kind == kindPlanHeld && p.book == month {
				paid := e.on("l:provider:payable", p.owner) + e.on("a:provider_receivable", p.owner)
				if e.kind != "plan_share" {
					paid = unclaimed[e.business]
				}
				all[provider] = append(all[provider], monthEntry{e.business, -p.amount, paid})
			}
		}
	}
	return all
}

// forfeitsWithheld reports whether an entry forfeits what was held of a request when its month was closed.
func (a *audit) forfeitsWithheld(kind, business, month string) bool {
	cut := len(business) - idText
	if kind != "plan_forfeit" || cut < 0 || !strings.HasSuffix(business[:cut], "/held/") {
		return false
	}
	request, ok := parseID(business[cut:])
	h, known := a.held[request]
	return ok && known && h.book == month && h.withheld(a.closed[month])
}

// withheld reports whether it was held when its month was closed.
func (h heldEarning) withheld(m closedMonth) bool {
	return recorded(h.heldAt) <= m.through && (h.endedAt == 0 || h.endedAt >= m.closedAt)
}

// idText is the length of an id as text.
const idText = 36

// checkMonthEntries checks that what is free of a share was paid once, and of what was held no more than waits.
func (a *audit) checkMonthEntries(subject, month string, want planShare, entries []monthEntry) {
	var waits, waitsPaid int64
	free := 0
	for _, e := range entries {
		if len(e.business) > len(month)+1+idText {
			waits, waitsPaid = waits+e.taken, waitsPaid+e.paid
			continue
		}
		free++
		if e.taken != want.earned-want.withheld || e.paid != want.paid-want.withheldPaid {
			a.r.found(Drift, subject, "for %s entry %q takes %d and pays %d, and %d and %d are free", month, e.business, e.taken,
				e.paid, want.earned-want.withheld, want.paid-want.withheldPaid)
		}
	}
	if wanted := cmp.Compare(want.earned, want.withheld); free != wanted {
		v := Unpaid
		if free > wanted {
			v = Doubled
		}
		a.r.found(v, subject, "its share of %s is paid %d times", month, free)
	}
	if waits > want.withheld || waitsPaid > want.withheldPaid || waits == want.withheld && waitsPaid != want.withheldPaid {
		a.r.found(Drift, subject, "of %s %d wait for %d that are held, and %d were paid for %d", month, want.withheldPaid,
			want.withheld, waitsPaid, waits)
	}
}
