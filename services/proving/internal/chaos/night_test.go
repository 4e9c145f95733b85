package chaos

import (
	"testing"

	"svc.internal/services/proving/internal/chaos/plan"
)

func TestANightHasFewFaultsAtDifferentMoments(t *testing.T) {
	t.Parallel()
	_, faults := plan.Days(plan.Make(3, 0, plan.Cells()))
	if len(faults) == 0 {
		t.Fatal("there are no faults at night")
	}
	done := 0
	for rest := faults; len(rest) > 0; {
		var tonight []plan.Fault
		tonight, rest = gather(rest)
		seen := map[string]bool{}
		for _, f := range tonight {
			if seen[f.Cell.Point] {
				t.Errorf("%v stands where another one of its night does", f)
			}
			seen[f.Cell.Point] = true
		}
		if n := len(tonight); n == 0 || n > aNight {
			t.Fatalf("faults of a night: got %d, want 1 to %d", n, aNight)
		}
		done += len(tonight)
	}
	if done != len(faults) {
		t.Errorf("faults of all nights: got %d, want %d", done, len(faults))
	}
}

func TestEachCellOnceNeedsFourNights(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		_, faults := plan.Days(plan.Make(seed, len(plan.Cells()), plan.Cells()))
		nights := 0
		for rest := faults; len(rest) > 0; nights++ {
			_, rest = gather(rest)
		}
		if nights != 4 {
			t.Errorf("nights of %d faults of seed %d: got %d, want 4", len(faults), seed, nights)
		}
	}
}
