package auditor

import (
	"cmp"
	"maps"
	"slices"
)

// entered is what entries gave to each consumer, or took. Without refunds, entries that
// give a charge back, and their reversals, do not count.
func (a *audit) entered(refunds bool) map[id]wide {
	sums := map[id]wide{}
	for _, e := range a.entries {
		if !refunds && a.refunds(e) {
			continue
		}
		for _, p := range e.postings {
			if owner, ok := parseID(p.owner); ok && p.kind == kindAvailable && p.asset == assetUSD {
				sums[owner] = sums[owner].plus(p.amount)
			}
		}
	}
	return sums
}

// checkWallets computes every wallet from its rows.
func (a *audit) checkWallets() {
	posted, held := a.entered(true), map[id]wide{}
	for of, s := range a.slices {
		held[of.account] = held[of.account].plus(s.amount)
	}
	for _, q := range a.requests {
		if h := q.hold; h != nil && h.state == stateOpen {
			held[h.account] = held[h.account].plus(h.amount)
		}
		for _, s := range q.lines {
			posted[s.account] = posted[s.account].minus(s.charged)
		}
	}
	for _, u := range sortedIDs(a.wallets) {
		w := a.wallets[u]
		if w.posted < 0 || w.held < 0 || w.held > w.posted {
			a.r.found(Overdrawn, about("account", u), "%d are posted and %d are held", w.posted, w.held)
		}
		if wideOf(w.posted) != posted[u] {
			a.r.found(Drift, about("account", u), "%d are posted, and its postings less its charges are %v", w.posted, posted[u])
		}
		if wideOf(w.held) != held[u] {
			a.r.found(Overdrawn, about("account", u), "%d are held, and its open holds and slices are %v", w.held, held[u])
		}
		if _, ok := a.accounts[u]; !ok {
			a.r.found(Drift, about("account", u), "there is a wallet, and no account")
		}
	}
	for _, sums := range []map[id]wide{posted, held} {
		for _, u := range sortedIDs(sums) {
			if _, ok := a.wallets[u]; !ok && !sums[u].zero() {
				a.r.found(Drift, about("account", u), "its rows sum to %v, and there is no wallet", sums[u])
			}
		}
	}
}

// checkSlices finds slices that are left. One of a dead owner is stranded soon, and one that is stranded gives
// back what it has when its time is over.
func (a *audit) checkSlices() {
	late := a.exportedAt - overdue - a.skew
	byEpoch := func(x, y sliceKey) int { return cmp.Compare(x.epoch, y.epoch) }
	for _, of := range slices.SortedFunc(maps.Keys(a.slices), byEpoch) {
		switch s := a.slices[of]; {
		case s.reclaimAt != 0 && s.reclaimAt < late:
			a.r.found(Drift, about("account", of.account), "its slice %d of %d is stranded, and was over at %d", of.epoch,
				s.amount, s.reclaimAt)
		case s.reclaimAt != 0:
			a.r.note("slices of credit that wait for what their dead owners admitted")
		case s.aliveUntil < late:
			a.r.found(Drift, about("account", of.account), "its slice %d of %d is open, and its owner was last alive at %d",
				of.epoch, s.amount, s.aliveUntil)
		}
	}
}

// checkCounters computes how many requests of each key run, and bounds how far its rates
// are ahead.
func (a *audit) checkCounters() {
	running := map[id]int64{}
	admitted := map[id][]int64{}
	for _, q := range a.requests {
		if h := q.hold; h != nil {
			admitted[h.key] = append(admitted[h.key], h.admittedAt)
			if h.state == stateOpen && q.report == nil {
				running[h.key]++
			}
		}
	}
	for _, u := range sortedIDs(a.inflight) {
		if a.inflight[u] != running[u] {
			a.r.found(Drift, about("key", u), "%d requests are in flight, and %d holds are open without a report", a.inflight[u],
				running[u])
		}
	}
	for _, u := range sortedIDs(running) {
		if _, ok := a.inflight[u]; !ok {
			a.r.found(Drift, about("key", u), "%d holds are open, and nothing counts them", running[u])
		}
	}
	for _, times := range admitted {
		slices.Sort(times)
	}
	for _, w := range a.rated {
		// However high the limit is, all of it is back a minute after the last request, except for
		// rounding. A rate also counts as used up from when a slice is stranded, at any time.
		last := a.exportedAt
		if times := admitted[w.key]; len(times) > 0 {
			last = max(last, times[len(times)-1])
		}
		if w.full > last+minute+a.skew {
			a.r.found(Drift, about("key", w.key), "its rate of class %d is full at %d, and its last request was admitted by %d",
				w.class, w.full, last)
		}
	}
}

// minute is a minute in microseconds.
const minute = 60_000_000

// checkSetup compares the ledger with the accounts that the harness has made.
func (a *audit) checkSetup() {
	granted := a.entered(false)
	for _, u := range sortedIDs(a.setup.accounts) {
		s := a.setup.accounts[u]
		if s.Granted != nil && wideOf(*s.Granted) != granted[u] {
			a.r.found(Drift, about("account", u), "%d were granted, and its postings are %v", *s.Granted, granted[u])
		}
	}
	for _, u := range a.ordered {
		h := a.requests[u].hold
		if h == nil {
			continue
		}
		if all, ok := a.setup.rates[h.model]; ok && !slices.Contains(all, h.rates) {
			a.r.found(Drift, about("request", u), "its rates are %d, %d, %d, %d of unit %d, which %s never had",
				h.rates.input, h.rates.output, h.rates.payoutInput, h.rates.payoutOutput, h.rates.unit, h.model)
		}
	}
}
