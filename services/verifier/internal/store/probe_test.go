package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// took returns the ids of plans.
func took(plans []probe.Plan) []probe.ID {
	var list []probe.ID
	for _, p := range plans {
		list = append(list, p.ID)
	}
	return list
}

func stateOf(t *testing.T, e *storetest.Env, id probe.ID) string {
	t.Helper()
	var state string
	if err := e.Owner.QueryRow(t.Context(), `SELECT state FROM probe WHERE probe_id = $1`, id).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

func TestAProbeThatIsPutIsTakenAsItWasPlanned(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	seed := int64(7)
	plan := e.Plan(t, o)
	plan.Seed, plan.Asked, plan.FromEnd, plan.AvoidHost = &seed, []int{1}, []int{10, 20}, "host"
	e.Queue(t, plan, plan)
	plans := ok(e.Stores[1].Take(t.Context(), "a", 10))(t)
	if len(plans) != 1 {
		t.Fatalf("probes: got %d, want 1", len(plans))
	}
	got := plans[0]
	is(t, "seed", *got.Seed, seed)
	is(t, "asked", slices.Equal(got.Asked, plan.Asked), true)
	is(t, "avoided host", got.AvoidHost, plan.AvoidHost)
	is(t, "due", got.DueAt.Equal(plan.DueAt), true)
	is(t, "offer", got.Offer, o)
}

func TestTwoReplicasTakeEachProbeOnce(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	const probes = 120
	for range probes / store.MaxEach {
		o := e.See(t, storetest.Provider(t))
		for range store.MaxEach {
			e.Queue(t, e.Plan(t, o))
		}
	}
	seen := [4]map[probe.ID]bool{}
	var all []func() error
	for i := range seen {
		seen[i] = map[probe.ID]bool{}
		all = append(all, func() error {
			for {
				plans, err := e.Stores[i%2].Take(context.Background(), "replica-"+string(rune('a'+i)), 7)
				for _, p := range plans {
					seen[i][p.ID] = true
				}
				if err != nil || len(plans) == 0 {
					return err
				}
			}
		})
	}
	if err := errors.Join(storetest.Race(all...)...); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, one := range seen {
		total += len(one)
	}
	is(t, "probes that were taken", total, probes)
	is(t, "probes that were taken once", e.Count(t, `SELECT count(*) FROM probe WHERE state = 'leased' AND tries =
		1`), probes)
}

func TestAProbeIsNotTakenBeforeItIsDue(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	plan := e.Plan(t, e.See(t, storetest.Provider(t)))
	plan.DueAt = plan.DueAt.Add(time.Minute)
	e.Queue(t, plan)
	e.Pass(t, time.Minute-time.Microsecond)
	is(t, "before", len(ok(e.Stores[0].Take(t.Context(), "a", 10))(t)), 0)
	e.Pass(t, time.Microsecond)
	is(t, "when it is due", len(ok(e.Stores[0].Take(t.Context(), "a", 10))(t)), 1)
}

func TestALeaseExpiresByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	plan := e.Plan(t, e.See(t, storetest.Provider(t)))
	e.Queue(t, plan)
	ok(e.Stores[0].Take(t.Context(), "a", 10))(t)
	e.Pass(t, store.Lease-time.Microsecond)
	is(t, "within the lease", len(ok(e.Stores[1].Take(t.Context(), "b", 10))(t)), 0)
	e.Pass(t, time.Microsecond)
	is(t, "after the lease", len(ok(e.Stores[1].Take(t.Context(), "b", 10))(t)), 1)
	// The replica that was late has no say any more.
	for _, err := range []error{
		e.Stores[0].Done(t.Context(), "a", plan.ID), e.Stores[0].GiveBack(t.Context(), "a", plan.ID, "late"),
		e.Stores[0].DropProbe(t.Context(), "a", plan.ID, "late"), e.Stores[0].Return(t.Context(), "a", plan.ID),
	} {
		if err != nil {
			t.Errorf("a late word: got the error %v, want none", err)
		}
	}
	is(t, "state", stateOf(t, e, plan.ID), "leased")
	if err := e.Stores[1].Done(t.Context(), "b", plan.ID); err != nil {
		t.Fatal(err)
	}
	is(t, "state in the end", stateOf(t, e, plan.ID), "done")
}

