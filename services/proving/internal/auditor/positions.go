package auditor

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// positions are the rows of collateral on chains.
type positions struct {
	events map[eventKey]positionEvent
	stakes map[stakeKey]stake
	// refunded are the events by which contracts have paid back, but for those that a reorg took away.
	refunded map[eventKey]refunded
}

func newPositions() positions {
	return positions{events: map[eventKey]positionEvent{}, stakes: map[stakeKey]stake{},
		refunded: map[eventKey]refunded{}}
}

type eventKey struct{ chain, number int64 }

// positionEvent is a row of position_event; units are what the books must be told.
type positionEvent struct {
	stakeKey
	provider     id
	free, escrow *big.Int
	units        int64
	entry        id
}

// refunded is an event by which a contract has paid a depositor.
type refunded struct {
	stakeKey
	provider id
	amount   *big.Int
	tx       hash32
}

// stakeKey names a position: what one depositor has put behind one subject.
type stakeKey struct {
	chain     int64
	subject   hash32
	depositor address
}

// stake is a row of position.
type stake struct {
	provider     id
	free, escrow *big.Int
	booked       int64
	number       int64
}

func (r *record) stakeKey() stakeKey {
	return stakeKey{r.integer("chain_id"), r.hash("subject"), r.address("depositor")}
}

func (w *world) takePositionEvent(r *record) {
	key := eventKey{r.integer("chain_id"), r.count("number")}
	e := positionEvent{r.stakeKey(), r.idOr("provider_id"), r.large("free_after"), r.large("escrow_after"),
		r.integer("units"), r.idOr("entry_id")}
	put(w, r, w.events, key, e)
	if r.textOr("kind") == "refunded" && !r.flagOr("gone") {
		put(w, r, w.refunded, key, refunded{e.stakeKey, e.provider, r.large("amount"), r.hash("tx")})
	}
}

func (w *world) takePosition(r *record) {
	put(w, r, w.stakes, r.stakeKey(), stake{r.idOr("provider_id"), r.large("free"), r.large("escrow"), r.count("booked"),
		r.count("number")})
}

// staked is what all positions of each chain are.
func (a *audit) staked() map[int64]*big.Int {
	sums := map[int64]*big.Int{}
	for key, s := range a.stakes {
		if sums[key.chain] == nil {
			sums[key.chain] = new(big.Int)
		}
		sums[key.chain].Add(sums[key.chain], s.free).Add(sums[key.chain], s.escrow)
	}
	return sums
}

// custody names what the books have of a provider's collateral on a chain.
type custody struct {
	provider id
	chain    int64
}

// checkPositions compares positions with their events, and both with the entries of custody.
func (a *audit) checkPositions() {
	last, sums := map[stakeKey]int64{}, map[stakeKey]wide{}
	entered := map[id]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(a.events), func(x, y eventKey) int {
		return cmp.Or(cmp.Compare(x.chain, y.chain), cmp.Compare(x.number, y.number))
	}) {
		e := a.events[key]
		last[e.stakeKey], sums[e.stakeKey] = key.number, sums[e.stakeKey].plus(e.units)
		if e.units != 0 {
			a.checkCustody(key, e, entered)
		}
	}
	for _, u := range sortedIDs(a.entries) {
		if e := a.entries[u]; (e.kind == "custody_in" || e.kind == "custody_out") && !entered[u] && len(a.events) > 0 {
			a.r.found(Doubled, about("entry", u), "%s %q is of no event", e.kind, e.business)
		}
	}
	booked := map[custody]wide{}
	for key, s := range a.stakes {
		booked[custody{s.provider, key.chain}] = booked[custody{s.provider, key.chain}].plus(s.booked)
		e := a.events[eventKey{key.chain, last[key]}]
		if s.number != last[key] || e.free == nil || s.free.Cmp(e.free) != 0 || s.escrow.Cmp(e.escrow) != 0 ||
			wideOf(s.booked) != sums[key] {
			a.r.found(Drift, about("provider", s.provider), "its position of %x is %v free, %v in escrow and %d booked, and "+
				"event %d of chain %d leaves %v, %v and %v", key.depositor, s.free, s.escrow, s.booked, last[key], key.chain,
				e.free, e.escrow, sums[key])
		}
	}
	a.compareCustody(booked)
}

// checkCustody checks that the books were told of an event, once.
func (a *audit) checkCustody(key eventKey, e positionEvent, entered map[id]bool) {
	subject := "event " + strconv.FormatInt(key.number, 10) + " of chain " + strconv.FormatInt(key.chain, 10)
	if e.entry.zero() {
		a.r.doubt(subject, "the books are yet to be told of %d units of %v", e.units, e.provider)
		return
	}
	if entered[e.entry] {
		a.r.found(Doubled, subject, "entry %v is of another event too", e.entry)
	}
	entered[e.entry] = true
	entry := a.entries[e.entry]
	if entry == nil {
		a.r.found(Unpaid, subject, "it says that it is entry %v, which there is not", e.entry)
		return
	}
	for _, p := range entry.postings {
		if p.kind == "m:collateral" && (p.amount != e.units || p.owner != e.provider.String()) {
			a.r.found(Drift, subject, "it moves %d units of %v, and entry %v %d of %s", e.units, e.provider, e.entry, p.amount,
				p.owner)
		}
	}
}

// compareCustody compares what positions have booked with the accounts of custody.
func (a *audit) compareCustody(booked map[custody]wide) {
	if len(a.events) == 0 {
		return
	}
	left := maps.Clone(booked)
	for _, e := range a.entries {
		for _, p := range e.postings {
			provider, ok := parseID(p.owner)
			chain, err := strconv.ParseInt(chainOf(p.asset), 10, 64)
			if ok && err == nil && p.kind == "m:collateral" {
				left[custody{provider, chain}] = left[custody{provider, chain}].minus(p.amount)
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(left), func(x, y custody) int {
		return cmp.Or(slices.Compare(x.provider[:], y.provider[:]), cmp.Compare(x.chain, y.chain))
	}) {
		if !left[key].zero() {
			a.r.found(Drift, about("provider", key.provider), "on chain %d positions have %v units more than the books",
				key.chain, left[key])
		}
	}
}

// chainOf is the chain in the name of an asset.
func chainOf(asset string) string {
	chain, _, _ := strings.Cut(asset, ":")
	return chain
}
