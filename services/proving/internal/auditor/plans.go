package auditor

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// plans are the rows of the tables of token plans.
type plans struct {
	limits   map[planLimit][]int64 // the tiers that draw on the limit
	counters map[planWindow]planCount
	gates    map[id]int64 // requests under way
}

func newPlans() plans {
	return plans{limits: map[planLimit][]int64{}, counters: map[planWindow]planCount{}, gates: map[id]int64{}}
}

// planLimit names a row of plan_limit.
type planLimit struct{ plan, kind, period string }

// planWindow names a row of plan_counter; start is a day since 1970.
type planWindow struct {
	account      id
	kind, period string
	start        int64
}

// planCount is the content of such a row; cap is -1 for none.
type planCount struct{ used, cap, excess int64 }

// planPin is what the hold of a covered request has pinned.
type planPin struct {
	plan                     string
	tier, day, price, images int64
	refunded                 bool
}

// pinOf is a hold's plan; nil where no plan covers it.
func (w *world) pinOf(r *record) *planPin {
	if r.textOr("plan_id") == "" {
		return nil
	}
	return &planPin{
		plan: w.once(r.text("plan_id")), tier: r.integer("plan_tier"), day: r.day("plan_day"), price: r.count("plan_price"),
		images: r.count("images"), refunded: r.flag("plan_refunded"),
	}
}

func (w *world) takePlanLimit(r *record) {
	key := planLimit{w.once(r.text("plan_id")), w.once(r.text("kind")), w.once(r.text("period"))}
	draws := r.integers("tiers")
	if _, ok := r.given("draws"); ok {
		draws = r.integers("draws")
	}
	put(w, r, w.limits, key, draws)
}

func (w *world) takePlanCounter(r *record) {
	key := planWindow{r.id("account_id"), w.once(r.text("kind")), w.once(r.text("period")), r.day("window_start")}
	put(w, r, w.counters, key, planCount{r.integer("used"), r.integerOr("cap", -1), r.integer("excess")})
}

func (w *world) takePlanGate(r *record) { put(w, r, w.gates, r.id("account_id"), r.integer("open")) }

// checkPlans computes every counter of a plan from the requests that it covered. An open
// request takes its estimate, a settled one its usage, and no tokens or money when the
// usage is nothing. As a request it counts unless it was given back.
func (a *audit) checkPlans() {
	used, running := map[planWindow]wide{}, map[id]int64{}
	for _, u := range a.ordered {
		q := a.requests[u]
		h := q.hold
		if h == nil {
			continue
		}
		if (h.plan != nil) != (h.billing == sourcePlan) || h.plan != nil && h.amount != 0 {
			a.r.found(Drift, about("request", u), "its hold of %d is of %s, and a plan is pinned: %v", h.amount, h.billing,
				h.plan != nil)
		}
		if h.plan == nil {
			continue
		}
		if h.state == stateOpen && q.report == nil {
			running[h.account]++
		}
		for limit, tiers := range a.limits {
			start, counted := windowStart(limit.period, h.plan.day)
			if limit.plan == h.plan.plan && counted && slices.Contains(tiers, h.plan.tier) {
				key := planWindow{h.account, limit.kind, limit.period, start}
				used[key] = used[key].plus(q.taken(limit.kind))
			}
		}
	}
	a.comparePlans(used)
	for _, u := range sortedIDs(a.gates) {
		if a.gates[u] != running[u] {
			a.r.found(Drift, about("account", u), "%d requests of its plan are under way, and %d of its holds are", a.gates[u],
				running[u])
		}
	}
	for _, u := range sortedIDs(running) {
		if _, ok := a.gates[u]; !ok {
			a.r.found(Drift, about("account", u), "%d requests of its plan are under way, and nothing counts them", running[u])
		}
	}
}

func (a *audit) comparePlans(used map[planWindow]wide) {
	keys := map[planWindow]bool{}
	for key := range a.counters {
		keys[key] = true
	}
	for key, sum := range used {
		if !sum.zero() {
			keys[key] = true
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(x, y planWindow) int {
		return cmp.Or(slices.Compare(x.account[:], y.account[:]), cmp.Compare(x.kind, y.kind),
			cmp.Compare(x.period, y.period), cmp.Compare(x.start, y.start))
	}) {
		c := a.counters[key]
		if wideOf(c.used) != used[key] {
			a.r.found(Drift, about("account", key.account), "its plan's %s of the %s from %s are %d, and its requests took %v",
				key.kind, key.period, date(key.start).Format(time.DateOnly), c.used, used[key])
		}
		// Only usage may be above the estimate.
		grows := key.kind == "tokens" || key.kind == "list_price"
		if c.cap >= 0 && (c.used-c.excess > c.cap || !grows && c.used > c.cap) || c.used < 0 {
			a.r.found(Overdrawn, about("account", key.account),
				"its plan's %s of the %s from %s are %d, %d of them in excess, of %d",
				key.kind, key.period, date(key.start).Format(time.DateOnly), c.used, c.excess, c.cap)
		}
	}
}

// taken is what a covered request takes of a limit.
func (q *request) taken(kind string) int64 {
	h := q.hold
	open, settled := h.state == stateOpen, h.state == stateSettled && len(q.lines) > 0
	switch kind {
	case "requests":
		if !h.plan.refunded {
			return 1
		}
	case "images":
		if !h.plan.refunded {
			return h.plan.images
		}
	case "tokens":
		if h.rates.unit != unitToken {
			return 0
		}
		if open {
			return h.prompt + h.maxCompletion
		}
		if settled {
			return q.lines[0].tokens.prompt + q.lines[0].tokens.completion
		}
	case "list_price":
		if open {
			return h.plan.price
		}
		if settled {
			return q.lines[0].listPrice
		}
	}
	return 0
}

// windowStart is the first day of the window of a day: the day itself, the
// Monday of its week or the first of its month. Other limits have no window.
func windowStart(period string, day int64) (int64, bool) {
	d := date(day)
	switch period {
	case "day":
		return day, true
	case "week":
		return day - int64((d.Weekday()+6)%7), true
	case "month":
		return day - int64(d.Day()-1), true
	}
	return 0, false
}
