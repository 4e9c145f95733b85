package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/trust"
)

func TestModelsGetTheirRanksInTheOrderInWhichTheyAreSeen(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	provider := storetest.Provider(t)
	var all []func() error
	for i := range 8 {
		all = append(all, func() error {
			var seen []store.SeenOffer
			for m := range 10 {
				seen = append(seen, store.SeenOffer{Offer: probe.Offer{Provider: provider, Model: fmt.Sprint("m", (m+i)%10)}})
			}
			_, err := e.Stores[i%2].SeeOffers(context.Background(), seen)
			return err
		})
	}
	if err := errors.Join(storetest.Race(all...)...); err != nil {
		t.Fatal(err)
	}
	is(t, "models", e.Count(t, `SELECT models FROM provider`), 10)
	is(t, "ranks from 1 to 10", e.Count(t, `SELECT count(DISTINCT rank) FROM offering WHERE rank BETWEEN 1 AND 10`), 10)
	is(t, "the rank of an eleventh", ok(e.Stores[0].Offering(t.Context(), e.See(t, provider, "late")))(t).Rank, 11)
}

func TestAnOfferIsAsItWasLastStated(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Pass(t, time.Hour)
	e.See(t, o.Provider)
	got := ok(e.Stores[0].Offering(t.Context(), o))(t)
	is(t, "changed", got.ChangedAt, storetest.Start)
	is(t, "seen", got.SeenAt, storetest.Start.Add(time.Hour))
	e.Pass(t, time.Hour)
	other := []store.SeenOffer{{Offer: o, Statement: store.Statement{Engine: "new"}}}
	if _, err := e.Stores[0].SeeOffers(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	got = ok(e.Stores[0].Offering(t.Context(), o))(t)
	is(t, "changed after another engine", got.ChangedAt, storetest.Start.Add(2*time.Hour))
	is(t, "statement", got.Statement, store.Statement{Engine: "new"})
	is(t, "first seen", got.FirstSeen, storetest.Start)
	list := ok(e.Stores[0].Offerings(t.Context(), storetest.Start, probe.Offer{}, 10))(t)
	is(t, "offers", len(list), 1)
	is(t, "offers behind it", len(ok(e.Stores[0].Offerings(t.Context(), storetest.Start, o, 10))(t)), 0)
}

func TestAProviderWithTooManyModelsIsBounded(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	provider := storetest.Provider(t)
	seen := make([]store.SeenOffer, store.MaxModels+3)
	for i := range seen {
		seen[i].Offer = probe.Offer{Provider: provider, Model: fmt.Sprintf("m%04d", i)}
	}
	if _, err := e.Stores[0].SeeOffers(t.Context(), seen); !errors.Is(err, store.ErrBatch) {
		t.Errorf("too many at once: got the error %v, want %v", err, store.ErrBatch)
	}
	is(t, "refused of the first", len(ok(e.Stores[0].SeeOffers(t.Context(), seen[:1_000]))(t)), 0)
	is(t, "refused of the rest", len(ok(e.Stores[0].SeeOffers(t.Context(), seen[1_000:]))(t)), 3)
	is(t, "models", e.Count(t, `SELECT count(*) FROM offering`), store.MaxModels)
}

func TestReferencesAreKeptByModelAndHost(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	r := store.Reference{Model: "m", Host: "h/1", Provider: storetest.Provider(t), Class: quant.Bits16, Engine: "tinylm"}
	other := r
	other.Host = "h/2"
	for range 2 {
		if err := e.Stores[0].SeeReferences(t.Context(), []store.Reference{other, r}); err != nil {
			t.Fatal(err)
		}
	}
	list := ok(e.Stores[1].References(t.Context(), store.Reference{}, 10))(t)
	is(t, "references", len(list), 2)
	is(t, "the first", list[0].Host, "h/1")
	is(t, "its class", list[0].Class, quant.Bits16)
	is(t, "behind the first", ok(e.Stores[1].References(t.Context(), list[0], 10))(t)[0].Host, "h/2")
}

func TestANewAccountInheritsWhatARemovedOneHad(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	old, fresh := e.See(t, storetest.Provider(t)), e.See(t, storetest.Provider(t))
	stranger := e.See(t, storetest.Provider(t))
	wallet := store.Identity{Kind: store.Wallet, Digest: [32]byte{1}}
	user := store.Identity{Kind: store.User, Digest: [32]byte{2}}
	for _, one := range []struct {
		offer probe.Offer
		known []store.Identity
	}{
		{old, []store.Identity{wallet, user}}, {fresh, []store.Identity{user, wallet, {Kind: store.Payout}}},
		{stranger, []store.Identity{{Kind: store.ReceiptKey, Digest: [32]byte{1}}}},
	} {
		is(t, "recorded", ok(e.Stores[0].Identify(t.Context(), one.offer.Provider, one.known...))(t), true)
		is(t, "again", ok(e.Stores[1].Identify(t.Context(), one.offer.Provider, one.known...))(t), true)
	}
	is(t, "while nothing was", len(ok(e.Stores[0].Inherits(t.Context(), fresh.Provider))(t)), 0)
	gone := removal(old, 1)
	_, err := e.Stores[0].Advance(t.Context(), old, "1", forged(old, "1", standing.Event{Asked: &standing.Ask{}},
		func(s *standing.State) { s.MisrepLane, s.CapTokens = trust.Probe, 4_096 }, gone))
	if err != nil {
		t.Fatal(err)
	}
	list := ok(e.Stores[0].Inherits(t.Context(), fresh.Provider))(t)
	if len(list) != 1 {
		t.Fatalf("accounts: got %d, want 1", len(list))
	}
	is(t, "account", list[0].Provider, old.Provider)
	is(t, "by", fmt.Sprint(list[0].By), "[user wallet]")
	is(t, "removed", list[0].Removed, true)
	is(t, "model", list[0].Models[0],
		store.InheritedModel{Model: old.Model, Level: "normal", Lane: trust.Probe, CapTokens: 4_096})
	lane, capTokens := store.Worst(list, fresh.Model, storetest.Start)
	is(t, "lane while it is barred", lane, trust.Shut)
	is(t, "cap", capTokens, 4_096)
	is(t, "a stranger", len(ok(e.Stores[0].Inherits(t.Context(), stranger.Provider))(t)), 0)
	lane, _ = store.Worst(list, fresh.Model, storetest.Start.Add(store.Barred))
	is(t, "lane afterwards", lane, trust.Probe)
	lane, _ = store.Worst(list, "another", storetest.Start.Add(store.Barred))
	is(t, "lane of another model", lane, trust.Main)
	forge(t, e, old, "2", reversal(old, 2, gone.ID))
	is(t, "removed after the reversal", ok(e.Stores[0].Inherits(t.Context(), fresh.Provider))(t)[0].Removed, false)
}

func TestRoutersAreToldNothingBetterThanWhatIsInherited(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	old, fresh := e.See(t, storetest.Provider(t)), e.See(t, storetest.Provider(t))
	for _, o := range []probe.Offer{old, fresh} {
		ok(e.Stores[0].Identify(t.Context(), o.Provider, store.Identity{Kind: store.Payout, Digest: [32]byte{3}}))(t)
	}
	ask := standing.Event{Asked: &standing.Ask{}}
	proven := func(s *standing.State) {
		s.Run, s.BenchLane, s.PassedAt = ladder.Proven, trust.Main, storetest.Start
	}
	ok(e.Stores[0].Advance(t.Context(), fresh, "1", forged(fresh, "1", ask, proven)))(t)
	opinion := func() store.Opinion {
		t.Helper()
		return ok(e.Stores[1].Opinions(t.Context(), probe.Offer{Provider: fresh.Provider}, 1))(t)[0]
	}
	is(t, "lane at first", opinion().Lane, trust.Main)
	gone := removal(old, 1)
	ok(e.Stores[0].Advance(t.Context(), old, "1", forged(old, "1", ask, func(s *standing.State) {
		s.MisrepLane, s.CapTokens = trust.Probe, 4_096
	}, gone)))(t)
	tick := standing.Event{Ticked: &standing.Tick{}}
	e.Advance(t, fresh, "tick:1", tick)
	is(t, "lane while the other is barred", opinion().Lane, trust.Shut)
	is(t, "cap", opinion().CapTokens, 4_096)
	is(t, "revision", opinion().Revision, 2)
	is(t, "the lane of its own", ok(e.Stores[0].Standing(t.Context(), fresh))(t).State.MisrepLane, trust.Main)
	e.Pass(t, store.Barred)
	e.Advance(t, fresh, "tick:2", tick)
	is(t, "lane afterwards", opinion().Lane, trust.Probe)
	forge(t, e, old, "2", reversal(old, 2, gone.ID))
	e.See(t, old.Provider)
	e.Advance(t, fresh, "tick:3", tick)
	is(t, "lane after the reversal, both connected", opinion().Lane, trust.Main)
	if err := e.Keepers[0].CheckChains(t.Context(), probe.Offer{}); err != nil {
		t.Errorf("the chains: got the error %v, want none", err)
	}
}

func TestAnAccountThatIsConnectedLeavesNothing(t *testing.T) {
	t.Parallel()
	models := []store.InheritedModel{{Model: "m", Lane: trust.Probe, CapTokens: 9}}
	old := store.Inherited{SeenAt: storetest.Start, Models: models}
	lane, _ := store.Worst([]store.Inherited{old}, "m", storetest.Start.Add(store.Left-1))
	is(t, "while it is connected", lane, trust.Main)
	lane, capTokens := store.Worst([]store.Inherited{old}, "m", storetest.Start.Add(store.Left))
	is(t, "when it has left", lane, trust.Probe)
	is(t, "cap", capTokens, 9)
}

func TestIdentitiesAreBounded(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	provider := storetest.Provider(t)
	list := make([]store.Identity, store.MaxIdentities)
	for i := range list {
		list[i] = store.Identity{Kind: store.Wallet, Digest: [32]byte{byte(i), byte(i >> 8)}}
	}
	is(t, "as many as there may be", ok(e.Stores[0].Identify(t.Context(), provider, list...))(t), true)
	is(t, "again", ok(e.Stores[1].Identify(t.Context(), provider, list...))(t), true)
	more := []store.Identity{{Kind: store.Wallet, Digest: [32]byte{31: 1}}, {Kind: store.User}}
	is(t, "one more wallet, and a user", ok(e.Stores[0].Identify(t.Context(), provider, more...))(t), false)
	is(t, "wallets", e.Count(t, `SELECT count(*) FROM identity WHERE kind = 'wallet'`), store.MaxIdentities)
	is(t, "users", e.Count(t, `SELECT count(*) FROM identity WHERE kind = 'user'`), 1)
}

func TestASettingIsChangedOnceWithWhoAndWhy(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	w := ok(e.Stores[0].Setting(t.Context(), store.Penalties))(t)
	is(t, "penalties begin", w.Enabled, false)
	_, err := e.Stores[0].Set(t.Context(), store.Penalties, true, "operator:alice", "x")
	if !errors.Is(err, store.ErrNotCalibrated) {
		t.Errorf("uncalibrated: got the error %v, want %v", err, store.ErrNotCalibrated)
	}
	set := func(i int, actor string) func() error {
		return func() error {
			_, err := e.Stores[i].Set(context.Background(), store.Probes, false, actor, "maintenance")
			return err
		}
	}
	if err := errors.Join(storetest.Race(set(0, "operator:alice"), set(1, "operator:bob"))...); err != nil {
		t.Fatal(err)
	}
	w = ok(e.Stores[0].Setting(t.Context(), store.Probes))(t)
	is(t, "revision", w.Revision, 2)
	is(t, "enabled", w.Enabled, false)
	is(t, "at", w.ChangedAt, storetest.Start)
	is(t, "changes", len(ok(e.Stores[0].SettingChanges(t.Context(), store.Probes, 0, 10))(t)), 2)
	is(t, "changes before", len(ok(e.Stores[0].SettingChanges(t.Context(), store.Probes, 2, 10))(t)), 1)
	if _, err := e.Stores[0].Set(t.Context(), "else", true, "operator", "x"); !errors.Is(err, store.ErrSetting) {
		t.Errorf("another setting: got the error %v, want %v", err, store.ErrSetting)
	}
}

// putKey keeps a house account with a key and returns the key.
func putKey(t *testing.T, e *storetest.Env, number int) house.Stored {
	t.Helper()
	account, err := ids.NewAccount(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := ids.NewKey(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stores[0].PutHouseAccount(t.Context(), number, account); err != nil {
		t.Fatal(err)
	}
	k := house.Stored{Account: account, ID: id, Sealed: make([]byte, 40)}
	k.ExpiresAt = storetest.Start.Add(9 * 24 * time.Hour)
	if err := e.Stores[0].PutHouseKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestHouseKeysAreKeptSealedAndForgotten(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	k := putKey(t, e, 1)
	other, err := ids.NewAccount(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stores[1].PutHouseAccount(t.Context(), 1, k.Account); err != nil {
		t.Errorf("the account again: got the error %v, want none", err)
	}
	if err := e.Stores[1].PutHouseAccount(t.Context(), 1, other); !errors.Is(err, store.ErrOtherAccount) {
		t.Errorf("another account: got the error %v, want %v", err, store.ErrOtherAccount)
	}
	list := ok(e.Stores[1].HouseKeys(t.Context()))(t)
	is(t, "keys", len(list), 1)
	is(t, "key", list[0].ID, k.ID)
	is(t, "made", list[0].CreatedAt, storetest.Start)
	for range 2 {
		if err := e.Stores[0].ForgetHouseKey(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
	}
	is(t, "keys after it is forgotten", len(ok(e.Stores[1].HouseKeys(t.Context()))(t)), 0)
	is(t, "sealed bytes", e.Count(t, `SELECT count(*) FROM house_key WHERE sealed IS NOT NULL`), 0)
}

func TestAnAccountHasAtMostEightKeys(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	k := putKey(t, e, 1)
	var all []func() error
	for i := range 12 {
		all = append(all, func() error {
			one := k
			one.ID[15] ^= byte(i + 1)
			return e.Stores[i%2].PutHouseKey(context.Background(), one)
		})
	}
	refused := 0
	for _, err := range storetest.Race(all...) {
		if err != nil {
			refused++
		}
	}
	is(t, "refused", refused, 5)
	is(t, "keys", e.Count(t, `SELECT count(*) FROM house_key`), 8)
}

func TestABenchmarkRunGoesOnByOneReplicaAtATime(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	run := store.Run{ID: probe.RunID{1}, Offer: o, Basis: store.First, Body: []byte("begun"), NextAt: storetest.Start}
	for range 2 {
		if err := e.Stores[0].StartRun(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	other := run
	other.ID[1]++
	if err := e.Stores[1].StartRun(t.Context(), other); !errors.Is(err, store.ErrRunning) {
		t.Errorf("a second run: got the error %v, want %v", err, store.ErrRunning)
	}
	due := ok(e.Stores[0].DueRuns(t.Context(), 10))(t)
	is(t, "due", string(due[0].Body), "begun")
	step := func(i int, body string) func() error {
		r := due[0]
		r.Body, r.NextAt = []byte(body), storetest.Start.Add(time.Hour)
		return func() error { return e.Stores[i].StepRun(context.Background(), r) }
	}
	errs := storetest.Race(step(0, "a"), step(1, "b"))
	is(t, "one goes on", (errs[0] == nil) != (errs[1] == nil), true)
	if err := errors.Join(errs...); !errors.Is(err, store.ErrRevision) {
		t.Errorf("the other: got the error %v, want %v", err, store.ErrRevision)
	}
	is(t, "due before its time", len(ok(e.Stores[0].DueRuns(t.Context(), 10))(t)), 0)
	r := ok(e.Stores[0].Run(t.Context(), run.ID))(t)
	r.State = store.RunPassed
	if err := e.Stores[1].StepRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r = ok(e.Stores[0].Runs(t.Context(), o.Provider, o.Model, probe.RunID{}, 10))(t)[0]
	is(t, "state", r.State, store.RunPassed)
	is(t, "ended", r.EndedAt, storetest.Start)
	if err := e.Stores[1].StartRun(t.Context(), other); err != nil {
		t.Errorf("the next run: got the error %v, want none", err)
	}
	if _, err := e.Stores[0].Run(t.Context(), probe.RunID{77}); !errors.Is(err, store.ErrRun) {
		t.Errorf("no run: got the error %v, want %v", err, store.ErrRun)
	}
}

func TestPagesAreInOrderAndBounded(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	provider := storetest.Provider(t)
	o := e.See(t, provider, "b", "a", "c")
	for i := range 5 {
		for _, m := range []string{"a", "b", "c"} {
			e.Advance(t, probe.Offer{Provider: provider, Model: m}, store.EventKey(fmt.Sprint(i)),
				standing.Event{Paired: &standing.Pair{}})
		}
	}
	var seen []string
	var after probe.Offer
	for {
		page := ok(e.Stores[0].Standings(t.Context(), "", after, 2))(t)
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			seen, after = append(seen, s.Offer.Model), s.Offer
		}
	}
	is(t, "standings", fmt.Sprint(seen), "[a b c]")
	is(t, "of a level", len(ok(e.Stores[0].Standings(t.Context(), ladder.Notice, probe.Offer{}, 10))(t)), 0)
	at := ok(e.Stores[0].OffersAt(t.Context(), ladder.Normal, probe.Offer{Provider: provider, Model: "a"}, 1))(t)
	is(t, "offers at a level behind the first", len(at), 1)
	is(t, "the next at the level", at[0], probe.Offer{Provider: provider, Model: "b"})
	is(t, "under a penalty", len(ok(e.Stores[0].OffersUnderPenalty(t.Context(), probe.Offer{}, 10))(t)), 0)
	is(t, "of the provider", len(ok(e.Stores[0].StandingsOf(t.Context(), provider, "a", 10))(t)), 2)
	is(t, "opinions", len(ok(e.Stores[0].Opinions(t.Context(), probe.Offer{}, 10))(t)), 3)
	is(t, "levels", ok(e.Stores[0].Levels(t.Context()))(t)[ladder.Normal], 3)
	is(t, "stale", len(ok(e.Stores[0].Stale(t.Context(), storetest.Start.Add(1e6), 2))(t)), 2)
	is(t, "not stale", len(ok(e.Stores[0].Stale(t.Context(), storetest.Start, 2))(t)), 0)
	events := ok(e.Stores[0].Events(t.Context(), o, 4, 2))(t)
	is(t, "events before the fourth", fmt.Sprint(events[0].Number, events[1].Number), "3 2")
	is(t, "a page without a bound", len(ok(e.Stores[0].Events(t.Context(), o, 0, 1<<30))(t)), 5)
	is(t, "a page of nothing", len(ok(e.Stores[0].Events(t.Context(), o, 0, 0))(t)), 1)
}

func TestAProviderSeesItsChallengesAndHiddenOnesLater(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Probe(t, o, true, "")
	visible := e.Plan(t, o)
	visible.Flow, visible.Feeds = probe.Visible, 1
	e.Queue(t, visible)
	ok(e.Stores[0].Take(t.Context(), "a", 1))(t)
	if err := e.Stores[0].DropProbe(t.Context(), "a", visible.ID, "unsupported"); err != nil {
		t.Fatal(err)
	}
	page := func(provider ids.ProviderID, before time.Time, behind store.ChallengeCursor) []store.Challenge {
		t.Helper()
		return ok(e.Stores[0].Challenges(t.Context(), provider, before, behind, 10))(t)
	}
	later := storetest.Start.Add(time.Hour)
	list := page(o.Provider, storetest.Start, store.ChallengeCursor{})
	is(t, "challenges at once", len(list), 1)
	is(t, "the visible one", list[0].State, store.Void)
	list = page(o.Provider, later, store.ChallengeCursor{})
	is(t, "challenges later", len(list), 2)
	hidden := list[0]
	if !hidden.Judged {
		hidden = list[1]
	}
	is(t, "observed", hidden.Observed, 2)
	is(t, "exceeded", hidden.Exceeded, 1)
	is(t, "leaf", hidden.Leaf != [32]byte{}, true)
	is(t, "behind the first", len(page(o.Provider, later, list[0].Cursor())), 1)
	is(t, "of another provider", len(page(storetest.Provider(t), later, store.ChallengeCursor{})), 0)
	is(t, "observations", len(ok(e.Stores[0].Observations(t.Context(), o, 0, 10))(t)), 2)
}
