package registry

import (
	"crypto/ed25519"
	"fmt"
	"testing"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

func TestTheKeyOfANodesReceiptsIsAnIdentityOfItsSession(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	a, err := fakeagent.Dial(t.Context(), f.url, fakeagent.Options{Key: f.key, NodeID: "node-0001", Models: []string{"m"},
		ReceiptKey: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	one := f.accounts.ReceiptKeyIdentity(key)
	got, want := fmt.Sprintf("%x", f.registry.Identities(f.account.ID, "node-0001")), fmt.Sprintf("[%x]", one)
	if got != want {
		t.Errorf("identities: got %s, want %s", got, want)
	}
	if got := f.registry.Identities(f.account.ID, "node-0002"); len(got) != 0 {
		t.Errorf("of another node: got %x, want none", got)
	}
	a.Close()
	waitFor(t, f.registry, func(_ []session.View, ended []int64) bool { return len(ended) > 0 })
	if got := f.registry.Identities(f.account.ID, "node-0001"); len(got) != 0 {
		t.Errorf("after its session: got %x, want none", got)
	}
}

func TestSessionsAreReportedAgainWhenTheirIdentitiesChange(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	if _, err := f.dial(t, "node-0001"); err != nil {
		t.Fatal(err)
	}
	if err := f.registry.Recheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.registry.Changes()
	payout := provider.Identity{3, 1}
	if !f.registry.learnIdentities(f.account.ID, []provider.Identity{payout}) {
		t.Error("a payout address that is new: got no change, want one")
	}
	f.registry.touchAll(f.account.ID)
	waitFor(t, f.registry, func(live []session.View, _ []int64) bool { return len(live) > 0 })
	got, want := fmt.Sprintf("%x", f.registry.Identities(f.account.ID, "node-0001")), fmt.Sprintf("[%x]", payout)
	if got != want {
		t.Errorf("identities: got %s, want %s", got, want)
	}
	if f.registry.learnIdentities(f.account.ID, []provider.Identity{payout}) {
		t.Error("the same identities: got a change, want none")
	}
	flood := make([]provider.Identity, 2*maxIdentities)
	f.registry.learnIdentities(f.account.ID, flood)
	if got, want := len(f.registry.Identities(f.account.ID, "node-0001")), maxIdentities; got != want {
		t.Errorf("identities of a flood: got %d, want %d", got, want)
	}
}

func TestIdentitiesAreReadOnceAMinute(t *testing.T) {
	i := identities{of: map[ids.ProviderID]identified{}}
	here := map[ids.ProviderID]int{{1}: 1}
	if got := i.due(here); len(got) != 1 {
		t.Errorf("to be read of a new provider: got %d, want 1", len(got))
	}
	i.learn(ids.ProviderID{1}, nil)
	for range identityRounds - 1 {
		if got := i.due(here); len(got) != 0 {
			t.Fatalf("to be read within the minute: got %v, want none", got)
		}
	}
	if got := i.due(here); len(got) != 1 {
		t.Errorf("to be read after the minute: got %d, want 1", len(got))
	}
	i.due(nil)
	if got := len(i.of); got != 0 {
		t.Errorf("kept of providers that left: got %d, want 0", got)
	}
}
