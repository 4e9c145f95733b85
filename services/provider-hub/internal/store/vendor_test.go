package store

import (
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/acts"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/vendor"
)

// bigCo is a vendor that alice registered.
func bigCo(t *testing.T, s *Store, d *provider.Directory) provider.Account {
	t.Helper()
	ctx := actor.WithOperator(provider.WithOperator(t.Context(), "alice"), "alice")
	a, entries, err := d.NewVendor(ctx, "Big Co")
	if err != nil {
		t.Fatal(err)
	}
	e := external.Endpoint{ID: ids.EndpointID{1}, Provider: a.ID, Name: "Big Co", BaseURL: "https://big.test/v1",
		CreatedAt: time.Now(), Models: []external.Model{
			{ID: "big/one", Local: "one", Capabilities: []string{"chat"}, Capacity: 1}}}
	got, fresh, err := s.CreateVendor(ctx, vendor.Vendor{Account: a, Endpoint: e}, entries, "operator:alice", "big-key")
	if err != nil {
		t.Fatal(err)
	}
	if !fresh {
		t.Error("fresh: got false, want true")
	}
	return got.Account
}

// The keys of vendors and of providers are in one column.
func TestTheKeyOfAVendorOpensNoProviderAccount(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := bigCo(t, s, d)
	got, err := d.Create(t.Context(), a.Name, a.Region, "big-key")
	if !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("got the account %v and the error %v, want the reason %v", got.ID, err, fault.IdempotencyKeyReused)
	}
}

func TestAVendorStaysActiveWithoutCollateralBenchmarkAndProbation(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := bigCo(t, s, d)
	if !a.ProbationEndsAt.IsZero() {
		t.Errorf("probation: got its end at %v, want none", a.ProbationEndsAt)
	}
	changed, err := d.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) != 0 {
		t.Errorf("swept: got %v, want no change", changed)
	}
	got, err := s.Vendor(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Account.Status != provider.Active {
		t.Errorf("status: got %q, want active", got.Account.Status)
	}
}

// A hub of the previous version does not know vendors, so it ends an activation without a benchmark.
func TestAVendorThatAnOlderHubTookOutIsActiveAgain(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := bigCo(t, s, d)
	_, err := s.pool.Exec(t.Context(), `UPDATE provider SET status = 'pending' WHERE provider_id = $1`, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := d.Get(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != provider.Active {
		t.Errorf("got the status %q, want active", got.Status)
	}
}

func TestWhoRegisteredAVendorIsKept(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := bigCo(t, s, d)
	list, err := s.Acts(t.Context(), acts.Filter{Actor: "operator:alice", Limit: acts.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	did := map[string]string{}
	for _, act := range list {
		did[act.Action] = act.Subject
	}
	for _, want := range []string{provider.VendorRegistered, "endpoint_added"} {
		if got := did[want]; got != a.ID.String() {
			t.Errorf("%s: got one of %q, want one of %s", want, got, a.ID)
		}
	}
}

func TestAVendorBelongsToThePlatformAlone(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := bigCo(t, s, d)
	for what, column := range map[string]string{"a user's account": "account_id", "an owner": "owner_address",
		"a beneficiary": "beneficiary_address"} {
		wantRefused(t, s, "a vendor with "+what, `UPDATE provider SET `+column+` = 'x' WHERE provider_id = $1`, a.ID)
	}
	if _, err := d.SetReference(t.Context(), a.ID, true, ""); err == nil {
		t.Error("a vendor became a reference")
	}
	if _, err := s.Vendor(t.Context(), create(t, d, "Farm").ID); err == nil {
		t.Error("a provider is read as a vendor")
	}
}