func TestAProbeIsTriedThreeTimesAndThenVoid(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	lost, given := e.Plan(t, o), e.Plan(t, o)
	e.Queue(t, lost)
	for range store.MaxTries {
		is(t, "probes taken", len(ok(e.Stores[0].Take(t.Context(), "a", 10))(t)), 1)
		e.Pass(t, store.Lease)
	}
	is(t, "a fourth time", len(ok(e.Stores[0].Take(t.Context(), "a", 10))(t)), 0)
	is(t, "the lost one", stateOf(t, e, lost.ID), "void")

	e.Queue(t, given)
	for i, pause := range []time.Duration{time.Minute, 10 * time.Minute, 0} {
		is(t, "probes taken", len(ok(e.Stores[0].Take(t.Context(), "a", 10))(t)), 1)
		if err := e.Stores[0].GiveBack(t.Context(), "a", given.ID, "no credit"); err != nil {
			t.Fatal(err)
		}
		if i == store.MaxTries-1 {
			break
		}
		e.Pass(t, pause-time.Microsecond)
		is(t, "within the pause", len(ok(e.Stores[0].Take(t.Context(), "a", 10))(t)), 0)
		e.Pass(t, time.Microsecond)
	}
	is(t, "the probe that was given back", stateOf(t, e, given.ID), "void")
}

func TestAProbeThatIsReturnedUnsentCountsNoTry(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	plan := e.Plan(t, e.See(t, storetest.Provider(t)))
	e.Queue(t, plan)
	for range 2 * store.MaxTries {
		got := took(ok(e.Stores[0].Take(t.Context(), "a", 10))(t))
		is(t, "taken", slices.Equal(got, []probe.ID{plan.ID}), true)
		if err := e.Stores[0].Return(t.Context(), "a", got...); err != nil {
			t.Fatal(err)
		}
	}
	is(t, "state", stateOf(t, e, plan.ID), "queued")
}

func TestAProbeThatIsStartedIsWithItsReplica(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	plan := e.Plan(t, o)
	plan.DueAt = plan.DueAt.Add(time.Hour)
	if err := e.Stores[0].Begin(t.Context(), "a", store.QueuedProbe{Plan: plan}); err != nil {
		t.Fatal(err)
	}
	is(t, "taken by another", len(ok(e.Stores[1].Take(t.Context(), "b", 10))(t)), 0)
	is(t, "state", stateOf(t, e, plan.ID), "leased")
}

func TestOfTwoThatPlanAnHourOfAnOfferOnePlans(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	first := storetest.Start.Unix() / 3600
	for round := range 10 {
		hour := plan.Hour{Offer: o, Past: plan.Past{Hour: first + int64(round)}}
		plans := [2]probe.Plan{e.Plan(t, o), e.Plan(t, o)}
		var planned [2]bool
		put := func(i int) func() error {
			return func() (err error) {
				planned[i], err = e.Stores[i].PutHour(context.Background(), hour, store.QueuedProbe{Plan: plans[i]})
				return err
			}
		}
		if err := errors.Join(storetest.Race(put(0), put(1))...); err != nil {
			t.Fatal(err)
		}
		is(t, "one of two plans", planned[0] != planned[1], true)
		is(t, "probes", e.Count(t, `SELECT count(*) FROM probe`), round+1)
	}
	pasts := ok(e.Stores[0].Pasts(t.Context(), probe.Offer{}, 10))(t)
	is(t, "pasts", len(pasts), 1)
	is(t, "the last hour", pasts[0].Past.Hour, first+9)
}

func TestWhatIsNoPlanAndWhatIsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	good := e.Plan(t, e.See(t, storetest.Provider(t)))
	bad := good
	bad.PromptTokens = 0
	err := e.Stores[0].Put(t.Context(), store.QueuedProbe{Plan: good}, store.QueuedProbe{Plan: bad})
	if !errors.Is(err, probe.ErrPlan) {
		t.Errorf("a bad plan: got the error %v, want %v", err, probe.ErrPlan)
	}
	err = e.Stores[0].Put(t.Context(), make([]store.QueuedProbe, store.MaxBatch+1)...)
	if !errors.Is(err, store.ErrBatch) {
		t.Errorf("too many: got the error %v, want %v", err, store.ErrBatch)
	}
	is(t, "probes", e.Count(t, `SELECT count(*) FROM probe`), 0)
}

