package store_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	servicePage = "../../README.md"
	tableBegin  = "<!-- postings -->\n"
	tableEnd    = "<!-- /postings -->\n"
)

var update = flag.Bool("update", false, "write the table of postings into the service's README")

// standing are the lines that holds and settled requests are by themselves; the
// views hold_leg and usage_leg have them leg by leg.
var standing = map[int][3]string{
	4: {"open hold", "l:consumer:available", "l:consumer:held"},
	5: {"request settled from credit", "l:consumer:available, e:discount", "l:provider:accrued, r:usage_margin"},
	6: {"hold released or expired", "l:consumer:held", "l:consumer:available"},
	7: {"the same, at more than hold and credit", "l:consumer:available, e:discount, e:shortfall",
		"l:provider:accrued, r:usage_margin"},
	8: {"request that a vendor served, with the shortfall of line 7 or, covered by a plan, all of its cost as one",
		"l:consumer:available, e:discount, e:shortfall", "l:vendor:payable, r:usage_margin"},
	10: {"zero-priced request", "–", "–"},
	12: {"request covered by a plan", "x:plan_accrual", "l:provider:plan_held"},
}

// postingsTable is what the database enforces, as people read it.
func postingsTable(t *testing.T, e *env) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| line | what | debit | credit |\n|--:|---|---|---|\n")
	rows := column[string](t, e, `SELECT format('%s|%s|%s|%s', coalesce(k.line, 99), k.kind,
			string_agg(r.account_kind || CASE r.unit WHEN 'token' THEN ' (tokens)' ELSE '' END, ', ' ORDER BY r.unit DESC,
				r.account_kind) FILTER (WHERE r.side = 'debit'),
			string_agg(r.account_kind || CASE r.unit WHEN 'token' THEN ' (tokens)' ELSE '' END, ', ' ORDER BY r.unit DESC,
				r.account_kind) FILTER (WHERE r.side = 'credit'))
		FROM entry_kind k JOIN posting_rule r ON r.entry_kind = k.kind WHERE k.kind <> 'reversal'
		GROUP BY k.line, k.kind ORDER BY k.line, k.kind`)
	next := 1
	views := func(upTo int) {
		for ; next < upTo; next++ {
			if l, ok := standing[next]; ok {
				fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", next, l[0], l[1], l[2])
			}
		}
	}
	for _, row := range rows {
		parts := strings.Split(row, "|")
		var line int
		if _, err := fmt.Sscan(parts[0], &line); err != nil {
			t.Fatal(err)
		}
		views(line)
		number := parts[0]
		if line == 99 {
			number = ""
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", number, parts[1], parts[2], parts[3])
	}
	b.WriteString("| | `reversal` | what the undone entry credits | what it debits |\n")
	return b.String()
}

func TestTheREADMEHasTheTableOfPostings(t *testing.T) {
	text, err := os.ReadFile(servicePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	table, after, closed := strings.Cut(rest, tableEnd)
	if !ok {
		t.Fatalf("%s has a place for the table, between %q and %q: ok of strings.Cut(…): got false, want true", servicePage,
			tableBegin, tableEnd)
	}
	if !closed {
		t.Fatalf("%s has a place for the table, between %q and %q: closed of strings.Cut(rest, tableEnd): got false, want "+
			"true", servicePage, tableBegin, tableEnd)
	}
	want := postingsTable(t, setup(t, unlimited))
	if table == want {
		return
	}
	if !*update {
		t.Fatal("the README has another table: run go test ./internal/store -run TableOfPostings -update")
	}
	if err := os.WriteFile(servicePage, []byte(before+tableBegin+want+tableEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
