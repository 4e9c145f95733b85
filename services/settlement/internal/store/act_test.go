package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/actstest"
	"svc.internal/pkg/acts/acttable"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/store"
)

func TestActsOfOperatorsAreListedFromAnIndex(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	actstest.CheckLists(t, actstest.Service{Store: store.New(pool), Owner: pgtest.Owner(t, pool),
		Table: acttable.Table{Subject: "subject"}, Action: "approve_payout",
		Common: "0192f0c0-0000-7000-8000-000000000001", Rare: "8453"})
}

// wantActs fails unless these acts of operators are kept and no others, the last first, each as
// "actor action subject".
func wantActs(t *testing.T, pool *pgxpool.Pool, want ...string) {
	t.Helper()
	list, err := store.New(pool).Acts(t.Context(), acts.Filter{Limit: acts.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, a.Actor+" "+a.Action+" "+a.Subject)
	}
	if !slices.Equal(got, want) {
		t.Errorf("acts of operators: got %q, want %q", got, want)
	}
}

func TestWhatIsTakenInAfterALossIsAnAct(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	if _, err := pool.Exec(t.Context(), `INSERT INTO adoption (chain_id, actor, reason)
		VALUES (8453, 'operator:ann@1', 'a lost disk')`); err != nil {
		t.Fatal(err)
	}
	wantActs(t, pool, "operator:ann@1 adopt 8453")
}

func TestNobodyChangesWhatOperatorsDid(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	owner := pgtest.Owner(t, pool)
	const add = `INSERT INTO operator_action (actor, action, subject, detail) VALUES `
	if _, err := pool.Exec(t.Context(), add+`('operator', 'adopt', '1', '{}')`); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		`UPDATE operator_action SET actor = 'operator'`:                             "kept as they are",
		`DELETE FROM operator_action`:                                               "kept as they are",
		`TRUNCATE operator_action`:                                                  "kept as they are",
		add + `('operator:<b>', 'adopt', '1', '{}')`:                                "operator_action_actor_check",
		add + `('operator', 'steal', '1', '{}')`:                                    "operator_action_action_check",
		add + `('operator', 'adopt', '', '{}')`:                                     "operator_action_subject_check",
		add + `('operator', 'adopt', '1', '[]')`:                                    "operator_action_detail_check",
		`INSERT INTO operator_action OVERRIDING SYSTEM VALUE TABLE operator_action`: "operator_action_pkey",
	} {
		if _, err := owner.Exec(t.Context(), sql); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: got the error %v, want %q", sql, err, want)
		}
	}
}
