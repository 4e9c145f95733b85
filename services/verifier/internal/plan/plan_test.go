package plan_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/schedule"
)

var (
	monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	key    = prompt.Secret{1, 2, 3}
	prices = money.Rates{Input: 100_000, Output: 400_000, PayoutInput: 80_000, PayoutOutput: 300_000}
)

// offer returns an active offer of a model with 131,072 tokens that serves 16-bit weights.
func offer(n byte) plan.Offer {
	return plan.Offer{
		Offer:     probe.Offer{Provider: ids.ProviderID{n, 15: 1}, Model: "acme/large"},
		FirstSeen: monday.Add(-1000 * time.Hour), Active: true, Level: ladder.Normal,
		StatedTokens: 131_072, EffectiveTokens: 131_072, BytesPerToken: 4, Quantization: "bf16",
		References:   []quant.Class{quant.Bits16, quant.Bits4},
		Alternatives: []evidence.Alternative{evidence.Class4, evidence.Sibling}, Rates: prices,
	}
}

// world plans many hours for offers.
type world struct {
	planner *plan.Planner
	fleet   plan.Fleet
	offers  []plan.Offer
	// organic are the requests of an hour, by shape.
	organic map[cover.Shape]int64
	// hour sees what was planned for an hour.
	hour func(at time.Time, planned []plan.Hour)
}

func newWorld(offers ...plan.Offer) *world {
	return &world{
		planner: plan.New(key), offers: offers,
		fleet: plan.Fleet{Week: cover.NewWeek(), Prior: plan.Prior(), BudgetADay: 1000 * money.USD},
	}
}

func (w *world) run(t *testing.T, days int) []plan.Planned {
	t.Helper()
	var all []plan.Planned
	for h := range days * 24 {
		at := monday.Add(time.Duration(h) * time.Hour)
		if h%24 == 0 {
			w.fleet.Spent = 0
		}
		if w.organic != nil {
			if err := w.fleet.Week.Report(at, w.organic); err != nil {
				t.Fatal(err)
			}
		}
		planned := w.planner.Plan(&w.fleet, at, w.offers)
		for _, hour := range planned {
			for i := range w.offers {
				if w.offers[i].Offer == hour.Offer {
					w.offers[i].Past = hour.Past
				}
			}
			all = append(all, hour.Probes...)
		}
		if w.hour != nil {
			w.hour(at, planned)
		}
	}
	return all
}

func count(all []plan.Planned, is func(probe.Plan) bool) (n int) {
	for _, p := range all {
		if is(p.Plan) {
			n++
		}
	}
	return n
}

func kind(k probe.Kind) func(probe.Plan) bool { return func(p probe.Plan) bool { return p.Kind == k } }

// within reports a number that is further than tolerance from what is wanted.
func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: got %.4g, want %.4g ± %.4g", what, got, want, tolerance)
	}
}

func TestEveryWeekHasItsRecalls(t *testing.T) {
	t.Parallel()
	w := newWorld(offer(1))
	all := w.run(t, 7*12)
	near := count(all, func(p probe.Plan) bool {
		return p.Kind == probe.Recall && p.PromptTokens >= 95*131_072/100-1
	})
	within(t, "near-full recalls in 12 weeks", float64(near), 12, 1)
	middle := count(all, func(p probe.Plan) bool {
		return p.Kind == probe.Recall && p.PromptTokens <= 75*131_072/100+1
	})
	within(t, "mid-size recalls in 12 weeks", float64(middle), 24, 3)
}

func TestAQuietOfferHasEightArrivalsADayHalfOfThemGreedy(t *testing.T) {
	t.Parallel()
	offers := make([]plan.Offer, 12)
	for i := range offers {
		offers[i] = offer(byte(i + 1))
	}
	all := newWorld(offers...).run(t, 28)
	arrivals := count(all, func(p probe.Plan) bool { return p.Flow == probe.Hidden })
	// Beyond eight in a day a fleet without traffic has no cover, so that the mean is that of
	// min(8, Poisson(8)), which is 6.88.
	within(t, "arrivals a day", float64(arrivals)/28/12, 6.88, .25)
	greedy, sampled := count(all, kind(probe.Greedy)), count(all, kind(probe.Sampled))
	within(t, "greedy share of chats", float64(greedy)/float64(greedy+sampled), .5, .08)
	if replays := count(all, kind(probe.Replay)); replays == 0 {
		t.Error("replays: got none, want some")
	}
	if got := count(all, kind(probe.Logprobs)); got != 0 {
		t.Errorf("log-probabilities that nobody declared: got %d probes, want none", got)
	}
}

