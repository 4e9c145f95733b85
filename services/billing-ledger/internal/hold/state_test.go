package hold

import "testing"

func TestOnlyAnOpenHoldMovesAndItMovesOnce(t *testing.T) {
	want := map[Trigger]State{
		Usage: Settled, NothingServed: Released, Renewed: Open, OverUnserved: Expired, OverServed: Open,
		ReviewFailed: Expired,
	}
	for _, s := range States() {
		for _, trigger := range Triggers() {
			to, ok := s.After(trigger)
			if ok != (s == Open) {
				t.Errorf("%s after %s: ok: got %t, want %t", s, trigger, ok, s == Open)
			} else if ok && to != want[trigger] {
				t.Errorf("%s after %s: to: got %q, want %q", s, trigger, to, want[trigger])
			}
		}
	}
}
