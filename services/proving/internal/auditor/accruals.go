package auditor

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// checkEarnings compares the ledger's settled requests with settlement's lines: each
// request by itself, and then the sums for each day and provider.
func (a *audit) checkEarnings() {
	settled, earned := map[accrual]wide{}, map[accrual]wide{}
	for _, u := range a.ordered {
		q := a.requests[u]
		for _, s := range q.lines {
			key := accrual{s.day, s.provider}
			settled[key] = settled[key].plus(s.payout)
		}
		for _, e := range q.counted() {
			key := accrual{e.day, e.provider}
			earned[key] = earned[key].plus(e.payout)
		}
		a.checkEarning(u, q)
	}
	keys := map[accrual]bool{}
	for key := range settled {
		keys[key] = true
	}
	for key := range earned {
		keys[key] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(x, y accrual) int {
		return cmp.Or(cmp.Compare(x.day, y.day), bytes.Compare(x.provider[:], y.provider[:]))
	}) {
		if settled[key] != earned[key] {
			a.r.found(Drift, about("provider", key.provider), "on day %d since 1970 the ledger accrued %v and settlement %v",
				key.day, settled[key], earned[key])
		}
	}
}

// counted are the lines that settlement sums. A correction takes the place of its line,
// and the last ruling the place of both. A line that is not settled leaves nothing.
func (q *request) counted() []earning {
	if len(q.rulings) > 0 {
		last := slices.MaxFunc(q.rulings, func(x, y earning) int { return cmp.Compare(x.ruling, y.ruling) })
		if last.void {
			return nil
		}
		return []earning{last}
	}
	if len(q.corrections) > 0 {
		return q.corrections
	}
	return q.earnings
}

func (a *audit) checkEarning(u id, q *request) {
	subject := about("request", u)
	if len(q.corrections) > 1 || len(q.earnings) > 1 {
		a.r.found(Doubled, subject, "settlement has %d lines and %d corrections of it", len(q.earnings), len(q.corrections))
	}
	numbers := map[int64]bool{}
	for _, e := range q.rulings {
		if numbers[e.ruling] || e.ruling < 1 || e.ruling > int64(len(q.rulings)) {
			a.r.found(Doubled, subject, "settlement has %d rulings on it, and one with the number %d twice or out of order",
				len(q.rulings), e.ruling)
			break
		}
		numbers[e.ruling] = true
	}
	if len(q.corrections)+len(q.rulings) > 0 && len(q.earnings) == 0 {
		a.r.found(Drift, subject, "settlement corrects a line that it does not have")
	}
	all := q.counted()
	switch {
	case len(all) == 0 && len(q.lines) == 0:
		return
	case len(all) == 0:
		a.r.found(Unpaid, subject, "the ledger settled a payout of %d, and settlement has no line of it that counts",
			q.lines[0].payout)
		return
	case len(q.lines) == 0:
		a.r.found(Drift, subject, "settlement has a line of %d, and the ledger settled nothing", all[0].payout)
		return
	}
	s, e := &q.lines[0], all[0]
	// Where nothing is paid, it does not matter whose count it is.
	if s.payout != e.payout || s.provider != e.provider || s.day != e.day || s.payout > 0 && s.tokens != e.tokens {
		a.r.found(Drift, subject, "the ledger settled %d for %d + %d tokens of %v, and settlement has %d for %d + %d of %v",
			s.payout, s.tokens.prompt, s.tokens.completion, s.provider, e.payout, e.tokens.prompt, e.tokens.completion,
			e.provider)
	}
}
