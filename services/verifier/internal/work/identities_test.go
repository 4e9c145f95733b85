package work_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/trust"
	"svc.internal/services/verifier/internal/work"
)

// catalog is one with judgetest's model.
type catalog struct{}

func (catalog) Find(string) (work.Model, bool) { return work.Model{Active: true, Window: 8_192}, true }

// seen is a replica that hears of sessions.
type seen struct {
	*work.Seen
	t        *testing.T
	view     *offers.View
	revision uint64
}

func newSeen(t *testing.T, e *storetest.Env) *seen {
	t.Helper()
	var told []ids.ProviderID
	view, m := offers.New(), mover(e.Stores[0], &told)
	m.Offers, m.Models = view, catalog{}
	return &seen{Seen: &work.Seen{Store: e.Stores[0], Mover: m, Offers: view, Log: slog.New(slog.DiscardHandler)}, t: t,
		view: view}
}

// connect has a provider connected with identities, alone.
func (s *seen) connect(id ids.ProviderID, known ...identity.Identity) {
	s.t.Helper()
	s.revision++
	s.view.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: s.revision, Full: true, Parts: 1,
		Sessions: []offers.Session{{Provider: id, Node: "n", Epoch: int64(s.revision), Identities: known,
			Models: []offers.Model{{ID: judgetest.Model, Healthy: true}}}}}, storetest.Start)
	if err := s.Pass(s.t.Context(), storetest.Start.Add(time.Duration(s.revision)*time.Second)); err != nil {
		s.t.Fatal(err)
	}
}

// remove has a verdict remove an offer's provider, with a lane and a cap.
func remove(t *testing.T, e *storetest.Env, o probe.Offer) {
	t.Helper()
	change := func(now time.Time, s standing.State, p store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		w := storetest.World(o, "removed", p)
		s.MisrepLane, s.CapTokens = trust.Shut, 4_096
		v := standing.Verdict{ID: probe.VerdictID{1}, Offer: o, Kind: standing.Misrepresentation,
			Trigger: standing.Approve, Leading: evidence.Greedy, At: now, Summary: "why",
			Effects: ladder.Effects{Slash: ladder.NextPenalty, Remove: true, Count: 1}}
		return standing.Event{Asked: &standing.Ask{}}, w, s, standing.Outcome{Verdicts: []standing.Verdict{v},
			Published: s.Publish(now, w)}, nil
	}
	if _, err := e.Stores[0].Advance(t.Context(), o, "removed", change); err != nil {
		t.Fatal(err)
	}
}

func TestANewAccountWithTheWalletOfARemovedOneBeginsShut(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	s := newSeen(t, e)
	wallet := identity.Identity{byte(identity.Wallet), 1}
	old, fresh, stranger := storetest.Provider(t), storetest.Provider(t), storetest.Provider(t)
	s.connect(old, wallet)
	remove(t, e, probe.Offer{Provider: old, Model: judgetest.Model})
	s.connect(stranger, identity.Identity{byte(identity.Wallet), 2})
	s.connect(fresh, wallet, identity.Identity{byte(identity.Payout), 3})
	for _, c := range []struct {
		name string
		id   ids.ProviderID
		want int64
	}{{"the new account", fresh, 4_096}, {"a stranger", stranger, 0}} {
		st := must(e.Stores[0].Standing(t.Context(), probe.Offer{Provider: c.id, Model: judgetest.Model}))(t)
		if got := st.Opinion.CapTokens; got != c.want {
			t.Errorf("cap of %s: got %d, want %d", c.name, got, c.want)
		}
		if got := st.Opinion.Lane; got != trust.Shut {
			t.Errorf("lane of %s: got %v, want %v", c.name, got, trust.Shut)
		}
	}
	list := must(e.Stores[0].Inherits(t.Context(), fresh))(t)
	if lane, _ := store.Worst(list, judgetest.Model, storetest.Start); lane != trust.Shut {
		t.Errorf("inherited lane: got %v, want %v", lane, trust.Shut)
	}
	if list := must(e.Stores[0].Inherits(t.Context(), stranger))(t); len(list) != 0 {
		t.Errorf("accounts that a stranger inherits from: got %d, want 0", len(list))
	}
}

