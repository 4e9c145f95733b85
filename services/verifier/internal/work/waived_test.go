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
			Reference: i == 2, Models: []offers.Model{{ID: "a", Healthy: true}, {ID: "b", Healthy: true}}})
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
