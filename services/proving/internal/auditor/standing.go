package auditor

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// checkStanding moves what providers have again, in the order of time, and checks that nothing of a provider was ever
// below nothing, and that what is held of its earnings is there. Credits count as early and debits as late as their
// rows allow, as in replay.
func (a *audit) checkStanding() {
	all := map[account][]move{}
	add := func(to account, at, amount int64, subject id, entry bool) {
		if !strings.HasPrefix(to.kind, "l:provider:") || to.asset != assetUSD || amount == 0 {
			return
		}
		all[to] = append(all[to], a.moved(move{at: at, free: amount, subject: subject, entry: entry}))
	}
	for u, e := range a.entries {
		for _, p := range e.postings {
			add(account{p.asset, p.kind, p.owner, p.book}, e.at, p.amount, u, true)
		}
	}
	for u, q := range a.requests {
		for i := range q.lines {
			s := &q.lines[i]
			for _, leg := range s.legs(u) {
				add(account{assetUSD, leg.kind, leg.owner, leg.book}, s.settledAt, leg.amount, u, false)
			}
		}
	}
	held := a.heldNow()
	for _, to := range sortedAccounts(all) {
		left := a.standAccount(to, all[to])
		if owed := held[to]; left.less(owed) {
			a.r.found(Overdrawn, "account "+to.name(), "%v are held of it, and it has %v", owed, left)
		}
		delete(held, to)
	}
	for _, to := range sortedAccounts(held) {
		a.r.found(Overdrawn, "account "+to.name(), "%v are held of it, and it never moved", held[to])
	}
}

// heldNow is what is held of earnings, by account.
func (a *audit) heldNow() map[account]wide {
	held := map[account]wide{}
	for _, h := range a.held {
		if h.endedAt != 0 {
			continue
		}
		to := account{assetUSD, kindAccrued, h.provider.String(), ""}
		if h.book != "" {
			to.kind, to.book = kindPlanHeld, h.book
		}
		held[to] = held[to].plus(h.payout)
	}
	return held
}

// standAccount returns what is left of an account at the end.
func (a *audit) standAccount(to account, moves []move) (left wide) {
	slices.SortFunc(moves, func(x, y move) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(y.free, x.free), slices.Compare(x.subject[:], y.subject[:]))
	})
	below := false
	for _, m := range moves {
		if left = left.plus(m.free); left.negative() && !below {
			below = true
			a.r.found(Overdrawn, "account "+to.name(), "at %s it had %v", time.UnixMicro(m.at).UTC().Format(time.RFC3339Nano),
				left)
		}
	}
	return left
}
