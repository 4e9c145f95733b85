package store_test

import (
	"errors"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// Two replicas that plan the same hour make its probes once, and the past of the first is
// kept.
func TestAnHourIsPlannedByOneReplica(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	hour := plan.Hour{Offer: o, Past: plan.Past{Hour: storetest.Start.Unix() / 3600, Arrivals: 1}}
	var planned [2]bool
	for _, err := range storetest.Race(
		func() (err error) {
			planned[0], err = e.Stores[0].PutHour(t.Context(), hour, store.QueuedProbe{Plan: e.Plan(t, o)})
			return err
		},
		func() (err error) {
			planned[1], err = e.Stores[1].PutHour(t.Context(), hour, store.QueuedProbe{Plan: e.Plan(t, o)})
			return err
		},
	) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if planned[0] == planned[1] {
		t.Errorf("the hour is planned: got %t and %t, want by one replica", planned[0], planned[1])
	}
	is(t, "probes", e.Count(t, `SELECT count(*) FROM probe`), 1)
	pasts := ok(e.Stores[0].Pasts(t.Context(), probe.Offer{}, 10))(t)
	is(t, "pasts", len(pasts), 1)
	is(t, "arrivals", pasts[0].Past.Arrivals, 1)
	hour.Past.Hour++
	is(t, "the next hour is planned", ok(e.Stores[1].PutHour(t.Context(), hour))(t), true)
}

func TestAPastThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	_, err := e.Stores[0].PutHour(t.Context(), plan.Hour{Offer: o, Past: plan.Past{Hour: 1, Arrivals: -1}})
	if !errors.Is(err, plan.ErrPast) {
		t.Errorf("got the error %v, want %v", err, plan.ErrPast)
	}
}

func TestHiddenProbesOfADayAreCountedTogether(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	for range 2 {
		e.Probe(t, o, false, "reference-1")
	}
	void := e.Plan(t, o)
	e.Queue(t, void)
	ok(e.Stores[0].Take(t.Context(), "a", 1))(t)
	if err := e.Stores[0].DropProbe(t.Context(), "a", void.ID, "offline"); err != nil {
		t.Fatal(err)
	}
	e.Pass(t, 24*time.Hour)
	e.Probe(t, o, false, "reference-1")
	behind := store.HiddenDay{}
	var days []store.HiddenDay
	for {
		page := ok(e.Stores[0].HiddenByDay(t.Context(), o.Provider, storetest.Start.Add(48*time.Hour), behind, 1))(t)
		if len(page) == 0 {
			break
		}
		days, behind = append(days, page...), page[0]
	}
	is(t, "days", len(days), 2)
	is(t, "probes of the last day", days[0].Probes, 1)
	is(t, "probes of the first day", days[1].Probes, 3)
	is(t, "of which were carried out", days[1].Done, 2)
	e.Pass(t, (store.HiddenDays+2)*24*time.Hour)
	old := ok(e.Stores[0].HiddenByDay(t.Context(), o.Provider, storetest.Start.Add(40*24*time.Hour), store.HiddenDay{},
		10))(t)
	is(t, "days that are too old", len(old), 0)
}
