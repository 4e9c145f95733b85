package store

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/acts/actstest"
	"svc.internal/pkg/pgtest"
)

func TestActsOfOperatorsAreListedFromAnIndex(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	actstest.CheckLists(t, actstest.Service{Store: s, Owner: pgtest.Owner(t, s.pool), Table: actTable, Action: "set",
		Common: "0192f0c0-0000-7000-8000-000000000001", Rare: "a/model"})
}

func TestNobodyChangesWhatOperatorsDid(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	create(t, d, "Farm")
	owner := pgtest.Owner(t, s.pool)
	for _, sql := range []string{
		`UPDATE operator_action SET actor = 'operator'`, `DELETE FROM operator_action`, `TRUNCATE operator_action`,
	} {
		if _, err := owner.Exec(t.Context(), sql); !strings.Contains(fmt.Sprint(err), "kept as it is") {
			t.Errorf("%s: got the error %v, want one that says that it is kept", sql, err)
		}
	}
	const add = `INSERT INTO operator_action (actor, action, subject, detail) VALUES `
	wantRefused(t, s, "a strange actor", add+`('operator:<b>', 'set', 'x', '{}')`)
	wantRefused(t, s, "no action", add+`('operator', '', 'x', '{}')`)
	wantRefused(t, s, "no subject", add+`('operator', 'set', '', '{}')`)
	wantRefused(t, s, "no object", add+`('operator', 'set', 'x', '[]')`)
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO operator_action (at, actor, action, subject, detail)
		VALUES (now(), 'operator', 'set', 'x', '{}')`); !strings.Contains(fmt.Sprint(err), "permission denied") {
		t.Errorf("a time of one's own: got the error %v, want permission denied", err)
	}
}
