package auditor

import (
	"cmp"
	"slices"
	"time"
)

// move is one change of an account over time.
type move struct {
	at int64
	// free is the change of what the account may still hold, and posted the change of its
	// balance.
	free, posted int64
	// the subject of a finding
	subject id
	entry   bool
}

// replay moves all money again, in the order of time, and checks that no account ever had
// less than nothing.
//
// A row has the time at which its transaction began; the transaction took effect between
// then and Options.Skew later. So a credit counts from its row's time, and a debit from
// the end of its span, but an admission from before its own hold was closed. At the same
// time credits count first. An account that is below nothing even so was below nothing in
// every order that the rows allow.
func (a *audit) replay() {
	accounts := map[id][]move{}
	add := func(account id, m move) {
		if m.free != 0 || m.posted != 0 {
			accounts[account] = append(accounts[account], m)
		}
	}
	for u, e := range a.entries {
		for _, p := range e.postings {
			if owner, ok := parseID(p.owner); ok && p.kind == kindAvailable && p.asset == assetUSD {
				add(owner, a.moved(move{at: e.at, free: p.amount, posted: p.amount, subject: u, entry: true}))
			}
		}
	}
	for u, q := range a.requests {
		var charged int64
		for _, s := range q.lines {
			charged += s.charged
		}
		h := q.hold
		switch {
		case h == nil && len(q.lines) > 0:
			add(q.lines[0].account, a.moved(move{at: q.lines[0].settledAt, free: -charged, posted: -charged, subject: u}))
		case h == nil:
		case h.closed == 0:
			add(h.account, a.moved(move{at: h.admittedAt, free: -h.amount - charged, posted: -charged, subject: u}))
		default:
			begun := a.moved(move{at: h.admittedAt, free: -h.amount, subject: u})
			begun.at = min(begun.at, max(h.closed, h.admittedAt))
			add(h.account, begun)
			add(h.account, a.moved(move{at: h.closed, free: h.amount - charged, subject: u}))
			add(h.account, a.moved(move{at: h.closed, posted: -charged, subject: u}))
		}
	}
	for _, u := range sortedIDs(accounts) {
		a.replayAccount(u, accounts[u])
	}
}

// moved moves a debit to the end of its span.
func (a *audit) moved(m move) move {
	if m.free < 0 || m.posted < 0 {
		m.at += a.skew
	}
	return m
}

func (a *audit) replayAccount(u id, moves []move) {
	slices.SortFunc(moves, func(x, y move) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(y.free, x.free), cmp.Compare(y.posted, x.posted),
			slices.Compare(x.subject[:], y.subject[:]))
	})
	var free, posted wide
	for _, m := range moves {
		free, posted = free.plus(m.free), posted.plus(m.posted)
		what := "request"
		if m.entry {
			what = "entry"
		}
		when := time.UnixMicro(m.at).UTC().Format(time.RFC3339Nano)
		switch {
		case posted.negative():
			a.r.found(Overdrawn, about("account", u), "by %s at %s it had been charged %v more than was granted",
				about(what, m.subject), when, posted.negated())
			return
		case free.negative():
			a.r.found(Overdrawn, about("account", u), "by %s at %s it had spent and held %v more than it had",
				about(what, m.subject), when, free.negated())
			return
		}
	}
}
