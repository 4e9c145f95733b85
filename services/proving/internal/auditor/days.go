package auditor

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// days are the rows of the tables of closed days.
type days struct {
	// sealed is the last sealed day, in days since 1970; -1 for none.
	sealed    int64
	snapshots map[accountDay]snapshot
}

// accountDay is an account on the day of a row.
type accountDay struct {
	account
	day int64
}

// snapshot is the change of a day, and the balance at its end.
type snapshot struct{ moved, balance int64 }

func newDays() days { return days{sealed: -1, snapshots: map[accountDay]snapshot{}} }

func (w *world) takeSeal(r *record) { w.sealed = max(w.sealed, r.day("day")) }

func (w *world) takeSnapshot(r *record) {
	owner := r.id("owner_id")
	key := accountDay{account{w.once(r.text("asset")), w.once(r.text("account_kind")), nobody(owner.String()),
		w.once(r.text("book"))}, r.day("day")}
	put(w, r, w.snapshots, key, snapshot{r.integer("moved"), r.integer("balance")})
}

// nobody is the empty owner for the zero UUID, which stands for none.
func nobody(owner string) string {
	if owner == (id{}).String() {
		return ""
	}
	return owner
}

// checkDays computes the changes of every sealed day, and compares them with the
// snapshots. A row belongs to the UTC day on which it was recorded.
func (a *audit) checkDays() {
	moved := map[accountDay]wide{}
	post := func(to account, at, amount int64) {
		key := accountDay{to, dayOf(at / 1000)}
		if amount != 0 && key.day <= a.sealed {
			moved[key] = moved[key].plus(amount)
		}
	}
	for _, e := range a.entries {
		for _, p := range e.postings {
			post(account{p.asset, p.kind, p.owner, p.book}, e.at, p.amount)
		}
	}
	for u, q := range a.requests {
		for i := range q.lines {
			s := &q.lines[i]
			for _, leg := range s.legs(u) {
				post(account{assetUSD, leg.kind, leg.owner, leg.book}, s.settledAt, leg.amount)
			}
		}
	}
	keys := maps.Clone(moved)
	for key := range a.snapshots {
		keys[key] = wide{}
	}
	a.compareDays(moved, slices.SortedFunc(maps.Keys(keys), func(x, y accountDay) int {
		return cmp.Or(compareAccounts(x.account, y.account), cmp.Compare(x.day, y.day))
	}))
}

// compareDays walks the days of each account in their order.
func (a *audit) compareDays(moved map[accountDay]wide, keys []accountDay) {
	var balance wide
	for i, key := range keys {
		if i == 0 || keys[i-1].account != key.account {
			balance = wide{}
		}
		balance = balance.add(moved[key])
		day := date(key.day).Format(time.DateOnly)
		kept, ok := a.snapshots[key]
		switch {
		case !ok && !moved[key].zero():
			a.r.found(Drift, "account "+key.name(), "%v moved on %s, which is sealed, and no snapshot has it", moved[key], day)
		case ok && (wideOf(kept.moved) != moved[key] || wideOf(kept.balance) != balance):
			a.r.found(Drift, "account "+key.name(), "its snapshot of %s has %d moved to %d, and its rows %v to %v",
				day, kept.moved, kept.balance, moved[key], balance)
		}
	}
}

// name is the account as text for a finding.
func (c account) name() string {
	name := c.kind
	for _, part := range []string{c.owner, c.book} {
		if part != "" {
			name += ":" + part
		}
	}
	return name + " in " + c.asset
}
