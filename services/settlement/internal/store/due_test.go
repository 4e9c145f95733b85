package store_test

import (
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/store"
)

// Work of each kind makes its own loop look, and no other one.
func TestALoopLooksWhenItsWorkIsDue(t *testing.T) {
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	owner := pgtest.Owner(t, pool)
	exec := func(sql string) {
		t.Helper()
		tx, err := owner.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		for _, one := range []string{`SET LOCAL session_replication_role = replica`, sql} {
			if _, err := tx.Exec(t.Context(), one); err != nil {
				t.Fatalf("%s: %v", one, err)
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	st := store.New(pool)
	all := map[store.Work]*clock.Still{}
	for _, w := range store.Works() {
		all[w] = st.Due(w)
	}
	wantDue(t, all, store.Works()...) // the first looks
	wantDue(t, all)
	for _, c := range []struct {
		work store.Work
		do   string
	}{
		{store.DueCollateral, `INSERT INTO provider_collateral (provider_id, confirmed) VALUES (gen_random_uuid(), true)`},
		{store.DueAccountEvents, `INSERT INTO account_event (kind, provider_id, data) VALUES ('penalty.created',
			gen_random_uuid(), '{}')`},
	} {
		exec(c.do)
		wantDue(t, all, c.work)
		delete(all, c.work)
	}
}

// wantDue waits until loops would look for this work alone. A database that is slow to answer has all of them look
// meanwhile; see pg.Lull.
func wantDue(t *testing.T, stills map[store.Work]*clock.Still, want ...store.Work) {
	t.Helper()
	const pause = 50 * time.Millisecond
	tries := int(time.Minute / pause)
	var got []store.Work
	for range clock.Every(t.Context(), pause) {
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
