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

func TestAFaultThatMissesItsMomentComesInAnotherNight(t *testing.T) {
	t.Parallel()
	_, faults := plan.Days(plan.Make(5, len(plan.Cells()), plan.Cells()))
	unlucky := faults[3].Number
	todo := agenda{left: faults, tried: map[int]int{}}
	tried := map[int]int{} // by number
	for nights := 0; len(todo.left) > 0; nights++ {
		if nights > len(faults) {
			t.Fatal("nights: got more than faults, want an end")
		}
		tonight := todo.night()
		seen := map[string]bool{}
		for _, f := range tonight {
			tried[f.Number]++
			if seen[f.Cell.Point] {
				t.Errorf("%v stands where another one of its night does", f)
			}
			seen[f.Cell.Point] = true
		}
		for _, f := range tonight {
			// Each fault misses its first night, and one fault misses every night.
			if n := tried[f.Number]; n == 1 || f.Number == unlucky {
				if got, want := todo.again(f), n < tries; got != want {
					t.Errorf("%v, tried %d times, comes again: got %v, want %v", f, n, got, want)
				}
			}
		}
	}
	for _, f := range faults {
		want := 2
		if f.Number == unlucky {
			want = tries
		}
		if got := tried[f.Number]; got != want {
			t.Errorf("%v: got %d tries, want %d", f, got, want)
		}
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
