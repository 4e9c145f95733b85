package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/collateral"
	"svc.internal/services/settlement/internal/store"
)

// hub takes facts, except of the provider that it does not know.
type hub struct {
	unknown ids.ProviderID
	asked   []collateral.Fact
}

var errUnknown = errors.New("no such provider")

func (h *hub) SetCollateral(_ context.Context, f collateral.Fact) error {
	h.asked = append(h.asked, f)
	if f.ProviderID == h.unknown {
		return errUnknown
	}
	return nil
}

func TestTheHubIsToldOfEachProviderUntilItTakesIt(t *testing.T) {
	t.Parallel()
	e := setup(t)
	facts := store.Collateral{Store: e.stores[0].Store}
	h := &hub{unknown: ids.ProviderID(newID(t))}
	one := ids.ProviderID(newID(t))
	d := collateral.NewDevelopment(facts, h)
	d.Heard(one)
	d.Heard(h.unknown)
	if told, err := d.Pass(t.Context()); told != 1 || !errors.Is(err, errUnknown) {
		t.Errorf("first: got %d told and the error %v, want 1 and %v", told, err, errUnknown)
	}
	if n := len(h.asked); n != 2 {
		t.Errorf("first: got %d calls, want 2", n)
	}
	// Another process that hears of the same providers tells nothing anew.
	d = collateral.NewDevelopment(store.Collateral{Store: e.stores[1].Store}, h)
	d.Heard(one)
	d.Heard(h.unknown)
	if told, err := d.Pass(t.Context()); told != 0 || err != nil {
		t.Errorf("at once: got %d told and the error %v, want none", told, err)
	}
	e.pass(t, collateral.RetryAfter)
	h.unknown = ids.ProviderID{}
	if told, err := d.Pass(t.Context()); told != 1 || err != nil {
		t.Errorf("later: got %d told and the error %v, want 1", told, err)
	}
	if got := h.asked[len(h.asked)-1]; !got.Confirmed || got.Revision != 1 {
		t.Errorf("got %+v, want a confirmation of revision 1", got)
	}
	e.pass(t, time.Hour)
	if _, err := d.Pass(t.Context()); err != nil || len(h.asked) != 3 {
		t.Errorf("in the end: got %d calls and the error %v, want 3", len(h.asked), err)
	}
}

func TestAFactThatChangedMeanwhileStaysUntold(t *testing.T) {
	t.Parallel()
	e := setup(t)
	facts := store.Collateral{Store: e.stores[0].Store}
	one := ids.ProviderID(newID(t))
	if err := facts.Confirm(t.Context(), []ids.ProviderID{one}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.pool.Exec(t.Context(), `UPDATE provider_collateral SET confirmed = false, revision = 2`); err != nil {
		t.Fatal(err)
	}
	if err := facts.Confirm(t.Context(), []ids.ProviderID{one}); err != nil {
		t.Fatal(err)
	}
	if err := facts.Tried(t.Context(), collateral.Fact{ProviderID: one, Confirmed: true, Revision: 1}, true); err != nil {
		t.Fatal(err)
	}
	got, err := facts.Untold(t.Context(), collateral.RetryAfter, 10)
	if want := []collateral.Fact{{ProviderID: one, Confirmed: true, Revision: 3}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and the error %v, want %v", got, err, want)
	}
}

func TestTheDatabaseTiesWhatIsToldToItsRevision(t *testing.T) {
	t.Parallel()
	e := setup(t)
	facts := store.Collateral{Store: e.stores[0].Store}
	one := ids.ProviderID(newID(t))
	if err := facts.Confirm(t.Context(), []ids.ProviderID{one}); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{
		"confirmed = false", "revision = 2", "confirmed = false, revision = 3", "revision = 0",
		"confirmed = false, revision = 2, told_at = now()",
	} {
		_, err := e.pool.Exec(t.Context(), `UPDATE provider_collateral SET `+set)
		if err == nil || !strings.Contains(err.Error(), "changes with its revision") {
			t.Errorf("%s: got the error %v, want a refusal", set, err)
		}
	}
}
