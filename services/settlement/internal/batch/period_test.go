package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/money"
)

// stated returns a statement. Each of its sums is given as kind, entry kind, account and amount.
func stated(sums ...[4]string) []byte {
	list := make([]string, len(sums))
	for i, s := range sums {
		list[i] = fmt.Sprintf(`{"kind":%q,"entry_kind":%q,"account":%q,"month":"","lines":"1","amount_nano_usd":%q}`,
			s[0], s[1], s[2], s[3])
	}
	return []byte(`{"day":"2026-03-01","sums":[` + strings.Join(list, ",") + `]}`)
}

func TestAStatementSaysWhatWasEarnedByCreditHeldAndByPlans(t *testing.T) {
	for name, tc := range map[string]struct {
		sums [][4]string
		want Parts
	}{
		"nothing": {nil, Parts{}},
		"credit":  {[][4]string{{"payg", "", Accrued, "100"}, {"orphan", "", Accrued, "20"}}, Parts{Settled: 120}},
		"plans":   {[][4]string{{"plan", "", PlanHeld, "30"}}, Parts{Pending: 30}},
		"held of credit": {[][4]string{{"payg", "", Accrued, "100"}, {"held", "", Accrued, "7"}},
			Parts{Settled: 93, Held: 7}},
		"held of plans": {[][4]string{{"plan", "", PlanHeld, "30"}, {"held", "", PlanHeld, "4"}},
			Parts{Pending: 26, Held: 4}},
		"released later": {[][4]string{{"released", "", Accrued, "7"}}, Parts{Settled: 7, Held: -7}},
		"refunded later": {[][4]string{{"refund", "request_refund", Accrued, "-60"}, {"refund", "request_refund", Payable,
			"-30"}, {"refund", "request_refund", Receivable, "-10"}}, Parts{Settled: -100}},
		"refunded while it was held": {[][4]string{{"refund", "request_refund", Accrued, "-7"},
			{"held_refunded", "", Accrued, "7"}}, Parts{Held: -7}},
		"forfeited of plans": {[][4]string{{"forfeited", "", PlanHeld, "4"}, {"entry", "plan_forfeit", PlanHeld, "-4"}},
			Parts{Held: -4}},
		"a batch and a payout": {[][4]string{{"entry", "earnings_batch", Accrued, "-100"},
			{"entry", "earnings_batch", Payable, "100"}, {"entry", "payout_requested", Payable, "-50"},
			{"entry", "payout_requested", InFlight, "50"}, {"entry", "payout_confirmed", InFlight, "-50"}}, Parts{}},
		"a month that is closed": {[][4]string{{"entry", "plan_share", PlanHeld, "-30"}, {"entry", "plan_share", Payable,
			"20"}}, Parts{}},
		"a batch that was undone": {[][4]string{{"reversal", "reversal", Accrued, "100"}, {"reversal", "reversal", Payable,
			"-100"}}, Parts{}},
	} {
		got, err := PartsOf(stated(tc.sums...))
		if err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
		if got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
	for _, broken := range []string{`{`, `{"sums":[{"kind":"payg","amount_nano_usd":"x"}]}`} {
		if _, err := PartsOf([]byte(broken)); err == nil {
			t.Errorf("%s: got no error, want one", broken)
		}
	}
}

func TestAPeriodHasTodayAndTheDaysBefore(t *testing.T) {
	today := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	var days []DayParts
	for back := range 40 {
		days = append(days, DayParts{Day: today.AddDate(0, 0, -back), Parts: Parts{Settled: 1, Held: 10, Pending: 100,
			Unbatched: 1000}})
	}
	for _, length := range []int{1, 7, 30} {
		n := money.NanoUSD(length)
		want := Period{Since: today.AddDate(0, 0, 1-length), Parts: Parts{Settled: n, Held: 10 * n, Pending: 100 * n,
			Unbatched: 1000 * n}}
		if got := PeriodOf(days, today, length); got != want {
			t.Errorf("%d days: got %+v, want %+v", length, got, want)
		}
	}
}

func TestEachDayIsToldUnlessItsLinesAreNotSummed(t *testing.T) {
	today := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	earned := Parts{Settled: 5}
	ago := func(days int) time.Time { return today.AddDate(0, 0, -days) }
	for name, tc := range map[string]struct {
		days    []DayParts
		through time.Time
		length  int
		// first is how many days ago the first day is, and count how many days there are.
		first, count int
	}{
		"none is asked for":                   {nil, ago(1), 0, 0, 0},
		"today alone":                         {nil, ago(1), 1, 0, 1},
		"all days, batched until yesterday":   {nil, ago(1), MaxDays, 91, MaxDays},
		"no batch at all":                     {nil, time.Time{}, MaxDays, 29, 30},
		"batched, and then not for long":      {nil, ago(60), MaxDays, 91, MaxDays - 30},
		"a statement of a day that is behind": {[]DayParts{{ago(40), earned}}, time.Time{}, MaxDays, 40, 31},
	} {
		got := ByDay(tc.days, tc.through, today, tc.length)
		if len(got) != tc.count {
			t.Errorf("%s: got %d days, want %d", name, len(got), tc.count)
			continue
		}
		if tc.count > 0 && !got[0].Day.Equal(ago(tc.first)) {
			t.Errorf("%s: got %v first, want %v", name, got[0].Day, ago(tc.first))
		}
	}
	got := ByDay([]DayParts{{ago(1).In(time.FixedZone("", 0)), earned}}, ago(1), today, 2)
	if want := []DayParts{{ago(1), earned}, {today, Parts{}}}; !slices.Equal(got, want) {
		t.Errorf("two days: got %v, want %v", got, want)
	}
}
