package store_test

import (
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// A provider that answers a byte a second would else hold every place of a replica.
func TestOfAProviderFewProbesAreUnderWayAtATime(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	slow, other := storetest.Provider(t), e.See(t, storetest.Provider(t))
	first := e.See(t, slow, "a", "b")
	for range 4 {
		e.Queue(t, e.Plan(t, first), e.Plan(t, probe.Offer{Provider: slow, Model: "b"}))
	}
	e.Pass(t, time.Second)
	late := e.Plan(t, other)
	e.Queue(t, late)
	take := func(i int) []probe.ID { return took(ok(e.Stores[i].Take(t.Context(), string(rune('a'+i)), 4))(t)) }
	begun := take(0)
	is(t, "of the slow provider", len(begun), store.MaxEach)
	is(t, "of the other one, behind it in the queue", slices.Equal(take(1), []probe.ID{late.ID}), true)
	is(t, "of the slow provider by another replica", len(take(1)), 0)
	if err := e.Stores[0].DropProbe(t.Context(), "a", begun[0], "offline"); err != nil {
		t.Fatal(err)
	}
	is(t, "when one has ended", len(take(1)), 1)
	e.Pass(t, store.Lease)
	is(t, "when all leases are over, with the other one", len(take(0)), store.MaxEach+1)
}

func TestOfAProviderFewRunsGoOnAtATime(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	slow, other := storetest.Provider(t), e.See(t, storetest.Provider(t))
	e.See(t, slow, "a", "b", "c")
	for i, o := range []probe.Offer{{Provider: slow, Model: "a"}, {Provider: slow, Model: "b"},
		{Provider: slow, Model: "c"}, other} {
		run := store.Run{ID: probe.RunID{byte(i + 1)}, Offer: o, Basis: store.First, Body: []byte("begun"),
			NextAt: storetest.Start}
		if err := e.Stores[0].StartRun(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	for underWay := range store.MaxEach + 1 {
		due := ok(e.Stores[0].DueRuns(t.Context(), 10, slices.Repeat([]ids.ProviderID{slow}, underWay)...))(t)
		is(t, "runs of the slow provider beside the other's", len(due)-1, store.MaxEach-underWay)
		is(t, "the last", due[len(due)-1].Offer, other)
	}
}