func TestTheQueueIsCounted(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	is(t, "nothing", ok(e.Stores[0].Queue(t.Context()))(t), store.QueueState{})
	first, later := e.Plan(t, o), e.Plan(t, o)
	later.DueAt = later.DueAt.Add(time.Hour)
	e.Queue(t, first, e.Plan(t, o), later)
	e.Pass(t, time.Minute)
	ok(e.Stores[0].Take(t.Context(), "a", 1))(t)
	is(t, "queue", ok(e.Stores[0].Queue(t.Context()))(t), store.QueueState{Queued: 2, Leased: 1, Due: 1, Lag: time.Minute})
	is(t, "cost", ok(e.Stores[0].SpentNanoUSD(t.Context(), storetest.Start))(t), 21)
	is(t, "voided", ok(e.Stores[0].DropQueued(t.Context(), o, "it left"))(t), 2)
	is(t, "cost without what is void", ok(e.Stores[0].SpentNanoUSD(t.Context(), storetest.Start))(t), 7)
}

func TestShapesOfAWeekAreKept(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	hour := storetest.Start.Add(-time.Hour)
	counts := map[cover.Shape]int64{}
	for i, s := range cover.Shapes() {
		counts[s] = int64(20 + i)
	}
	for i, n := range []int64{0, -10, 5} {
		some := map[cover.Shape]int64{}
		for s, c := range counts {
			some[s] = max(1, c+n)
		}
		if err := e.Stores[i%2].KeepShapes(t.Context(), hour, some); err != nil {
			t.Fatal(err)
		}
	}
	list := ok(e.Stores[0].Shapes(t.Context()))(t)
	is(t, "shapes", len(list), len(cover.Shapes()))
	for _, c := range list {
		is(t, "requests of a shape", c.Count, counts[c.Shape]+5)
	}
	e.Pass(t, 8*24*time.Hour)
	is(t, "shapes after a week", len(ok(e.Stores[0].Shapes(t.Context()))(t)), 0)
	if err := e.Stores[0].ForgetShapes(t.Context()); err != nil {
		t.Fatal(err)
	}
	is(t, "rows after eight days", e.Count(t, `SELECT count(*) FROM shape_hour`), 0)
}

func TestProbesAreCountedByShape(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	shape := cover.Shape{Streamed: true, Tools: true, Length: 6}
	visible := e.Plan(t, o)
	visible.Flow, visible.Feeds = probe.Visible, 1
	for _, p := range []probe.Plan{e.Plan(t, o), e.Plan(t, o), visible} {
		if err := e.Stores[0].Put(t.Context(), store.QueuedProbe{Plan: p, Shape: shape}); err != nil {
			t.Fatal(err)
		}
	}
	list := ok(e.Stores[0].ProbedShapes(t.Context()))(t)
	if len(list) != 1 {
		t.Fatalf("shapes: got %v, want one", list)
	}
	is(t, "shape", list[0], store.ShapeCount{Hour: storetest.Start, Shape: shape, Count: 2})
}

func TestHiddenProbesThatWereCarriedOutAreListedInPages(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	for range 3 {
		e.Probe(t, o, false, "")
	}
	e.Queue(t, e.Plan(t, o))
	var seen int
	var after probe.ID
	for {
		page := ok(e.Stores[0].HiddenProbes(t.Context(), after, 2))(t)
		if len(page) == 0 {
			break
		}
		seen, after = seen+len(page), page[len(page)-1].ID
	}
	is(t, "probes", seen, 3)
	days := ok(e.Stores[0].HiddenByDay(t.Context(), o.Provider, storetest.Start.Add(time.Hour), store.HiddenDay{}, 10))(t)
	is(t, "days", len(days), 1)
	is(t, "probes of the day", days[0].Done, 3)
}
