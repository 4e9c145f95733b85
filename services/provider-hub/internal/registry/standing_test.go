package registry

import (
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

func TestWhatRoutersAreToldOfAProviderChangesWithItsStanding(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	if _, err := f.dial(t, "node-0001"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.dial(t, "node-0002"); err != nil {
		t.Fatal(err)
	}
	told := map[int64]bool{}
	waitFor(t, f.registry, func(live []session.View, _ []int64) bool {
		for _, v := range live {
			told[v.Epoch] = true
		}
		return len(told) == 2
	})
	if got := f.registry.Public(f.account.ID); got != (Public{}) {
		t.Errorf("of a provider that is pending: got %+v, want nothing", got)
	}
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, want := range []Public{{Reference: true}, {}, {ActiveSince: since}} {
		f.registry.Apply(provider.Standing{ProviderID: f.account.ID, Status: provider.Pending, Reference: want.Reference,
			ActiveSince: want.ActiveSince})
		clear(told)
		waitFor(t, f.registry, func(live []session.View, _ []int64) bool {
			for _, v := range live {
				told[v.Epoch] = true
			}
			return len(told) == 2 // every session of the provider is reported anew
		})
		if got := f.registry.Public(f.account.ID); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	// The store knows better: the provider never was active.
	if err := f.registry.Recheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.registry.Public(f.account.ID); got != (Public{}) {
		t.Errorf("checked again: got %+v, want nothing", got)
	}
}

func TestProvidersThatAreAdmittedAndNeverJoinAreForgotten(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	if _, err := f.dial(t, "node-0001"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		a, err := f.accounts.Create(t.Context(), "Farm", "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, key, err := f.accounts.IssueKey(t.Context(), a.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.registry.Admit(t.Context(), session.Credential{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	known := func() int {
		f.registry.mu.Lock()
		defer f.registry.mu.Unlock()
		return len(f.registry.public.of)
	}
	for _, want := range []int{101, 1} { // they may be about to join at first
		if err := f.registry.Recheck(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := known(); got != want {
			t.Errorf("known providers: got %d, want %d", got, want)
		}
	}
	f.registry.learn(provider.Standing{ProviderID: ids.ProviderID{9}})
	if got := known(); got != 2 {
		t.Errorf("known providers: got %d, want 2", got)
	}
}
