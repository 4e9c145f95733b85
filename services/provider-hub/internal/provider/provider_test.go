package provider

import (
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

// TestEveryStatusAndTriggerIsDecided walks the whole machine: a row or a
// column that is added must be decided here too.
func TestEveryStatusAndTriggerIsDecided(t *testing.T) {
	want := map[Status]map[Trigger]Status{
		Pending:   {Activate: Active, Return: Pending, Suspend: Suspended},
		Active:    {Activate: Active, Return: Pending, Suspend: Suspended},
		Suspended: {Activate: "", Return: Pending, Suspend: Suspended},
	}
	for _, from := range Statuses() {
		for _, trigger := range Triggers() {
			to, decided := want[from][trigger]
			if !decided {
				t.Fatalf("%s on %s is not decided", from, trigger)
			}
			got, err := from.After(trigger)
			if got != to || (to == "") != fault.Is(err, fault.TransitionNotAllowed) {
				t.Errorf("%s on %s = %q, %v; want %q", from, trigger, got, err, to)
			}
		}
		trigger, ok := TriggerFor(from)
		if again, err := from.After(trigger); !ok || err != nil || again != from {
			t.Errorf("asking for %s again changes it to %q (%v)", from, again, err)
		}
	}
	if _, err := Status("gone").After(Activate); err == nil {
		t.Error("a status that is none moves")
	}
}

func TestNamesArePrintableAndBounded(t *testing.T) {
	for _, bad := range []string{"", " a", "a\n", "a\x00b", "\xff", "a\u202eb", strings.Repeat("é", 65)} {
		if err := checkText("name", bad, 1, maxName); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("name %q is accepted", bad)
		}
	}
	for _, good := range []string{"a", "GPU Farm é 1", strings.Repeat("é", 64)} {
		if err := checkText("name", good, 1, maxName); err != nil {
			t.Errorf("name %q: %v", good, err)
		}
	}
}
