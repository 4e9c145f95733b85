// Package acttable reads what operators did from the table operator_action of a service's
// schema. Each service has such a table, with the columns id, at, actor, action and detail and a
// column for what was acted on. Its indexes (at, id), (actor, at, id) and (subject, at, id)
// answer each single filter in the order of the list. With an operator and a subject, PostgreSQL
// reads one index and filters by the other.
package acttable

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"svc.internal/pkg/acts"
)

// Table says how a service's table names what was acted on.
type Table struct {
	// Subject is the column.
	Subject string
	// UUID reports whether the column's type is uuid; otherwise it is text.
	UUID bool
}

// DB is a pool or a transaction.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Find returns the acts that match a filter, the newest first.
func (t Table) Find(ctx context.Context, db DB, f acts.Filter) ([]acts.Act, error) {
	sql, args, ok := t.Statement(f)
	if !ok {
		return nil, nil
	}
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("select acts of operators: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a acts.Act, err error) {
		err = row.Scan(&a.ID, &a.At, &a.Actor, &a.Action, &a.Subject, &a.Detail)
		a.At = a.At.UTC()
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("select acts of operators: %w", err)
	}
	return list, nil
}

// Statement returns the statement of a filter with its arguments; ok is false for a subject that
// no row can have. The conditions stand in the text only where they are wanted, so that the
// planner takes the index that fits.
func (t Table) Statement(f acts.Filter) (sql string, args []any, ok bool) {
	var where []string
	add := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where = append(where, condition)
	}
	if f.Actor != "" {
		add("actor = ?", f.Actor)
	}
	if f.Subject != "" {
		var subject any = f.Subject
		if t.UUID {
			var id pgtype.UUID
			if id.Scan(f.Subject) != nil {
				return "", nil, false
			}
			subject = id
		}
		add(t.Subject+" = ?", subject)
	}
	if !f.Since.IsZero() {
		add("at >= ?", f.Since)
	}
	if !f.Until.IsZero() {
		add("at < ?", f.Until)
	}
	if f.After != nil {
		add("(at, id) < (?, ?)", f.After.At, f.After.ID)
	}
	sql = "SELECT id, at, actor, action, " + t.Subject + "::text, detail::text FROM operator_action"
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	args = append(args, f.Limit)
	return sql + fmt.Sprintf(" ORDER BY at DESC, id DESC LIMIT $%d", len(args)), args, true
}
