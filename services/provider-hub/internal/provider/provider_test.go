package provider

import (
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

// TestEveryStatusAndTriggerIsDecided walks the whole machine: a row or a
// column that is added must be decided here too.
func TestEveryStatusAndTriggerIsDecided(t *testing.T) {
	triggers := []Trigger{
		RequestReview, Approve, Reject, ConfirmCollateral, Qualify, FailProbation, ExpireBenchmark, Withdraw, Suspend, Lift,
		Expel, Reinstate,
	}
	if !slices.Equal(triggers, Triggers()) {
		t.Fatalf("triggers: got %q, want %q", triggers, Triggers())
	}
	// The columns are the triggers in that order; - is refused.
	want := map[Status][]Status{
		Pending: {UnderReview, "-", "-", Pending, Active, "-", "-", "-", Suspended, "-", Rejected, "-"},
		UnderReview: {UnderReview, Approved, Rejected, UnderReview, "-", "-", "-", "-", Suspended, "-", Rejected,
			"-"},
		Approved:   {"-", Approved, "-", Activating, "-", "-", "-", Pending, Suspended, "-", Rejected, "-"},
		Activating: {"-", Activating, "-", Activating, Active, "-", "-", Pending, Suspended, "-", Rejected, "-"},
		Active:     {"-", Active, "-", Active, "-", Pending, Pending, Pending, Suspended, "-", Rejected, "-"},
		Suspended:  {"-", "-", "-", Suspended, "-", "-", "-", "-", Suspended, Pending, Rejected, "-"},
		Rejected:   {UnderReview, "-", Rejected, Rejected, "-", "-", "-", "-", Suspended, "-", Rejected, Pending},
	}
	if len(want) != len(Statuses()) {
		t.Fatalf("statuses: got %d, want %d", len(Statuses()), len(want))
	}
	for _, from := range Statuses() {
		for i, trigger := range triggers {
			to := want[from][i]
			got, err := from.After(trigger)
			switch refused := to == "-"; {
			case refused != fault.Is(err, fault.TransitionNotAllowed):
				t.Errorf("%s on %s: refused: got %t, want %t", from, trigger, refused, fault.Is(err, fault.TransitionNotAllowed))
			case !refused && got != to:
				t.Errorf("%s on %s: from.After(trigger): got %q, want %q, where !refused", from, trigger, got, to)
			case !refused && err != nil:
				t.Errorf("%s on %s: got the error %v, want none, where !refused", from, trigger, err)
			}
		}
		if connects := from != Suspended && from != Rejected; from.MayConnect() != connects {
			t.Errorf("from.MayConnect(): got %t, want %t", from.MayConnect(), connects)
		}
	}
	if _, err := Status("gone").After(Qualify); err == nil {
		t.Error("a status that is none moves")
	}
}

func TestNamesArePrintableAndBounded(t *testing.T) {
	for _, bad := range []string{"", " a", "a\n", "a\x00b", "\xff", "a\u202eb", strings.Repeat("é", 65)} {
		if err := checkText("name", bad, 1, maxName); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("name %q: got the error %v, want the reason %v", bad, err, fault.InvalidValue)
		}
	}
	for _, good := range []string{"a", "GPU Farm é 1", strings.Repeat("é", 64)} {
		if err := checkText("name", good, 1, maxName); err != nil {
			t.Errorf("name %q: %v", good, err)
		}
	}
}
