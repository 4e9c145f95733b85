package store_test

import (
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/store"
)

// aMinute is how many looks are made before one fails.
const aMinute = int(time.Minute / (50 * time.Millisecond))

// wantDue waits until loops would look for this work alone. A database that is slow to answer has all of them look
// meanwhile; see pg.Lull.
func wantDue(t *testing.T, stills map[store.Work]*clock.Still, want ...store.Work) {
	t.Helper()
	var got []store.Work
	tries := aMinute
	for range clock.Every(t.Context(), 50*time.Millisecond) {
		got = nil
		for _, w := range store.Works() {
			if still := stills[w]; still != nil && !still.Holds(t.Context()) {
				got = append(got, w)
			}
		}
		if slices.Equal(got, want) {
			return
		}
		if tries--; tries == 0 {
			break
		}
	}
	t.Errorf("due: got %v, want %v", got, want)
}

// stills returns the stills of loops that have made their first look.
func stills(t *testing.T, st *store.Store) map[store.Work]*clock.Still {
	t.Helper()
	all := map[store.Work]*clock.Still{}
	for _, w := range store.Works() {
		all[w] = st.Due(w)
	}
	for _, still := range all {
		still.Holds(t.Context())
	}
	return all
}

// The first list of the card processor is due at once. All else rests in a ledger in which nothing happens.
func TestALedgerInWhichNothingHappensHasNoWork(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	wantDue(t, stills(t, e.store), store.DueCards)
}

// Work of each kind makes its own loop look, and no other one.
func TestALoopLooksWhenItsWorkIsDue(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.exec(t, `INSERT INTO card_listing (processor, due_at) VALUES ('sandbox', now() + interval '1 hour')`)
	all := stills(t, e.store)
	wantDue(t, all)
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
		wantDue(t, all, c.work)
		delete(all, c.work)
	}
}

func TestADayIsSealedWhenItIsOver(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	late, now := e.store.DueSeal(48*time.Hour), e.store.DueSeal(0)
	late.Holds(t.Context()) // the first looks
	now.Holds(t.Context())
	for name, still := range map[string]*clock.Still{"late": late, "now": now} {
		if !becomes(t, still, true) {
			t.Errorf("a sealer looks although there is no day: %s", name)
		}
	}
	e.consumer(t, 0)
	e.exec(t, `UPDATE account SET created_at = now() - interval '1 day'`)
	if !becomes(t, now, false) {
		t.Error("a sealer misses a day that is over")
	}
	if !becomes(t, late, true) {
		t.Error("a sealer looks before the time")
	}
}

// becomes waits until a loop rests, or until it does not.
func becomes(t *testing.T, still *clock.Still, rests bool) bool {
	tries := aMinute
	for range clock.Every(t.Context(), 50*time.Millisecond) {
		if still.Holds(t.Context()) == rests {
			return true
		}
		if tries--; tries == 0 {
			break
		}
	}
	return false
}
