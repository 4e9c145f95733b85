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

func (h *hub) SetSuspension(context.Context, collateral.Suspension) error { return nil }

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
	switch told, err := d.Pass(t.Context()); {
	case told != 1:
		t.Errorf("first: got %d told, want 1 and %v", told, errUnknown)
	case !errors.Is(err, errUnknown):
		t.Errorf("first: got %d told, want 1 and %v", told, errUnknown)
	}
	if n := len(h.asked); n != 2 {
		t.Errorf("first: got %d calls, want 2", n)
	}
	// Another process that hears of the same providers tells nothing anew.
	d = collateral.NewDevelopment(store.Collateral{Store: e.stores[1].Store}, h)
	d.Heard(one)
	d.Heard(h.unknown)
	switch told, err := d.Pass(t.Context()); {
	case told != 0:
		t.Errorf("at once: got %d told, want none", told)
	case err != nil:
		t.Errorf("at once: got the error %v, want none", err)
	}
	e.pass(t, collateral.RetryAfter)
	h.unknown = ids.ProviderID{}
	switch told, err := d.Pass(t.Context()); {
	case told != 1:
		t.Errorf("later: got %d told, want 1", told)
	case err != nil:
		t.Errorf("later: got the error %v, want none", err)
	}
	switch got := h.asked[len(h.asked)-1]; {
	case !got.Confirmed:
		t.Errorf("got %+v, want a confirmation of revision 1", got)
	case got.Revision != 1:
		t.Errorf("got %+v, want a confirmation of revision 1", got)
	}
	e.pass(t, time.Hour)
	switch _, err := d.Pass(t.Context()); {
	case err != nil:
		t.Errorf("in the end: got the error %v, want none", err)
	case len(h.asked) != 3:
		t.Errorf("in the end: got %d calls, want 3", len(h.asked))
	}
}

func TestAFactThatChangedMeanwhileStaysUntold(t *testing.T) {
	t.Parallel()
	e := setup(t)
	facts := store.Collateral{Store: e.stores[0].Store}
	one := ids.ProviderID(newID(t))
	if err := facts.ConfirmDevelopment(t.Context(), []ids.ProviderID{one}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.pool.Exec(t.Context(), `UPDATE provider_collateral SET confirmed = false, revision = 2`); err != nil {
		t.Fatal(err)
	}
	if err := facts.ConfirmDevelopment(t.Context(), []ids.ProviderID{one}); err != nil {
		t.Fatal(err)
	}
	if err := facts.Tried(t.Context(), collateral.Fact{ProviderID: one, Confirmed: true, Revision: 1}, true); err != nil {
		t.Fatal(err)
	}
	got, err := facts.Pending(t.Context(), collateral.RetryAfter, 10)
	fact := collateral.Fact{ProviderID: one, Confirmed: true, Source: collateral.FromDevelopment, Revision: 3}
	switch want := []collateral.Fact{fact}; {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case !slices.Equal(got, want):
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheDatabaseTiesWhatIsToldToItsRevision(t *testing.T) {
	t.Parallel()
	e := setup(t)
	facts := store.Collateral{Store: e.stores[0].Store}
	one := ids.ProviderID(newID(t))
	if err := facts.ConfirmDevelopment(t.Context(), []ids.ProviderID{one}); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{
		"confirmed = false", "revision = 2", "confirmed = false, revision = 3", "revision = 0",
		"confirmed = false, revision = 2, told_at = now()", "source = 'contract'",
	} {
		_, err := e.pool.Exec(t.Context(), `UPDATE provider_collateral SET `+set)
		switch {
		case err == nil:
			t.Errorf("%s: got the error %v, want a refusal", set, err)
		case !strings.Contains(err.Error(), "changes with its revision"):
			t.Errorf("%s: got the error %v, want a refusal", set, err)
		}
	}
}

// A setting that is taken back takes back what rested on it, and nothing else.
func TestWithoutTheSettingDevelopmentCollateralIsWithdrawnAndAContractsStays(t *testing.T) {
	t.Parallel()
	e := setup(t)
	facts := store.Collateral{Store: e.stores[0].Store}
	held, claimed := ids.ProviderID(newID(t)), ids.ProviderID(newID(t))
	if err := facts.ConfirmDevelopment(t.Context(), []ids.ProviderID{held, claimed}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.pool.Exec(t.Context(),
		`UPDATE provider_collateral SET source = 'contract', revision = 2 WHERE provider_id = $1`, held); err != nil {
		t.Fatal(err)
	}
	h := &hub{}
	for range 2 { // a second start finds nothing to withdraw
		if _, err := collateral.NewWithdrawal(facts, h).Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(h.asked, func(a, b collateral.Fact) int { return strings.Compare(string(a.Source), string(b.Source)) })
	if want := []collateral.Fact{
		{ProviderID: held, Confirmed: true, Source: collateral.FromContract, Revision: 2},
		{ProviderID: claimed, Confirmed: false, Source: collateral.FromDevelopment, Revision: 2},
	}; !slices.Equal(h.asked, want) {
		t.Errorf("told: got %v, want %v", h.asked, want)
	}
	// The setting comes back: what rests on a contract is not touched by it.
	if _, err := e.pool.Exec(t.Context(),
		`UPDATE provider_collateral SET confirmed = false, revision = 3, told_at = NULL WHERE provider_id = $1`,
		held); err != nil {
		t.Fatal(err)
	}
	if err := facts.ConfirmDevelopment(t.Context(), []ids.ProviderID{held, claimed}); err != nil {
		t.Fatal(err)
	}
	got, err := facts.Pending(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		if want := f.ProviderID == claimed; f.Confirmed != want {
			t.Errorf("with the setting again: got %+v, want confirmed: %t", f, want)
		}
	}
	if len(got) != 2 {
		t.Errorf("with the setting again: got %v, want 2 facts that the hub was not told", got)
	}
}
