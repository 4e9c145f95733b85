package work_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/work"
)

// told remembers what a hub was told, and fails where it is set to.
type told struct {
	fail      map[ids.ProviderID]bool
	count     map[ids.ProviderID]int
	revisions []int64
}

func (t *told) Benchmark(
	_ context.Context, provider ids.ProviderID, passed bool, _ time.Time, revision int64, _ string,
) error {
	if t.fail[provider] {
		return errors.New("away")
	}
	if passed {
		t.count[provider]++
	}
	t.revisions = append(t.revisions, revision)
	return nil
}

// waived is a view of two providers and a reference, and what their hub is told.
func waived(at *clock.Manual) (*work.Waived, *told, [3]ids.ProviderID) {
	who := [3]ids.ProviderID{{15: 1}, {15: 2}, {15: 3}}
	view := offers.New()
	report := offers.Report{Hub: "hub-1", Incarnation: 1, Address: "inprocess", Revision: 1, Full: true, Parts: 1}
	for i, id := range who {
		report.Sessions = append(report.Sessions, offers.Session{Provider: id, Node: "n", Epoch: int64(i + 1),
			Active: i < 2, Reference: i == 2, Models: []offers.Model{{ID: "a", Healthy: true}, {ID: "b", Healthy: true}}})
	}
	view.Apply(report, at.Now())
	hub := &told{fail: map[ids.ProviderID]bool{}, count: map[ids.ProviderID]int{}}
	return &work.Waived{Offers: view, Hub: hub, Clock: at, Log: slog.New(slog.DiscardHandler)}, hub, who
}

func TestWaivedBenchmarksAreToldOnceForEachProvider(t *testing.T) {
	t.Parallel()
	at := clock.NewManual(time.Unix(1_800_000_000, 0))
	w, hub, who := waived(at)
	for range 3 {
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{1, 1, 0} {
		if got := hub.count[who[i]]; got != want {
			t.Errorf("provider %d: got told %d times, want %d", i+1, got, want)
		}
	}
}

func TestWaivedBenchmarksAreToldAgainBeforeTheyExpire(t *testing.T) {
	t.Parallel()
	at := clock.NewManual(time.Unix(1_800_000_000, 0))
	w, hub, who := waived(at)
	for range 2 {
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		at.Advance(12 * time.Hour)
	}
	if got := hub.count[who[0]]; got != 2 {
		t.Errorf("after 12 hours: got told %d times, want 2", got)
	}
	if first, last := hub.revisions[0], hub.revisions[len(hub.revisions)-1]; last <= first {
		t.Errorf("got the revision %d after %d, want a larger one", last, first)
	}
}

func TestAHubThatFailsForOneProviderIsToldOfTheOthersAndAskedAgain(t *testing.T) {
	t.Parallel()
	at := clock.NewManual(time.Unix(1_800_000_000, 0))
	w, hub, who := waived(at)
	hub.fail[who[0]] = true
	if err := w.Pass(t.Context()); err == nil {
		t.Error("a hub that fails: got no error, want one")
	}
	if got := hub.count[who[1]]; got != 1 {
		t.Errorf("the other provider: got told %d times, want 1", got)
	}
	hub.fail[who[0]] = false
	at.Advance(time.Second)
	if err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := hub.count[who[0]]; got != 1 {
		t.Errorf("a second later: got told %d times, want 1", got)
	}
}

// present has the view show the first provider as active or not.
func present(w *work.Waived, who ids.ProviderID, revision uint64, active bool) {
	w.Offers.Apply(offers.Report{Hub: "hub-1", Incarnation: 1, Address: "inprocess", Revision: revision,
		Sessions: []offers.Session{{Provider: who, Node: "n", Epoch: 1, Active: active,
			Models: []offers.Model{{ID: "a", Healthy: true}}}}}, w.Clock.Now())
}

// An operator who lifts a suspension leaves the provider pending, with its benchmark used up.
func TestAWaivedBenchmarkIsToldAgainWhileItsProviderIsNotActive(t *testing.T) {
	t.Parallel()
	at := clock.NewManual(time.Unix(1_800_000_000, 0))
	w, hub, who := waived(at)
	pass := func(want int) {
		t.Helper()
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := hub.count[who[0]]; got != want {
			t.Errorf("told: got %d times, want %d", got, want)
		}
	}
	pass(1)
	present(w, who[0], 2, false)
	pass(2) // at once
	pass(2)
	for want, pause := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		at.Advance(pause*time.Second - time.Millisecond)
		pass(want + 2)
		at.Advance(time.Millisecond)
		pass(want + 3)
	}
	present(w, who[0], 3, true)
	at.Advance(11 * time.Hour)
	pass(9)
	if got := hub.count[who[1]]; got != 1 {
		t.Errorf("the provider that was active all the time: got told %d times, want 1", got)
	}
}
