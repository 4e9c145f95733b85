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
	looks := func() (found []store.Work) {
		for _, w := range store.Works() {
			if still := all[w]; still != nil && !still.Holds(t.Context()) {
				found = append(found, w)
			}
		}
		return found
	}
	if got := looks(); !slices.Equal(got, store.Works()) {
		t.Errorf("the first looks: got %v, want %v", got, store.Works())
	}
	if got := looks(); len(got) > 0 {
		t.Errorf("due before anything happens: got %v, want nothing", got)
	}
	for _, c := range []struct {
		work store.Work
		do   string
	}{
		{store.DueCollateral, `INSERT INTO provider_collateral (provider_id, confirmed) VALUES (gen_random_uuid(), true)`},
		{store.DueAccountEvents, `INSERT INTO account_event (kind, provider_id, data) VALUES ('penalty.created',
			gen_random_uuid(), '{}')`},
	} {
		exec(c.do)
		for deadline := time.Now().Add(time.Minute); all[c.work].Holds(t.Context()); {
			if time.Now().After(deadline) {
				t.Fatalf("work %d: a loop misses what is due", c.work)
			}
		}
		delete(all, c.work)
		if got := looks(); len(got) > 0 {
			t.Errorf("due because of work %d: got %v, want nothing", c.work, got)
		}
	}
}