func TestNoShapeIsMoreThanATenthOfItsRequests(t *testing.T) {
	t.Parallel()
	offers := make([]plan.Offer, 8)
	for i := range offers {
		offers[i] = offer(byte(i + 1))
		offers[i].RequestsADay, offers[i].Logprobs, offers[i].EffectiveTokens = 4_800, true, 700
	}
	w := newWorld(offers...)
	w.organic = map[cover.Shape]int64{
		{Streamed: true, Length: 8}: 12, {Greedy: true, Length: 7}: 6,
		{Streamed: true, Greedy: true, Logprobs: true, Length: 8}: 1,
	}
	requests := map[cover.Shape]float64{}
	for s, n := range w.organic {
		requests[s] = float64(n) * 24 * 7
	}
	all := w.run(t, 21)
	for week := range 3 {
		begin := monday.Add(time.Duration(week) * 7 * 24 * time.Hour)
		probes := map[cover.Shape]float64{}
		for _, p := range all {
			if at := p.Plan.DueAt; !at.Before(begin) && at.Before(begin.Add(7*24*time.Hour)) {
				probes[cover.Shape{
					Streamed: p.Plan.Streamed, Greedy: p.Plan.Greedy, Logprobs: p.Plan.TopLogprobs > 0,
					Length: cover.LengthOf(p.Plan.PromptTokens),
				}]++
			}
		}
		for s, n := range probes {
			floor := 8. * 7 * float64(len(offers))
			if s.Logprobs {
				floor = 0
			}
			if n > .1*requests[s]+floor {
				t.Errorf("week %d, shape %+v: got %v probes, want at most a tenth of %v requests", week, s, n, requests[s])
			}
		}
	}
	if count(all, kind(probe.Logprobs)) == 0 {
		t.Error("log-probabilities with cover: got no probes, want some")
	}
}

func TestWithEnoughTrafficNothingStandsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(offer(1), offer(2))
	for i := range w.offers {
		w.offers[i].RequestsADay, w.offers[i].EffectiveTokens = 4_800, 700
	}
	w.organic = map[cover.Shape]int64{}
	for s, n := range plan.Prior() {
		w.organic[s] = n
	}
	all := w.run(t, 14)
	within(t, "arrivals a day", float64(len(all))/14/2, 24, 2.5)
	probes := map[cover.Shape]float64{}
	for _, p := range all {
		if p.Plan.Flow == probe.Hidden && !p.Plan.DueAt.Before(monday.Add(7*24*time.Hour)) {
			s := cover.Shape{Streamed: p.Plan.Streamed, Greedy: p.Plan.Greedy, Length: cover.LengthOf(p.Plan.PromptTokens)}
			probes[s]++
		}
	}
	for s, n := range probes {
		if got := n / (float64(w.organic[s]) * 24 * 7); got > .1 {
			t.Errorf("shape %+v: got a share of %.3f, want at most .1", s, got)
		}
	}
}

func TestProbesFollowTheOffersHours(t *testing.T) {
	t.Parallel()
	o := offer(1)
	for h := 9; h < 17; h++ {
		o.Hours[h] = 5
	}
	w := newWorld(o)
	all := w.run(t, 120)
	day := count(all, func(p probe.Plan) bool { return p.DueAt.Hour() >= 9 && p.DueAt.Hour() < 17 })
	within(t, "share of probes by day", float64(day)/float64(len(all)), .9+.1*8/24, .03)
}

func TestAWatchedYearHasFewerThan20000Observations(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level, o.RequestsADay = ladder.Notice, 100_000
	o.EffectiveTokens, o.StatedTokens = 700, 700
	w := newWorld(o)
	w.organic = map[cover.Shape]int64{}
	for s, n := range plan.Prior() {
		w.organic[s] = n
	}
	most, today := 0, 0
	w.hour = func(at time.Time, planned []plan.Hour) {
		if at.Hour() == 0 {
			today = 0
		}
		for _, h := range planned {
			today += len(h.Probes)
		}
		most = max(most, today)
	}
	const days = 60
	perDay := float64(len(w.run(t, days))) / days
	if got := perDay * 365; got > evidence.Horizon {
		t.Errorf("observations of a year: got %v, want at most %d", got, evidence.Horizon)
	}
	if most > schedule.Highest {
		t.Errorf("arrivals of a day: got %d, want at most %d", most, schedule.Highest)
	}
	// The mean of min(48, Poisson(48)) is 45.2.
	within(t, "arrivals of a day", perDay, 45.2, 1.2)
	last := evidence.Horizon - 5
	w.offers[0].Observations, w.hour = last, func(_ time.Time, planned []plan.Hour) {
		for _, h := range planned {
			w.offers[0].Observations += len(h.Probes)
		}
	}
	w.offers[0].Past = plan.Past{}
	w.run(t, 3)
	if got := w.offers[0].Observations; got != evidence.Horizon {
		t.Errorf("observations of a year that goes on: got %d, want %d", got, evidence.Horizon)
	}
}

