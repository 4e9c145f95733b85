// Package actstest tests how services list what operators did, on the tables that each has.
package actstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/acttable"
)

// Service is a store with its table.
type Service struct {
	Store acts.Store
	// Owner owns the table.
	Owner *pgxpool.Pool
	Table acttable.Table
	// Action is one that the table takes, Common and Rare are two subjects.
	Action, Common, Rare string
}

const (
	planted = 3000
	// alice did half of what is planted, bob the other half, and eve little.
	alice, bob, eve = "operator:alice@1", "operator:bob@2", "operator:eve@3"
)

// base is after whatever else the table has.
var base = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// CheckLists fails unless the store lists acts in their order, page by page and without a gap,
// by each filter, and from an index.
func CheckLists(t *testing.T, s Service) {
	t.Helper()
	all := s.plant(t)
	t.Run("a walk has each act once", func(t *testing.T) { s.walk(t, all) })
	t.Run("filters", func(t *testing.T) { s.filters(t, all) })
	t.Run("indexes", s.indexes)
}

// plant adds acts, three of each second, and returns them in the order of the list.
func (s Service) plant(t *testing.T) []acts.Act {
	t.Helper()
	kind := "text"
	if s.Table.UUID {
		kind = "uuid"
	}
	rows, err := s.Owner.Query(t.Context(), `INSERT INTO operator_action (at, actor, action, `+s.Table.Subject+`, detail)
		SELECT $1::timestamptz + (i / 3) * interval '1 second',
			CASE WHEN i IN (7, 2900) THEN $2 WHEN i % 2 = 0 THEN $3 ELSE $4 END, $5,
			(CASE WHEN i IN (11, 12, 2800) THEN $6 ELSE $7 END)::`+kind+`, jsonb_build_object('i', i)
		FROM generate_series(0, $8::int - 1) AS i
		RETURNING id, at, actor, action, `+s.Table.Subject+`::text, detail::text`,
		base, eve, alice, bob, s.Action, s.Rare, s.Common, planted)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[acts.Act])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Owner.Exec(t.Context(), `ANALYZE operator_action`); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b acts.Act) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return int(b.ID - a.ID)
	})
	for i := range all {
		all[i].At = all[i].At.UTC()
	}
	return all
}

func (s Service) list(t *testing.T, f acts.Filter) []acts.Act {
	t.Helper()
	list, err := s.Store.Acts(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (s Service) walk(t *testing.T, all []acts.Act) {
	f := acts.Filter{Since: base, Limit: acts.MaxLimit}
	var got []acts.Act
	for {
		page := s.list(t, f)
		got = append(got, page...)
		if len(page) < f.Limit {
			break
		}
		last := page[len(page)-1]
		f.After = &acts.Place{At: last.At, ID: last.ID}
	}
	wantSame(t, "the walk", got, all)
}

func (s Service) filters(t *testing.T, all []acts.Act) {
	third := all[len(all)/3].At
	in := func(of func(acts.Act) bool) []acts.Act {
		var out []acts.Act
		for _, a := range all {
			if of(a) {
				out = append(out, a)
			}
		}
		return out
	}
	within := func(a acts.Act) bool { return !a.At.Before(third) && a.At.Before(third.Add(10*time.Second)) }
	for name, tc := range map[string]struct {
		f    acts.Filter
		want []acts.Act
	}{
		"an operator": {acts.Filter{Actor: eve, Limit: 9}, in(func(a acts.Act) bool { return a.Actor == eve })},
		"a subject": {acts.Filter{Subject: s.Rare, Limit: 9},
			in(func(a acts.Act) bool { return a.Subject == s.Rare })},
		"times":             {acts.Filter{Since: third, Until: third.Add(10 * time.Second), Limit: 99}, in(within)},
		"two that exclude":  {acts.Filter{Actor: eve, Subject: s.Rare, Limit: 9}, nil},
		"no such operator":  {acts.Filter{Actor: "operator:alice", Limit: 9}, nil},
		"no such subject":   {acts.Filter{Subject: "' OR true --", Limit: 9}, nil},
		"the edge of pages": {acts.Filter{After: &acts.Place{At: all[4].At, ID: all[4].ID}, Limit: 2}, all[5:7]},
		"before a time": {acts.Filter{After: &acts.Place{At: third}, Limit: 2},
			in(func(a acts.Act) bool { return a.At.Before(third) })[:2]},
		"from a time on": {acts.Filter{After: &acts.Place{At: third, ID: 1<<63 - 1}, Limit: 2},
			in(func(a acts.Act) bool { return !a.At.After(third) })[:2]},
	} {
		wantSame(t, name, s.list(t, tc.f), tc.want)
	}
}

func (s Service) indexes(t *testing.T) {
	after := &acts.Place{At: base.Add(planted / 6 * time.Second), ID: 1}
	for name, tc := range map[string]struct {
		f     acts.Filter
		index string
	}{
		"all":         {acts.Filter{}, "operator_action_at"},
		"a page":      {acts.Filter{After: after}, "operator_action_at"},
		"an operator": {acts.Filter{Actor: eve, After: after}, "operator_action_by"},
		"a subject":   {acts.Filter{Subject: s.Rare, After: after}, "operator_action_of"},
	} {
		tc.f.Limit = 50
		sql, args, _ := s.Table.Statement(tc.f)
		rows, err := s.Owner.Query(t.Context(), "EXPLAIN "+sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, tc.index+" ") {
			t.Errorf("%s: got the plan\n%s\nwant %s in it", name, plan, tc.index)
		}
		if strings.Contains(plan, "Sort") {
			t.Errorf("%s: got the plan\n%s\nwant no Sort", name, plan)
		}
	}
}

func wantSame(t *testing.T, name string, got, want []acts.Act) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %d acts %s, want %d %s", name, len(got), brief(got), len(want), brief(want))
	}
}

// brief shows the first acts of a list.
func brief(list []acts.Act) string { return fmt.Sprintf("%+v", list[:min(len(list), 4)]) }
