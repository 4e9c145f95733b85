package auditor

import (
	"cmp"
	"maps"
	"slices"
)

// entryBatch is the kind of entries that take a share from what is accrued.
const entryBatch = "earnings_batch"

// dayMicros is a day in microseconds.
const dayMicros = dayMillis * 1000

// recorded is the day on which the ledger recorded something.
func recorded(at int64) int64 { return dayOf(at / 1000) }

// earnings are, by provider and day, what was earned of accrued and is free: the change of the day. What shares take
// from it is not in it.
func (a *audit) earnings() map[id]map[int64]wide {
	all := map[id]map[int64]wide{}
	add := func(provider id, at, amount int64) {
		if all[provider] == nil {
			all[provider] = map[int64]wide{}
		}
		all[provider][recorded(at)] = all[provider][recorded(at)].plus(amount)
	}
	for u, q := range a.requests {
		for i := range q.lines {
			for _, leg := range q.lines[i].legs(u) {
				if leg.kind == kindAccrued {
					add(q.lines[i].provider, q.lines[i].settledAt, leg.amount)
				}
			}
		}
	}
	for _, e := range a.entries {
		for _, p := range e.postings {
			if provider, ok := parseID(p.owner); ok && p.kind == kindAccrued && p.asset == assetUSD && e.kind != entryBatch {
				add(provider, e.at, p.amount)
			}
		}
	}
	for _, h := range a.held {
		if h.book != "" {
			continue
		}
		add(h.provider, h.heldAt, -h.payout)
		if h.endedAt != 0 {
			add(h.provider, h.endedAt, h.payout)
		}
	}
	return all
}

// ofProviders reports whether a posting is of an account of a provider that a day's list has.
func (p posting) ofProviders() bool { return p.income() || p.kind == "a:provider_receivable" }

// listed are the changes that a day's list must have beside requests, by the ledger's rows.
func (a *audit) listed() map[changeKey]changeSum {
	all := map[changeKey]changeSum{}
	for _, e := range a.entries {
		for _, p := range e.postings {
			if provider, ok := parseID(p.owner); ok && p.ofProviders() && p.asset == assetUSD && e.kind != entryOrphan {
				key := changeKey{recorded(e.at), provider, moved, p.kind, p.book}
				all[key] = all[key].plus(p.amount)
			}
		}
	}
	for _, h := range a.held {
		key := changeKey{recorded(h.heldAt), h.provider, kindOfHeld, kindAccrued, h.book}
		if h.book != "" {
			key.account = kindPlanHeld
		}
		all[key] = all[key].plus(h.payout)
		if h.endedAt == 0 {
			continue
		}
		key.day, key.kind = recorded(h.endedAt), h.endedAs
		if h.endedAs == "refunded" || h.endedAs == "reversed" {
			key.kind = "held_" + h.endedAs
		}
		all[key] = all[key].plus(h.payout)
	}
	return all
}

// checkLists compares the lists of the days that settlement has collected with the ledger's rows.
func (a *audit) checkLists() {
	counted := map[int64]int64{}
	for _, u := range a.ordered {
		a.checkListed(u, a.requests[u], counted)
	}
	want := a.listed()
	keys := maps.Clone(want)
	maps.Copy(keys, a.sums)
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(x, y changeKey) int {
		return cmp.Or(cmp.Compare(x.day, y.day), slices.Compare(x.provider[:], y.provider[:]), cmp.Compare(x.kind, y.kind),
			cmp.Compare(x.account, y.account), cmp.Compare(x.month, y.month))
	}) {
		counted[key.day] += a.sums[key].lines
		if _, ok := a.collected[key.day]; !ok && a.sums[key].lines == 0 || want[key] == a.sums[key] {
			continue
		}
		v := Drift
		if a.sums[key].lines > want[key].lines {
			v = Doubled
		}
		a.r.found(v, about("provider", key.provider), "the ledger has %d changes (%s) of %s %s on %s that sum to %v, and "+
			"settlement's list %d that sum to %v", want[key].lines, key.kind, key.account, key.month, day(key.day),
			want[key].sum, a.sums[key].lines, a.sums[key].sum)
	}
	for _, n := range slices.Sorted(maps.Keys(a.collected)) {
		if a.collected[n].lines != counted[n] {
			a.r.found(Drift, "day "+day(n), "its list has %d lines, and is of %d", counted[n], a.collected[n].lines)
		}
	}
}

// checkListed checks that a settled request stands in one list: that of the day on which it was settled.
func (a *audit) checkListed(u id, q *request, counted map[int64]int64) {
	subject := about("request", u)
	for _, l := range q.batched {
		counted[l.day]++
	}
	if len(q.batched) > 1 {
		a.r.found(Doubled, subject, "it stands in the lists of days %d times", len(q.batched))
		return
	}
	if len(q.lines) == 0 {
		if len(q.batched) > 0 {
			a.r.found(Drift, subject, "the list of %s has it, and it is not settled", day(q.batched[0].day))
		}
		return
	}
	s := &q.lines[0]
	on := recorded(s.settledAt)
	_, due := a.collected[on]
	switch {
	case len(q.batched) == 0 && due && s.payout > 0:
		a.r.found(Unpaid, subject, "it earned %d on %s, whose list lacks it", s.payout, day(on))
	case len(q.batched) > 0 && q.batched[0] != batchLine{on, s.provider, s.payout}:
		l := q.batched[0]
		a.r.found(Drift, subject, "it earned %d for %v on %s, and the list of %s has %d for %v", s.payout, s.provider,
			day(on), day(l.day), l.amount, l.provider)
	}
}