func TestBudgetsHold(t *testing.T) {
	t.Parallel()
	offers := make([]plan.Offer, 20)
	for i := range offers {
		offers[i] = offer(byte(i + 1))
		offers[i].Level = ladder.Watch
	}
	w := newWorld(offers...)
	w.fleet.BudgetADay = money.USD / 20
	spent, byOffer := map[int64]money.NanoUSD{}, map[string]money.NanoUSD{}
	w.hour = func(at time.Time, planned []plan.Hour) {
		for _, h := range planned {
			for _, p := range h.Probes {
				spent[at.Unix()/86_400] += p.Cost
				byOffer[fmt.Sprint(h.Offer, at.Unix()/86_400)] += p.Cost
			}
		}
		if got, most := spent[at.Unix()/86_400], w.fleet.BudgetADay/24*money.NanoUSD(at.Hour()+1); got > most {
			t.Errorf("spent until %v: got %v, want at most %v", at, got, most)
		}
	}
	w.run(t, 14)
	for day, got := range byOffer {
		if got > money.USD/50 {
			t.Errorf("%s: got %v, want at most $.02", day, got)
		}
	}
	if len(spent) != 14 {
		t.Errorf("days with probes: got %d, want 14", len(spent))
	}
}

func TestAnHourIsPlannedOnceAndTheSameByEveryReplica(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level, o.Fingerprint, o.Logprobs = ladder.Watch, true, true
	one, two, other := newWorld(o), newWorld(o), newWorld(o)
	other.planner = plan.New(prompt.Secret{9})
	a, b, c := one.run(t, 3), two.run(t, 3), other.run(t, 3)
	if !reflect.DeepEqual(a, b) {
		t.Error("two replicas with the same facts: got different probes, want the same")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("another secret: got the same probes, want others")
	}
	seen := map[probe.ID]bool{}
	for _, p := range a {
		if seen[p.Plan.ID] {
			t.Errorf("the id %v: got twice, want once", p.Plan.ID)
		}
		seen[p.Plan.ID] = true
	}
}

func TestAnHourThatWasPlannedIsNotPlannedAgain(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level = ladder.Watch
	w := newWorld(o)
	again := 0
	w.hour = func(at time.Time, planned []plan.Hour) {
		if len(planned) > 0 {
			again += len(w.planner.Plan(&w.fleet, at.Add(time.Minute), w.offers))
		}
	}
	w.run(t, 2)
	if again != 0 {
		t.Errorf("hours that were planned: got %d again, want none", again)
	}
}

func TestWithoutTrafficNoOfferHasMoreThanEightHiddenArrivalsADay(t *testing.T) {
	t.Parallel()
	offers := make([]plan.Offer, 6)
	for i := range offers {
		offers[i] = offer(byte(i + 1))
		offers[i].Level = ladder.Watch
	}
	arrivals := map[string]int{}
	for _, p := range newWorld(offers...).run(t, 28) {
		arrivals[fmt.Sprint(p.Plan.Offer, p.Plan.DueAt.Unix()/86_400)]++
	}
	for day, got := range arrivals {
		if got > schedule.Lowest {
			t.Errorf("%s: got %d arrivals, want at most %d", day, got, schedule.Lowest)
		}
	}
}

func TestLogprobsAreAskedOnlyOfOffersThatDeclareThem(t *testing.T) {
	t.Parallel()
	w := newWorld(offer(1))
	w.organic = map[cover.Shape]int64{{Streamed: true, Greedy: true, Logprobs: true, Length: 8}: 1_000}
	if got := count(w.run(t, 14), func(p probe.Plan) bool { return p.TopLogprobs > 0 }); got != 0 {
		t.Errorf("log-probabilities of an offer without them: got %d probes, want none", got)
	}
}

func TestTheRestOfAnHourIsPlannedWithoutWhatWasDueBefore(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level = ladder.Watch
	for h := range 48 {
		begin := monday.Add(time.Duration(h) * time.Hour)
		whole, rest := newWorld(o), newWorld(o)
		all := whole.planner.Plan(&whole.fleet, begin, []plan.Offer{o})
		half := rest.planner.Plan(&rest.fleet, begin.Add(30*time.Minute), []plan.Offer{o})
		var want, got []probe.ID
		for _, hour := range all {
			for _, p := range hour.Probes {
				if !p.Plan.DueAt.Before(begin.Add(30 * time.Minute)) {
					want = append(want, p.Plan.ID)
				}
			}
		}
		for _, hour := range half {
			for _, p := range hour.Probes {
				got = append(got, p.Plan.ID)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("hour %d: got %v, want %v", h, got, want)
		}
	}
}
