package settlesim_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/fill"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/settlesim"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// book is what both stores do.
type book interface {
	fill.Store
	Add(ctx context.Context, b earning.Batch) (earning.Outcome, error)
}

// lines makes random lines of few requests.
type lines struct {
	dice      *rand.Rand
	requests  []ids.RequestID
	providers []ids.ProviderID
	price     ids.PriceVersionID
}

func newLines(t *testing.T, seed uint64) *lines {
	t.Helper()
	l := &lines{dice: rand.New(rand.NewPCG(seed, 1))}
	for range 12 {
		r, err := ids.NewRequest(time.Now(), crand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		l.requests = append(l.requests, r)
	}
	for range 2 {
		p, err := ids.NewProvider(time.Now(), crand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		l.providers = append(l.providers, p)
	}
	var err error
	if l.price, err = ids.NewPriceVersion(time.Now(), crand.Reader); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lines) next(source earning.EvidenceSource) earning.Line {
	tokens := money.Tokens{Prompt: int64(l.dice.IntN(2)), Completion: int64(l.dice.IntN(3))}
	return earning.Line{
		RequestID: l.requests[l.dice.IntN(len(l.requests))], ProviderID: l.providers[l.dice.IntN(2)], PriceVersionID: l.price,
		ModelID: "m", Attempt: 1, Tokens: tokens, Payout: money.NanoUSD(tokens.Completion), EvidenceSource: source,
	}
}

// operation is a random one, to be done on both stores.
func (l *lines) operation() func(book) error {
	switch l.dice.IntN(6) {
	case 0:
		line := l.next(earning.Gateway)
		return func(b book) error {
			_, err := b.Fill(context.Background(), []earning.Line{line})
			return err
		}
	case 1:
		held := []ids.RequestID{l.requests[l.dice.IntN(len(l.requests))]}
		return func(b book) error {
			_, err := b.Exclude(context.Background(), held)
			return err
		}
	case 2:
		line := l.next(earning.Gateway)
		line.Settled = true
		return func(b book) error {
			_, err := b.Add(context.Background(), earning.Batch{Lines: []earning.Line{line}, Rulings: []earning.Line{line}})
			return err
		}
	default:
		line := l.next(earning.Hub)
		return func(b book) error {
			_, err := b.Add(context.Background(), earning.Batch{Lines: []earning.Line{line}})
			return err
		}
	}
}

func TestItsExportIsThatOfPostgreSQL(t *testing.T) {
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	real, memory := store.New(pool), settlesim.NewDatabase()
	for seed := range uint64(3) {
		l := newLines(t, seed)
		for range 80 {
			do := l.operation()
			for _, b := range []book{real, memory} {
				if err := do(b); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var text bytes.Buffer
	if err := memory.Export(&text); err != nil {
		t.Fatal(err)
	}
	tables := parse(t, text.String())
	for _, table := range []string{"earning_line", "earning_correction", "earning_ruling"} {
		got, columns := tables[table], map[string]bool{}
		for _, row := range got {
			for column := range row {
				columns[column] = true
			}
		}
		if len(got) == 0 {
			t.Errorf("%s: got no row to compare: got 0, want at least 1", table)
		}
		want := rows(t, pgtest.Owner(t, pool), table)
		if g, w := printed(t, got, columns), printed(t, want, columns); g != w {
			t.Errorf("%s: got\n%s, want as in PostgreSQL\n%s", table, g, w)
		}
	}
}

// rows reads a table as JSON.
func rows(t *testing.T, pool *pgxpool.Pool, table string) (all []map[string]any) {
	t.Helper()
	found, err := pool.Query(t.Context(), `SELECT row_to_json(t)::text FROM `+pgx.Identifier{table}.Sanitize()+` t`)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		var row map[string]any
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	return all
}

// parse reads an export by table.
func parse(t *testing.T, text string) map[string][]map[string]any {
	t.Helper()
	tables := map[string][]map[string]any{}
	for line := range strings.Lines(text) {
		var of struct {
			Table string         `json:"table"`
			Row   map[string]any `json:"row"`
		}
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatal(err)
		}
		tables[of.Table] = append(tables[of.Table], of.Row)
	}
	return tables
}

// printed are the rows in one order, by the columns that are compared.
func printed(t *testing.T, all []map[string]any, columns map[string]bool) string {
	t.Helper()
	texts := make([]string, 0, len(all))
	for _, row := range all {
		var text strings.Builder
		for _, column := range slices.Sorted(maps.Keys(columns)) {
			value, ok := row[column]
			if !ok && row["settled"] != false { // a ruling that nothing is settled has no line
				t.Fatalf("there is no column %s", column)
			}
			fmt.Fprintf(&text, "%s=%v ", column, value)
		}
		texts = append(texts, text.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}
