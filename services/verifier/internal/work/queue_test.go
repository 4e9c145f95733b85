package work

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// answering is a provider whose answers have a status.
type answering struct {
	t      *testing.T
	status int
	failed bool
	cut    bool
}

func (a *answering) Run(_ context.Context, p probe.Plan) (judge.Record, error) {
	r := judgetest.Greedy(a.t, judgetest.Say{N: 1})
	r.Plan, r.Answer.Served = p, p.Offer.Provider.String()
	r.Answer.Status, r.Answer.Failed, r.Answer.Complete = a.status, a.failed, a.status == http.StatusOK && !a.cut
	return r, nil
}

func (a *answering) RunOn(ctx context.Context, p probe.Plan, _ string) (judge.Record, error) {
	return a.Run(ctx, p)
}

// Attempts of consumers that an engine refuses are in no pair. So a refused probe is in
// none either: it would count as one that was served, and speak against an honest provider.
// Consumers wait longer than we do, so that the same holds for a probe that was left.
func TestAProbeThatWasRefusedOrLeftMakesNoPair(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	for _, c := range []struct {
		answering
		pairs int
	}{
		{answering{t: t, status: http.StatusOK}, 1},
		{answering{t: t, status: http.StatusServiceUnavailable, failed: true}, 1},
		{answering{t: t, status: http.StatusBadRequest}, 0},
		{answering{t: t, status: http.StatusOK, cut: true}, 0},
	} {
		o := e.See(t, storetest.Provider(t))
		at, log, matcher := clock.NewManual(storetest.Start), slog.New(slog.DiscardHandler), pairing.New()
		m := &Mover{Store: e.Stores[0], Limits: ladder.DemoThresholds(), Offers: offers.New(), Models: oneModel{},
			Book: NewBook(e.Stores[0]), Log: log, Changed: func(ids.ProviderID) {},
			Observer: Observer{Probed: func(context.Context, probe.Plan, string, string) {},
				Moved: func(context.Context, probe.Offer, standing.Event, standing.Outcome) {}}}
		q := &Queue{Store: e.Stores[0], Runner: &c.answering, Mover: m, Pairing: matcher, Clock: at, Log: log, Replica: "a"}
		plan := e.Plan(t, o)
		e.Queue(t, plan)
		if _, err := e.Stores[0].Take(t.Context(), "a", 10); err != nil {
			t.Fatal(err)
		}
		q.carryOut(t.Context(), plan)
		at.Advance(time.Minute)
		matcher.Attempted(pairing.Attempt{Request: "r", Offer: o, Failed: true, At: at.Now()})
		at.Advance(2 * pairing.Hold)
		if got := len(matcher.Due(at.Now())); got != c.pairs {
			t.Errorf("status %d, left %t: pairs: got %d, want %d", c.status, c.cut, got, c.pairs)
		}
	}
}

func TestAQueueWaitsUntilTheNextProbeIsDue(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	plan := e.Plan(t, e.See(t, storetest.Provider(t)))
	plan.DueAt = plan.DueAt.Add(time.Minute)
	on := true
	q := &Queue{Store: e.Stores[0], Log: slog.New(slog.DiscardHandler), Enabled: func(context.Context) bool { return on }}
	is := func(what string, free int, want time.Duration) {
		t.Helper()
		if got := q.pause(t.Context(), free); got != want {
			t.Errorf("pause %s: got %v, want %v", what, got, want)
		}
	}
	is("without a probe", 1, longPoll)
	e.Queue(t, plan)
	is("a minute before the probe", 1, longPoll)
	e.Pass(t, time.Minute-3*time.Second)
	is("three seconds before the probe", 1, 3*time.Second)
	e.Pass(t, 3*time.Second)
	is("when the probe is due", 1, 0)
	is("while as many run as may", 0, poll)
	on = false
	is("while probes are off", 1, longPoll)
	on = true
	if _, err := e.Stores[0].Take(t.Context(), "a", 10); err != nil {
		t.Fatal(err)
	}
	e.Pass(t, store.Lease-2*time.Second)
	is("two seconds before a lease is over", 1, 2*time.Second)
	e.Pass(t, time.Hour)
	is("after a lease is over", 1, 0)
}
