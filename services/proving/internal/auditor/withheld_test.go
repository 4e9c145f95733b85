package auditor

import (
	"maps"
	"testing"
)

// withholds has the first provider's earnings of the month held at its close, and forfeited since: what waits of the
// pool is revenue.
func (f *fixture) withholds() {
	const month, earned, waits = "2026-03", int64(33), int64(25)
	after := float64(31 * aDay)
	provider := providerID(first)
	for _, r := range []string{"plan_forfeit l:provider:plan_held debit", "plan_forfeit x:plan_accrual credit",
		"plan_unclaimed x:plan_accrual debit", "plan_unclaimed r:plan credit"} {
		f.permit(r)
	}
	f.add("chart", row{"kind": "r:plan", "normal": "credit", "owned": false, "book": ""})
	f.add("held_earning", row{"request_id": requestID(planned), "provider_id": provider, "book": month, "payout": earned,
		"held_at": at(3*planned + 2), "ended_at": at(after), "ended_as": "forfeited"})
	f.settled("batch_line", row{"day": dayOne, "provider_id": provider, "line": len(f.earnings["batch_line"]) + 1,
		"kind": "held", "account": kindPlanHeld, "month": month, "amount": earned, "request_id": requestID(planned)})
	f.earnings["batch_day"][0]["lines"] = len(f.earnings["batch_line"])
	bump(f.shareOf(first), "lines", 1)
	f.commit()
	for _, s := range []row{f.tables["closed_share"][0], f.earnings["plan_share"][0]} {
		maps.Copy(s, row{"withheld": earned, "withheld_paid": waits})
	}
	f.lose(80)
	business := month + "/" + provider + "/held/" + requestID(planned)
	f.post(entryID(85), "plan_forfeit", business, after, nil, leg(kindPlanHeld, provider, -earned),
		leg(kindPlanDebt, nil, earned))
	f.post(entryID(86), "plan_unclaimed", business, after, nil, leg(kindPlanDebt, nil, -waits), leg("r:plan", nil, waits))
	for _, l := range append(f.legs(85), f.legs(86)[0]) {
		l["book"] = month
	}
}

func TestWhatIsForfeitedOfAClosedMonthIsItsPartOfThePool(t *testing.T) {
	t.Parallel()
	f := newSettled()
	f.withholds()
	wantClean(t, mustAudit(t, f, Options{}))
	for _, c := range []corruption{
		{"nobody has a part of what is forfeited", func(f *fixture) { f.lose(86) },
			Drift, onProvider(first), "and 0 were paid for 33"},
		{"another part is left to nobody than waits", func(f *fixture) { f.shift(86, 1, 0, 1) },
			Drift, onProvider(first), "and 24 were paid for 33"},
		{"more is forfeited than was held", func(f *fixture) { f.shift(85, 0, 1, 1) },
			Drift, onProvider(first), "were paid for 34"},
	} {
		c.run(t, func() *fixture {
			f := newSettled()
			f.withholds()
			return f
		})
	}
}
