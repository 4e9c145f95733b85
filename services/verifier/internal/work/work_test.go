package work_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/work"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// must returns a value, or ends the test for an error.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// none is a catalog without models.
type none struct{}

func (none) Find(string) (work.Model, bool) { return work.Model{}, false }

func mover(s *store.Store, told *[]ids.ProviderID) *work.Mover {
	return &work.Mover{Store: s, Limits: ladder.DemoThresholds(), Offers: offers.New(), Models: none{},
		Book: work.NewBook(s), Log: slog.New(slog.DiscardHandler),
		Changed: func(id ids.ProviderID) { *told = append(*told, id) },
		Observer: work.Observer{Probed: func(context.Context, probe.Plan, string, string) {},
			Moved: func(context.Context, probe.Offer, standing.Event, standing.Outcome) {}}}
}

func TestReportsHaveEveryOfferOfAProviderOnceAndGrow(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	reports := work.Reports{Store: e.Stores[0]}
	var told []ids.ProviderID
	m := mover(e.Stores[0], &told)
	first := standing.Event{Ticked: &standing.Tick{}}
	for range 3 {
		provider := storetest.Provider(t)
		e.See(t, provider, "a", "b")
		for _, model := range []string{"a", "b"} {
			must(m.Move(t.Context(), probe.Offer{Provider: provider, Model: model}, "first", first))(t)
		}
	}
	if len(told) != 6 {
		t.Errorf("changes told: got %d, want 6", len(told))
	}
	seen := map[ids.ProviderID]int64{}
	var after ids.ProviderID
	for {
		list := must(reports.ReportsAfter(t.Context(), after, 2))(t)
		for _, r := range list {
			if n := len(r.Opinions); n != 2 {
				t.Errorf("opinions of a provider: got %d, want 2", n)
			}
			seen[r.Provider], after = r.Revision, r.Provider
		}
		if len(list) < 2 {
			break
		}
	}
	if len(seen) != 3 {
		t.Errorf("providers: got %d, want 3", len(seen))
	}
	must(m.Move(t.Context(), probe.Offer{Provider: after, Model: "a"}, "pair", standing.Event{
		Paired: &standing.Pair{OrganicFailed: true}}))(t)
	again := must(reports.Report(t.Context(), after))(t)
	if again.Revision < seen[after] {
		t.Errorf("revision after an event: got %d, want at least %d", again.Revision, seen[after])
	}
}

func TestABookWithoutCalibrationsJudgesNobody(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	book := work.NewBook(e.Stores[0])
	if err := book.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !book.WatchOnly(judgetest.Stratum) {
		t.Error("the ladder goes further than watch: got true, want false")
	}
	if book.Usable(judgetest.Stratum, false) {
		t.Error("a benchmark's questions can be judged: got true, want false")
	}
	e.AllowPenalties(t)
	if err := book.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if book.WatchOnly(judgetest.Stratum) {
		t.Error("calibrated: the ladder ends at watch: got true, want false")
	}
	unknown := judgetest.Stratum
	unknown.GPU = "a GPU without a reference"
	forms := must(book.Of(t.Context(), probe.Plan{Stratum: unknown}))(t)
	if len(forms["greedy"]) == 0 {
		t.Error("an unknown GPU class: got no calibration, want the widest of the model and class")
	}
	revised := judgetest.Stratum
	revised.Files[0]++
	if !book.WatchOnly(revised) {
		t.Error("other files of the model: the ladder goes further than watch: got true, want false")
	}
	other := judgetest.Stratum
	other.Class--
	if forms := must(book.Of(t.Context(), probe.Plan{Stratum: other}))(t); len(forms) != 0 {
		t.Errorf("another class: got %d calibrations, want none", len(forms))
	}
}

// One provider that exceeds is a cheat; three at once have a cause in common.
func TestTheGuardStopsTheLadderWhereSeveralProvidersExceed(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	var told []ids.ProviderID
	suspected := -1
	g := &work.Guard{Store: e.Stores[0], Mover: mover(e.Stores[0], &told), Log: slog.New(slog.DiscardHandler),
		Suspected: func(_ context.Context, n int) { suspected = n }}
	var list []probe.Offer
	for n := range 3 {
		o := e.See(t, storetest.Provider(t))
		list = append(list, o)
		e.Probe(t, o, true, "reference-1")
		if err := g.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := n / 2; suspected != want {
			t.Errorf("strata suspected after %d providers: got %d, want %d", n+1, suspected, want)
		}
	}
	for _, o := range list {
		st := must(e.Stores[0].Standing(t.Context(), o))(t)
		if n := st.State.Process.M(); n != 0 && o != list[0] {
			t.Errorf("evidence of the observations since the last good check: got %v, want 0", n)
		}
	}
	strata := must(e.Stores[0].Strata(t.Context(), judgetest.Stratum.Model, store.StratumKey{}, 10))(t)
	if got, want := strata[0].Suspicion, string(calibration.ManyExceed); got != want {
		t.Errorf("suspicion: got %q, want %q", got, want)
	}
	e.Pass(t, 25*time.Hour)
	if err := g.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if suspected != 0 {
		t.Errorf("strata suspected a day later: got %d, want 0", suspected)
	}
}

func TestTicksOfTwoReplicasTickOnce(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	var told []ids.ProviderID
	m := mover(e.Stores[0], &told)
	must(m.Move(t.Context(), o, "first", standing.Event{Ticked: &standing.Tick{}}))(t)
	for i := range 2 {
		ticks := &work.Ticks{Store: e.Stores[i], Mover: mover(e.Stores[i], &told), Log: slog.New(slog.DiscardHandler)}
		if err := ticks.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.Count(t, `SELECT count(*) FROM event`); n != 1 {
		t.Errorf("events: got %d, want the first alone", n)
	}
}
