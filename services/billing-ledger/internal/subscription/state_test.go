package subscription

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestASubscriptionMovesAsItsTableSays(t *testing.T) {
	t.Parallel()
	want := map[State]map[Trigger]State{
		Incomplete: {WasPaid: Active, Finished: Ended},
		Active:     {WasPaid: Active, PeriodOver: PastDue, Finished: Ended, Refunded: Ended},
		PastDue:    {WasPaid: Active, PeriodOver: PastDue, Finished: Ended, Refunded: Ended},
		Ended:      {PeriodOver: Ended, Finished: Ended, Refunded: Ended},
	}
	for _, from := range States() {
		for _, trigger := range Triggers() {
			got, err := from.After(trigger)
			to, ok := want[from][trigger]
			if ok != (err == nil) {
				t.Errorf("%s after %s: got the error %v, want one: %t", from, trigger, err, !ok)
			}
			if ok && got != to {
				t.Errorf("%s after %s: got %s, want %s", from, trigger, got, to)
			}
		}
	}
}

func TestAMonthEndsOnItsLastDayAtTheLatest(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		got, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, tc := range []struct {
		anchor string
		months int
		want   string
	}{
		{"2026-01-31T12:00:00Z", 1, "2026-02-28T12:00:00Z"},
		{"2026-01-31T12:00:00Z", 2, "2026-03-31T12:00:00Z"},
		{"2026-01-31T12:00:00Z", 3, "2026-04-30T12:00:00Z"},
		{"2027-12-31T23:59:59Z", 2, "2028-02-29T23:59:59Z"},
		{"2026-11-30T00:00:00Z", 3, "2027-02-28T00:00:00Z"},
		{"2026-05-15T01:02:03Z", 12, "2027-05-15T01:02:03Z"},
		{"2026-01-31T23:30:00-05:00", 1, "2026-03-01T04:30:00Z"},
	} {
		if got := Month(at(tc.anchor), tc.months); !got.Equal(at(tc.want)) {
			t.Errorf("%s and %d months: got %v, want %s", tc.anchor, tc.months, got, tc.want)
		}
	}
}

// The clock moves forwards and backwards at random; nothing but a payment leads back.
func TestTheClockNeverRevivesASubscription(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
	order := map[State]int{Active: 1, PastDue: 2, Ended: 3}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := Subscription{State: Active, PeriodEnd: end, Cancel: seed%2 == 0}
		for range 20 {
			now := end.Add(time.Duration(random.Int64N(int64(20*24*time.Hour))) - 10*24*time.Hour)
			trigger, cause, moves := b.Tick(now)
			if !moves {
				continue
			}
			to, err := b.State.After(trigger)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if order[to] <= order[b.State] {
				t.Fatalf("seed %d: got %s behind %s, want a later state", seed, to, b.State)
			}
			if (to == Ended) != (cause != "") {
				t.Fatalf("seed %d: got the cause %q of %s", seed, cause, to)
			}
			b.State, b.Cause = to, cause
		}
	}
}

func TestTheEdgesOfAPeriodAreExact(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		b    Subscription
		now  time.Time
		want Trigger
	}{
		"before its end":         {Subscription{State: Active}, end.Add(-1), ""},
		"at its end":             {Subscription{State: Active}, end, PeriodOver},
		"cancelled, before":      {Subscription{State: Active, Cancel: true}, end.Add(-1), ""},
		"cancelled, at the end":  {Subscription{State: Active, Cancel: true}, end, Finished},
		"in its grace":           {Subscription{State: PastDue}, end.Add(Grace - 1), ""},
		"behind its grace":       {Subscription{State: PastDue}, end.Add(Grace), Finished},
		"cancelled in its grace": {Subscription{State: PastDue, Cancel: true}, end, Finished},
		"its page is open":       {Subscription{State: Incomplete}, end, ""},
		"its page is over":       {Subscription{State: Incomplete, PageOver: true}, end, Finished},
		"ended":                  {Subscription{State: Ended}, end.Add(Grace), ""},
	} {
		tc.b.PeriodEnd = end
		if got, _, _ := tc.b.Tick(tc.now); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestAPaymentIsJudgedByItsPeriodAndByWhatTheAccountHas(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
	next := Invoice{PeriodStart: end, PeriodEnd: end.AddDate(0, 1, 0), Paid: end}
	late, past := next, next
	late.Paid = late.PeriodEnd
	past.PeriodEnd, past.Paid = end, end.Add(-time.Hour)
	active := Subscription{State: Active, PeriodEnd: end}
	ended := func(c Cause) Subscription { return Subscription{State: Ended, PeriodEnd: end, Cause: c} }
	for name, tc := range map[string]struct {
		b     Subscription
		i     Invoice
		taken bool
		want  Verdict
	}{
		"the first":                     {Subscription{State: Incomplete}, next, false, Extends},
		"the next":                      {active, next, false, Extends},
		"the next in the grace":         {Subscription{State: PastDue, PeriodEnd: end}, next, false, Extends},
		"one that is known":             {active, past, false, Past},
		"one that is known, at the end": {ended(WasRefunded), past, true, Past},
		"beside an operator's plan":     {active, next, true, Surplus},
		"behind an unpaid end":          {ended(Unpaid), next, false, Begins},
		"behind a page that was over":   {Subscription{State: Ended, Cause: Abandoned}, next, false, Begins},
		"beside another subscription":   {ended(Unpaid), next, true, Surplus},
		"behind a cancel":               {ended(Cancelled), next, false, Surplus},
		"behind a refund":               {ended(WasRefunded), next, false, Surplus},
		"when its period is over":       {active, late, false, Late},
	} {
		if got := tc.b.Judge(tc.i, tc.taken); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
