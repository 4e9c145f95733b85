package store_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/quote"
	"svc.internal/services/settlement/internal/revalue"
	"svc.internal/services/settlement/internal/store"
)

// coinBooks are books with the ledger's rules: a coin is revalued once a day, by what they have.
type coinBooks struct {
	mu      sync.Mutex
	has     revalue.Holding
	entries []revalue.Revaluation
	// read is called between a look at the books and a posting.
	read func()
	// lost makes what follows the next posting fail.
	lost, dead bool
}

var errDead = errors.New("the process has died")

func (b *coinBooks) Holdings(context.Context) ([]revalue.Holding, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return nil, errDead
	}
	return []revalue.Holding{{Token: "8453:usdc", Units: 5, Booked: 5_000}, b.has}, nil
}

func (b *coinBooks) Revalue(_ context.Context, r revalue.Revaluation) error {
	if b.read != nil {
		b.read()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.has.Last != nil && b.has.Last.Day.Equal(r.Day) {
		return nil
	}
	if r.Units != b.has.Units || r.Booked != b.has.Booked {
		return revalue.ErrMoved
	}
	r.Entry = ids.EntryID{6: 0x70, 8: 0x80, 15: byte(len(b.entries) + 1)}
	b.entries = append(b.entries, r)
	b.has.Booked, b.has.Last = r.Worth, &r
	b.dead, b.lost = b.lost, false
	return nil
}

// move has coins come in, or go out, at a value.
func (b *coinBooks) move(units int64, worth money.NanoUSD) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.has.Units, b.has.Booked = b.has.Units+units, b.has.Booked+worth
}

// says is a source of prices.
type says struct {
	name string
	rate money.NanoUSD
}

func (s *says) Name() string { return s.name }

func (s *says) Rate(context.Context) (money.NanoUSD, error) { return s.rate, nil }

// coinDay is a day on which the books have three coins that came at $2.
type coinDay struct {
	t           *testing.T
	pool, owner *pgxpool.Pool
	store       store.Revaluations
	books       *coinBooks
	a, b        *says
	keeper      *quote.Keeper
}

func newCoinDay(t *testing.T) *coinDay {
	t.Helper()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	d := &coinDay{t: t, pool: pool, owner: pgtest.Owner(t, pool), store: store.Revaluations{Store: store.New(pool)},
		books: &coinBooks{has: revalue.Holding{Token: "254:native", Units: 3_000_000_000, Booked: 6 * money.USD}},
		a:     &says{"a", 2 * money.USD}, b: &says{"b", 2 * money.USD}}
	d.keeper = quote.NewKeeper(store.Quotes{Store: d.store.Store},
		map[string][]quote.Source{"254:native": {d.a, d.b}}, nil)
	return d
}

// process is one that may value coins.
func (d *coinDay) process() *revalue.Revaluer {
	return &revalue.Revaluer{Chains: []chain.ID{chain.SVC}, Store: d.store, Books: d.books, Quotes: d.keeper,
		Log: slog.New(slog.DiscardHandler)}
}

// pass makes a pass of a process at a rate, and returns for how many days the coin has not been valued.
func (d *coinDay) pass(rate money.NanoUSD) int {
	d.t.Helper()
	d.a.rate, d.b.rate = rate, rate
	if err := d.keeper.Fetch(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	behind, err := d.process().Pass(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return behind[chain.SVC]
}

// wantKept checks what is kept of today, and that verify finds nothing wrong.
func (d *coinDay) wantKept(worth money.NanoUSD, entries int) {
	d.t.Helper()
	var kept money.NanoUSD
	var posted bool
	if err := d.pool.QueryRow(d.t.Context(), `SELECT worth, entry_id IS NOT NULL FROM revaluation
		WHERE day = (now() AT TIME ZONE 'UTC')::date`).Scan(&kept, &posted); err != nil {
		d.t.Fatal(err)
	}
	if kept != worth {
		d.t.Errorf("kept: got %s, want %s", kept, worth)
	}
	if posted != (entries > 0) {
		d.t.Errorf("kept with an entry: got %v, want %v", posted, entries > 0)
	}
	if got := len(d.books.entries); got != entries {
		d.t.Errorf("entries: got %d, want %d", got, entries)
	}
	report, err := d.store.Audit(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	if report.Drift != 0 {
		d.t.Errorf("verify: got %+v, want no drift", report.Invariants)
	}
}

func TestACoinIsValuedOnceADayAtTheDaysRate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rate, worth money.NanoUSD
		entries     int
	}{
		"up":        {2_200_000_001, 6_600_000_003, 1},
		"down":      {1_700_000_000, 5_100_000_000, 1},
		"unchanged": {2 * money.USD, 6 * money.USD, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newCoinDay(t)
			for _, rate := range []money.NanoUSD{tc.rate, tc.rate, tc.rate + money.USD/100} {
				if got := d.pass(rate); got != 0 {
					t.Errorf("days behind: got %d, want 0", got)
				}
			}
			d.wantKept(tc.worth, tc.entries)
		})
	}
}

// A price needs two sources that agree. Without one nothing is guessed: the coin waits.
func TestACoinWithoutAPriceWaits(t *testing.T) {
	t.Parallel()
	d := newCoinDay(t)
	d.a.rate, d.b.rate = 2_100_000_000, 2_200_000_000 // one of them lies, by 4.8 %
	if err := d.keeper.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	behind, err := d.process().Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := behind[chain.SVC]; got != 1 {
		t.Errorf("days behind: got %d, want 1", got)
	}
	if got := len(d.books.entries); got != 0 {
		t.Errorf("entries at a lie: got %d, want none", got)
	}
	if got := d.pass(2_150_000_000); got != 0 {
		t.Errorf("days behind once they agree: got %d, want 0", got)
	}
	d.wantKept(6_450_000_000, 1)
}

