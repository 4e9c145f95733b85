package operator

import (
	"testing"

	"svc.internal/pkg/fault"
)

// Every state with every trigger.
func TestAnOperatorMovesByTheTableAlone(t *testing.T) {
	want := map[State]map[Trigger]State{
		Invited: {Confirm: Active, Reset: Invited, End: Ended},
		Active:  {Reset: Invited, End: Ended},
		Ended:   {End: Ended},
	}
	for _, from := range []State{Invited, Active, Ended, "odd"} {
		for _, by := range []Trigger{Confirm, Reset, End, "odd"} {
			got, err := from.Next(by)
			if got != want[from][by] {
				t.Errorf("%s by %s: got %q, want %q", from, by, got, want[from][by])
			}
			if refused := fault.Is(err, fault.TransitionNotAllowed); refused != (want[from][by] == "") {
				t.Errorf("%s by %s: got the error %v", from, by, err)
			}
		}
	}
}
