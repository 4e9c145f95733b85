package store_test

import (
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/store"
)

// due returns the work at which a loop would look now, of those that have made their first look.
func due(t *testing.T, stills map[store.Work]*clock.Still) (found []store.Work) {
	t.Helper()
	for _, w := range store.Works() {
		if !stills[w].Holds(t.Context()) {
			found = append(found, w)
		}
	}
	return found
}

// stills returns the stills of loops that have made their first look.
func stills(t *testing.T, st *store.Store) map[store.Work]*clock.Still {
	t.Helper()
	all := map[store.Work]*clock.Still{}
	for _, w := range store.Works() {
		all[w] = st.Due(w)
	}
	due(t, all)
	return all
}

// The first list of the card processor is due at once. All else rests in a ledger in which nothing happens.
func TestALedgerInWhichNothingHappensHasNoWork(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	if got, want := due(t, stills(t, e.store)), []store.Work{store.DueCards}; !slices.Equal(got, want) {
		t.Errorf("due: got %v, want %v", got, want)
	}
}

// Work of each kind makes its own loop look, and no other one.
func TestALoopLooksWhenItsWorkIsDue(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.exec(t, `INSERT INTO card_listing (processor, due_at) VALUES ('sandbox', now() + interval '1 hour')`)
	all := stills(t, e.store)
	if got := due(t, all); len(got) > 0 {
		t.Fatalf("due before anything happens: got %v, want nothing", got)
	}
	for _, c := range []struct {
		work store.Work
		do   string
	}{
		{store.DueCards, `UPDATE card_listing SET due_at = now()`},
		{store.DueLetters, `INSERT INTO mail_outbox (kind, recipient, due_at) VALUES ('confirm', 'a@site.example', now())`},
		{store.ExpiredVisitors, `INSERT INTO visitor (address, taken_at, expires_at) VALUES (sha256('a'), '{}', now())`},
		{store.ExpiredAttempts, `INSERT INTO sign_in_count (email_sha256, network, full_at)
			VALUES (sha256('a'), sha256('b'), now())`},
	} {
		e.exec(t, c.do)
		for deadline := time.Now().Add(time.Minute); all[c.work].Holds(t.Context()); {
			if time.Now().After(deadline) {
				t.Fatalf("work %d: a loop misses what is due", c.work)
			}
		}
		delete(all, c.work)
		for w, still := range all {
			if !still.Holds(t.Context()) {
				t.Errorf("work %d is due because of work %d", w, c.work)
			}
		}
	}
}

func TestADayIsSealedWhenItIsOver(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	late, now := e.store.DueSeal(48*time.Hour), e.store.DueSeal(0)
	late.Holds(t.Context()) // the first looks
	now.Holds(t.Context())
	for name, still := range map[string]*clock.Still{"late": late, "now": now} {
		if !still.Holds(t.Context()) {
			t.Errorf("a sealer looks although there is no day: %s", name)
		}
	}
	e.consumer(t, 0)
	e.exec(t, `UPDATE account SET created_at = now() - interval '1 day'`)
	for deadline := time.Now().Add(time.Minute); now.Holds(t.Context()); {
		if time.Now().After(deadline) {
			t.Fatal("a sealer misses a day that is over")
		}
	}
	if !late.Holds(t.Context()) {
		t.Error("a sealer looks before the time")
	}
}
