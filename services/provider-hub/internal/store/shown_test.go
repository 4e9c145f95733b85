package store

import (
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/provider/providertest"
)

func TestOnlyActiveProvidersAreShownTheOldestFirst(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	first, second, suspended := create(t, d, "First"), create(t, d, "Second"), create(t, d, "Suspended")
	create(t, d, "Pending")
	providertest.Activate(t, d, second.ID, time.Now())
	providertest.Activate(t, d, first.ID, time.Now())
	providertest.Activate(t, d, suspended.ID, time.Now())
	s.mustExec(t, `UPDATE provider SET active_since = now() - interval '1 day', uptime_30d = 0.5 WHERE provider_id = $1`,
		first.ID)
	s.mustExec(t, `UPDATE provider SET status = 'suspended', active_since = NULL WHERE provider_id = $1`, suspended.ID)
	list, total, err := s.Active(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if total != 2 {
		t.Errorf("total: got %d, want 2", total)
	}
	if len(list) != 2 {
		t.Fatalf("got %d providers, want 2", len(list))
	}
	if list[0].Name != "First" {
		t.Errorf("the first: got %q, want First", list[0].Name)
	}
	switch up := list[0].Uptime30d; {
	case up == nil:
		t.Error("its uptime: got none, want 0.5")
	case *up != 0.5:
		t.Errorf("its uptime: got %v, want 0.5", *up)
	}
	if list[1].Uptime30d != nil {
		t.Errorf("the uptime of the second: got %v, want none", *list[1].Uptime30d)
	}
	if list, total, err = s.Active(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if total != 2 {
		t.Errorf("total behind the bound: got %d, want 2", total)
	}
	if len(list) != 1 {
		t.Errorf("within the bound: got %d providers, want 1", len(list))
	}
}

// A reference is never active by the rules of the database, which the test takes away: what is shown to
// everybody does not rest on them.
func TestNeitherReferencesNorVendorsAreShown(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	shown, reference := create(t, d, "Shown"), create(t, d, "Reference")
	providertest.Activate(t, d, shown.ID, time.Now())
	providertest.Activate(t, d, reference.ID, time.Now())
	if v := bigCo(t, s, d); v.Status != provider.Active {
		t.Fatalf("the vendor: status: got %q, want active", v.Status)
	}
	owner := pgtest.Owner(t, s.pool)
	for _, sql := range []string{
		`ALTER TABLE provider DROP CONSTRAINT provider_reference_never_active`,
		`DROP TRIGGER provider_reference_begins ON provider`,
		`UPDATE provider SET reference = true WHERE name = 'Reference'`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	list, total, err := s.Active(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"Shown"}) {
		t.Errorf("got %q, want Shown alone", names)
	}
	if total != 1 {
		t.Errorf("total: got %d, want 1", total)
	}
}
