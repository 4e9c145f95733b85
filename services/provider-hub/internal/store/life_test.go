package store

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/provider-hub/internal/provider"
)

// However many changes the history of a provider has, a bound reads the entries that it counts.
func TestEachBoundOfChangesOfAnAddressHasAnIndex(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	id := create(t, d, "Farm").ID
	for what, by := range map[string]provider.Actor{
		provider.BeneficiaryProposed: provider.ByProvider, provider.OwnerProposed: provider.ByProvider,
		provider.BeneficiaryChanged: provider.ByProvider, provider.BeneficiarySet: provider.ByUser,
	} {
		want := "provider_status_change_asked"
		if by == provider.ByUser {
			want = "provider_status_change_set"
		}
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The table is empty, which is read whole sooner than by any index.
		if _, err := tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL enable_bitmapscan = off`); err != nil {
			t.Fatal(err)
		}
		rows, err := tx.Query(t.Context(), `EXPLAIN `+oldestCounted(addressBound(provider.Entry{What: what, By: by})),
			id, time.Now(), provider.MaxChanges-1)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, want) {
			t.Errorf("%s: got the plan\n%s\nwant the index %s in it", what, plan, want)
		}
		for _, step := range []string{"Filter", "Sort"} {
			if strings.Contains(plan, step) {
				t.Errorf("%s: got the plan\n%s\nwant no %s, because the index has it", what, plan, step)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
