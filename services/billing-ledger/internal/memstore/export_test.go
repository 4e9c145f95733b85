package memstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// slack is how far apart the clocks of the two stores may be. It is less than
// any time that a story lets pass at once.
const slack = 15 * time.Second

// exported is a table of an export. Rows that are written the same in both
// exports are the same texts; times holds the times of each, in the order of
// their columns' names.
type exported struct {
	columns map[string]bool
	rows    []exportedRow
}

type exportedRow struct {
	text  string
	times []time.Time
}

// own are the columns in which each store has values of its own.
var own = map[string]string{"entry": "id", "posting": "entry_id"}

// compareExports holds the export of the memory against that of PostgreSQL: of
// every table that the memory writes, the rows and their columns are the same,
// but for the rules of entries that the memory does not know.
func (p *pair) compareExports(t *testing.T) {
	t.Helper()
	memory := parseExport(t, p.memory.Export, nil)
	real := parseExport(t, func(w io.Writer) error {
		return p.real.Export(t.Context(), w, func(string, int64) {})
	}, memory)
	for _, table := range slices.Sorted(maps.Keys(memory)) {
		got, want := memory[table].rows, real[table].rows
		if table == "posting_rule" {
			want = slices.DeleteFunc(want, func(r exportedRow) bool {
				return !slices.ContainsFunc(got, func(known exportedRow) bool { return known.text == r.text })
			})
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %d rows, want %d as in PostgreSQL", table, len(got), len(want))
			continue
		}
		for i := range got {
			p.compareRow(t, table, got[i], want[i])
		}
	}
	for _, table := range []string{"entry", "hold", "usage_settlement", "request_report", "orphan_review", "quarantine"} {
		if len(memory[table].rows) == 0 {
			t.Errorf("rows of %s compared: got 0, want at least 1", table)
		}
	}
}

func (p *pair) compareRow(t *testing.T, table string, got, want exportedRow) {
	t.Helper()
	if got.text != want.text {
		t.Errorf("%s: got\n%s, want\n%s", table, got.text, want.text)
		return
	}
	for i, at := range got.times {
		apart := at.Add(-p.passed).Sub(want.times[i]).Abs()
		if at.IsZero() != want.times[i].IsZero() || !at.IsZero() && apart > slack {
			t.Errorf("%s: got the times %v, want %v: %s", table, got.times, want.times, got.text)
		}
	}
}

// parseExport reads an export. With like, it takes the tables and columns of
// that one alone, and fails where one of them is missing.
func parseExport(t *testing.T, export func(io.Writer) error, like map[string]*exported) map[string]*exported {
	t.Helper()
	var text bytes.Buffer
	if err := export(&text); err != nil {
		t.Fatal(err)
	}
	tables := map[string]*exported{}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	for _, line := range lines[1 : len(lines)-1] {
		var of struct {
			Table string         `json:"table"`
			Row   map[string]any `json:"row"`
		}
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&of); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if like != nil && like[of.Table] == nil {
			continue
		}
		table := tables[of.Table]
		if table == nil {
			table = &exported{columns: map[string]bool{}}
			tables[of.Table] = table
		}
		for column := range of.Row {
			table.columns[column] = true
		}
		columns := table.columns
		if like != nil {
			columns = like[of.Table].columns
		}
		table.rows = append(table.rows, parseRow(t, of.Table, of.Row, columns))
	}
	for _, table := range tables {
		slices.SortFunc(table.rows, func(a, b exportedRow) int { return strings.Compare(a.text, b.text) })
	}
	if want := fmt.Sprintf(`"rows":%d`, len(lines)-2); !strings.Contains(lines[len(lines)-1], want) {
		t.Errorf("the last line: got %s, want %s", lines[len(lines)-1], want)
	}
	return tables
}

func parseRow(t *testing.T, table string, columns map[string]any, wanted map[string]bool) (r exportedRow) {
	t.Helper()
	for _, column := range slices.Sorted(maps.Keys(wanted)) {
		value, ok := columns[column]
		switch {
		case !ok:
			t.Fatalf("%s has no column %s in PostgreSQL", table, column)
		case column == own[table]:
		case column == "at" || strings.HasSuffix(column, "_at") || strings.HasSuffix(column, "_until"):
			var at time.Time
			if value != nil {
				var err error
				if at, err = time.Parse(time.RFC3339Nano, value.(string)); err != nil {
					t.Fatalf("%s: %s: %v", table, column, err)
				}
			}
			r.times = append(r.times, at)
		default:
			r.text += fmt.Sprintf("%s=%v ", column, value)
		}
	}
	return r
}
