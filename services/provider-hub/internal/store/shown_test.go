package store

import (
	"testing"
	"time"

	"svc.internal/services/provider-hub/internal/provider/providertest"
)

func TestOnlyActiveProvidersAreShownTheOldestFirst(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	first, second, reference := create(t, d, "First"), create(t, d, "Second"), create(t, d, "Reference")
	create(t, d, "Pending")
	providertest.Activate(t, d, second.ID, time.Now())
	providertest.Activate(t, d, first.ID, time.Now())
	providertest.Activate(t, d, reference.ID, time.Now())
	s.mustExec(t, `UPDATE provider SET active_since = now() - interval '1 day', uptime_30d = 0.5 WHERE provider_id = $1`,
		first.ID)
	s.mustExec(t, `UPDATE provider SET status = 'suspended', active_since = NULL WHERE provider_id = $1`, reference.ID)
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
