package work

import (
	"slices"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// The host that led to the notice has left; its owner has two other references.
func TestTheOwnerOfAHostThatHasLeftIsKnownByItsIdentities(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	left, second, third, stranger := storetest.Provider(t), storetest.Provider(t), storetest.Provider(t),
		storetest.Provider(t)
	wallet, user := identity.Identity{byte(identity.Wallet), 1}, identity.Identity{byte(identity.User), 2}
	for id, known := range map[ids.ProviderID][]identity.Identity{
		left: {wallet}, second: {wallet, user}, third: {user}, stranger: {{byte(identity.User), 3}},
	} {
		if _, err := e.Stores[0].Identify(t.Context(), id, store.IdentitiesOf(known)...); err != nil {
			t.Fatal(err)
		}
	}
	view := offers.New()
	var sessions []offers.Session
	for n, id := range []ids.ProviderID{second, third, stranger} {
		sessions = append(sessions, offers.Session{Provider: id, Node: "n", Epoch: int64(n + 1), Reference: true,
			Models: []offers.Model{{ID: judgetest.Model, Healthy: true}}})
	}
	view.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 1, Sessions: sessions}, storetest.Start)
	got, err := accountsOf(t.Context(), e.Stores[0], view.AllReferences(), left.String()+"/node")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		id   ids.ProviderID
		want bool
	}{{"the host's account", left, true}, {"of its wallet", second, true}, {"of a user of that", third, true},
		{"a stranger", stranger, false}} {
		if found := slices.Contains(got, c.id); found != c.want {
			t.Errorf("%s is avoided: got %t, want %t", c.what, found, c.want)
		}
	}
	none, err := accountsOf(t.Context(), e.Stores[0], view.AllReferences(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(none) != 0 {
		t.Errorf("accounts of no host: got %v, want none", none)
	}
}
