package external

import (
	"testing"
	"time"
)

func TestAKeyThatCannotBeReadIsTriedAgainAndMoreSeldomEachTime(t *testing.T) {
	t.Parallel()
	u, now := unreadable{}, time.Unix(1_800_000_000, 0)
	one := Held{ID: ID{1}, Revision: 1}
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute,
		16 * time.Minute} {
		u.add(one, now)
		if got := u.now(now.Add(want - 1)); len(got) != 1 {
			t.Errorf("before %v: got %d, want it skipped", want, len(got))
		}
		if got := u.now(now.Add(want)); len(got) != 0 {
			t.Errorf("after %v: got %d, want it tried", want, len(got))
		}
	}
	u.add(Held{ID: one.ID, Revision: 2}, now)
	if got := u.now(now.Add(time.Minute)); len(got) != 0 {
		t.Errorf("a changed endpoint after a minute: got %d, want it tried", len(got))
	}
	for i := range 2 * MaxSkipped {
		u.add(Held{ID: ID{2, byte(i), byte(i >> 8)}}, now)
	}
	if got := len(u); got != MaxSkipped {
		t.Errorf("remembered: got %d, want %d", got, MaxSkipped)
	}
}