func TestWhatComesAndGoesMeanwhileIsValuedByTheNextPass(t *testing.T) {
	t.Parallel()
	d := newCoinDay(t)
	for _, move := range []struct {
		units int64
		worth money.NanoUSD
	}{{1_000_000_000, 3 * money.USD}, {-2_000_000_000, -5 * money.USD}} {
		d.books.read = func() { d.books.move(move.units, move.worth) }
		if got := d.pass(2_200_000_000); got != 1 {
			t.Errorf("days behind after a move: got %d, want 1", got)
		}
	}
	d.books.read = nil
	if got := d.pass(2_200_000_000); got != 0 {
		t.Errorf("days behind: got %d, want 0", got)
	}
	d.wantKept(4_400_000_000, 1)
	// What comes after that is of its own rate until tomorrow.
	d.books.move(1_000_000_000, 9*money.USD)
	if got := d.pass(2_100_000_000); got != 0 {
		t.Errorf("days behind afterwards: got %d, want 0", got)
	}
	d.wantKept(4_400_000_000, 1)
}

func TestAProcessThatDiesBehindThePostingIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	d := newCoinDay(t)
	d.books.lost = true
	d.a.rate, d.b.rate = 2_300_000_000, 2_300_000_000
	if err := d.keeper.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.process().Pass(t.Context()); !errors.Is(err, errDead) {
		t.Fatalf("got the error %v, want %v", err, errDead)
	}
	d.books.dead = false
	// The rate is another one now, and the entry stands.
	if got := d.pass(1_900_000_000); got != 0 {
		t.Errorf("days behind: got %d, want 0", got)
	}
	d.wantKept(6_900_000_000, 1)
}

// What was posted of a day that is over is kept when a process comes back.
func TestAPostingOfYesterdayIsKeptAndTodayValued(t *testing.T) {
	t.Parallel()
	d := newCoinDay(t)
	yesterday := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	d.books.has.Last = &revalue.Revaluation{Day: yesterday, Token: "254:native", Units: 3_000_000_000,
		Booked: 5 * money.USD, Worth: 6 * money.USD, Entry: ids.EntryID{15: 9},
		Quote: chain.Quote{Rate: 2 * money.USD, Source: "a+b", At: yesterday}}
	if got := d.pass(2_100_000_000); got != 0 {
		t.Errorf("days behind: got %d, want 0", got)
	}
	d.wantKept(6_300_000_000, 1)
	var days int
	if err := d.pool.QueryRow(t.Context(), `SELECT count(*) FROM revaluation`).Scan(&days); err != nil {
		t.Fatal(err)
	}
	if days != 2 {
		t.Errorf("days that are kept: got %d, want 2", days)
	}
}

func TestTwoProcessesAtOnceValueACoinOnce(t *testing.T) {
	t.Parallel()
	d := newCoinDay(t)
	d.a.rate, d.b.rate = 2_300_000_000, 2_300_000_000
	if err := d.keeper.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if _, err := d.process().Pass(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.wantKept(6_900_000_000, 1)
}

func TestTheDatabaseKeepsWhatCoinsWereWorth(t *testing.T) {
	t.Parallel()
	d := newCoinDay(t)
	if got := d.pass(2_100_000_000); got != 0 {
		t.Fatalf("days behind: got %d, want 0", got)
	}
	insert := func(values string) string {
		return `INSERT INTO revaluation (day, token, units, booked, worth, rate, source, quoted_at, entry_id)
			VALUES (` + values + `)`
	}
	const entry, today = `gen_random_uuid()`, `(now() AT TIME ZONE 'UTC')::date`
	for _, tc := range []struct{ says, sql string }{
		{"stands", `UPDATE revaluation SET worth = worth`},
		{"revaluation_pkey", insert(today + `, '254:native', 0, 0, 0, 1, 'x', now(), NULL`)},
		{"revaluation_worth", insert(today + `, '1:eth', 1000000000, 0, 6, 5, 'x', now(), ` + entry)},
		{"revaluation_posted", insert(today + `, '1:eth', 1000000000, 0, 5, 5, 'x', now(), NULL`)},
		{"revaluation_posted", insert(today + `, '1:eth', 1000000000, 5, 5, 5, 'x', now(), ` + entry)},
		{"revaluation_of_coin", insert(today + `, '1:usdc', 1000000000, 0, 5, 5, 'x', now(), ` + entry)},
		{"revaluation_of_past", insert(today + ` + 1, '1:eth', 1000000000, 0, 5, 5, 'x', now(), ` + entry)},
		{"revaluation_rate_check", insert(today + `, '1:eth', 0, 5, 0, 0, 'x', now(), ` + entry)},
		{"source_check", insert(today + `, '1:eth', 0, 5, 0, 1, '', now(), ` + entry)},
		{"entry_id_key", insert(today +
			`, '1:eth', 0, 5, 0, 1, 'x', now(), (SELECT entry_id FROM revaluation LIMIT 1)`)},
		{"permission denied", `DELETE FROM revaluation`},
		{"permission denied", `UPDATE revaluation SET day = day - 1`},
	} {
		if _, err := d.pool.Exec(t.Context(), tc.sql); !refused(err, tc.says) {
			t.Errorf("%s: got the error %v, want %s", tc.sql, err, tc.says)
		}
	}
}