func TestNobodyLeavesARemovalToAnAccountByNamingItsAddress(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	s := newSeen(t, e)
	payout := identity.Identity{byte(identity.Payout), 1}
	honest, cheat := storetest.Provider(t), storetest.Provider(t)
	s.connect(honest, payout)
	s.connect(cheat, payout)
	remove(t, e, probe.Offer{Provider: cheat, Model: judgetest.Model})
	if list := must(e.Stores[0].Inherits(t.Context(), honest))(t); len(list) != 0 {
		t.Errorf("accounts that the honest one inherits from: got %d, want 0", len(list))
	}
	again := storetest.Provider(t)
	s.connect(again, payout)
	if list := must(e.Stores[0].Inherits(t.Context(), again))(t); len(list) != 1 {
		t.Errorf("accounts that the cheat's next one inherits from: got %d, want 1", len(list))
	}
}

func TestIdentitiesAreRecordedWhenTheyChange(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	s := newSeen(t, e)
	id := storetest.Provider(t)
	for n := range byte(store.MaxIdentities + 3) {
		s.connect(id, identity.Identity{byte(identity.ReceiptKey), n}, identity.Identity{byte(identity.User), 7})
	}
	if got := e.Count(t, `SELECT count(*) FROM identity WHERE kind = 'receipt_key'`); got != store.MaxIdentities {
		t.Errorf("keys of a flood: got %d, want %d", got, store.MaxIdentities)
	}
	s.connect(id, identity.Identity{byte(identity.Wallet), 1})
	if got := e.Count(t, `SELECT count(*) FROM identity WHERE kind IN ('wallet', 'user')`); got != 2 {
		t.Errorf("the user, and a wallet behind the flood: got %d, want 2", got)
	}
}

// Three accounts of one person are one cheat; three of three persons have a cause in common.
func TestAccountsOfOnePersonHaveNoCauseInCommon(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	var told []ids.ProviderID
	suspected := -1
	g := &work.Guard{Store: e.Stores[0], Mover: mover(e.Stores[0], &told), Log: slog.New(slog.DiscardHandler),
		Suspected: func(_ context.Context, n int) { suspected = n }}
	shared := store.IdentitiesOf([]identity.Identity{{byte(identity.Wallet), 1}, {byte(identity.Payout), 2}})
	for n, want := range []int{0, 0, 0, 0, 1} {
		o := e.See(t, storetest.Provider(t))
		switch n {
		case 0, 1:
			must(e.Stores[0].Identify(t.Context(), o.Provider, shared[n]))(t)
		case 2: // it joins the two
			must(e.Stores[0].Identify(t.Context(), o.Provider, shared...))(t)
		}
		e.Probe(t, o, true, "reference-1")
		if err := g.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if suspected != want {
			t.Errorf("strata suspected after %d accounts: got %d, want %d", n+1, suspected, want)
		}
	}
}

func TestWhoNamesAddressAfterAddressJoinsNobody(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	s := newSeen(t, e)
	first, second, cheat := storetest.Provider(t), storetest.Provider(t), storetest.Provider(t)
	one, two := identity.Identity{byte(identity.Payout), 1}, identity.Identity{byte(identity.Payout), 2}
	s.connect(first, one)
	s.connect(second, two)
	s.connect(cheat, one)
	s.connect(cheat, two)
	owners := must(e.Stores[0].Owners(t.Context(), []ids.ProviderID{first, second, cheat}))(t)
	if owners.Of(first) == owners.Of(second) {
		t.Error("two strangers: got one owner, want two")
	}
	if owners.Of(cheat) != owners.Of(second) {
		t.Error("the cheat and whose address it names: got two owners, want one")
	}
}
