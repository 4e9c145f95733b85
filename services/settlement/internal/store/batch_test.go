package store_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/merkle"
	"svc.internal/services/settlement/internal/store"
)

var firstDay = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// closing is a database, books, and a closer.
type closing struct {
	pool, owner *pgxpool.Pool
	books       *books
	store       store.Batches
	clock       *clock.Manual
	closer      *batch.Closer
}

func newClosing(t *testing.T) *closing {
	t.Helper()
	c := &closing{pool: pgtest.Pool(t, store.Schema, store.Role, store.Migrations), books: newBooks(firstDay),
		clock: clock.NewManual(firstDay)}
	c.owner = pgtest.Owner(t, c.pool)
	c.store = store.Batches{Store: store.New(c.pool)}
	c.closer = c.worker(c.store, c.books)
	return c
}

func (c *closing) worker(st batch.Store, ledger batch.Ledger) *batch.Closer {
	return &batch.Closer{Store: st, Ledger: ledger, Payees: batch.NoPayees{}, Clock: c.clock,
		Log: slog.New(slog.DiscardHandler)}
}

func newProvider(t *testing.T) ids.ProviderID {
	t.Helper()
	id, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// request is a request that is made at a time.
func request(t *testing.T, at time.Time) ids.RequestID {
	t.Helper()
	id, err := ids.NewRequest(at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// earn records a request of today in both places.
func (c *closing) earn(t *testing.T, kind batch.Kind, p ids.ProviderID, amount money.NanoUSD, held bool) ids.RequestID {
	t.Helper()
	r := request(t, c.books.today)
	ownLine(t, c.pool, r, p, amount, "hub")
	c.books.earn(kind, p, r, amount, held)
	return r
}

// pass closes what can be closed, and posts.
func (c *closing) pass(t *testing.T) batch.Outcome {
	t.Helper()
	c.clock.Advance(time.Hour)
	outcome, err := c.closer.Pass(t.Context(), func(time.Time) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.closer.Post(t.Context()); err != nil {
		t.Fatal(err)
	}
	return outcome
}

// share is a share as it stands.
type share struct {
	Chain                 int64
	Earned, Given, Amount money.NanoUSD
	Posted                *int64
	Blocked               bool
}

func (c *closing) share(t *testing.T, day time.Time, p ids.ProviderID) (s share) {
	t.Helper()
	err := c.pool.QueryRow(t.Context(), `SELECT chain_id, earned, given, amount, posted, blocked FROM batch_share
		WHERE day = $1 AND provider_id = $2`, day, p).Scan(&s.Chain, &s.Earned, &s.Given, &s.Amount, &s.Posted, &s.Blocked)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return s
}

// age makes every attempt older, so that a smaller one may follow.
func (c *closing) age(t *testing.T) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), c.owner, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `UPDATE batch_attempt SET at = at - interval '2 minutes'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestADayIsBatchedWithWhatWasEarnedAndIsFree(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p, other := newProvider(t), newProvider(t)
	c.earn(t, batch.Payg, p, 100, false)
	c.earn(t, batch.Orphan, p, 20, false)
	held := c.earn(t, batch.Payg, p, 7, true)
	c.earn(t, batch.Plan, p, 1000, false)
	c.earn(t, batch.Payg, other, 5, false)
	if err := (store.SettlementChains{Store: c.store.Store}).SetSettlementChain(t.Context(), other, chain.SVC,
		"provider"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.owner.Exec(t.Context(), `SET session_replication_role = replica;
		UPDATE settlement_chain_change SET since = '2026-03-01 23:59:59Z'`); err != nil {
		t.Fatal(err)
	}
	c.books.midnight()
	c.pass(t)
	if got := c.share(t, firstDay, p); got.Amount != 120 {
		t.Errorf("first day: got %+v, want the amount 120", got)
	} else if got.Posted == nil {
		t.Errorf("first day: got %+v, want it posted", got)
	} else if *got.Posted != 120 {
		t.Errorf("first day: got %d posted, want 120", *got.Posted)
	} else if got.Chain != 8453 {
		t.Errorf("first day: got chain %d, want 8453", got.Chain)
	}
	if got := c.share(t, firstDay, other); got.Amount != 5 {
		t.Errorf("other provider: got %+v, want the amount 5", got)
	} else if got.Chain != 254 {
		t.Errorf("other provider: got chain %d, want 254", got.Chain)
	}
	c.books.end(held, batch.Released)
	c.books.midnight()
	c.pass(t)
	if got := c.share(t, firstDay.AddDate(0, 0, 1), p); got.Amount != 7 {
		t.Errorf("second day: got %+v, want the 7 that were released", got)
	}
	c.books.midnight()
	c.pass(t)
	var batches int
	if err := c.pool.QueryRow(t.Context(), `SELECT count(*) FROM batch WHERE shares = 0 AND total = 0
		AND root = decode(repeat('00', 32), 'hex') AND day = '2026-03-03' AND chain_id IN (1, 254)`).
		Scan(&batches); err != nil {
		t.Fatal(err)
	}
	if batches != 2 {
		t.Errorf("chains without shares: got %d empty batches, want 2", batches)
	}
	c.audit(t)
}

// In TestAnAttemptThatAnotherProcessHasMadeIsNoFault two processes find the same share.
func TestAnAttemptThatAnotherProcessHasMadeIsNoFault(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p := newProvider(t)
	c.earn(t, batch.Payg, p, 100, false)
	c.books.midnight()
	c.clock.Advance(time.Hour)
	if _, err := c.closer.Pass(t.Context(), func(time.Time) error { return nil }); err != nil {
		t.Fatal(err)
	}
	found, err := c.store.Unposted(t.Context(), batch.SharePlace{}, 10)
	if err != nil {
		t.Fatal(err)
	} else if len(found) != 1 {
		t.Fatalf("got %d shares, want 1", len(found))
	}
	if err := c.store.Attempt(t.Context(), found[0], batch.Attempt{Number: 1, Amount: 100}); err != nil {
		t.Fatal(err)
	}
	posted, err := c.worker(late{c.store, found}, c.books).Post(t.Context())
	if err != nil {
		t.Errorf("the other process: got %v, want no error", err)
	} else if posted != 0 {
		t.Errorf("the other process: got %d posted, want 0", posted)
	}
	if _, err := c.closer.Post(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.share(t, firstDay, p); got.Posted == nil {
		t.Errorf("the next pass: got %+v, want it posted", got)
	} else if *got.Posted != 100 {
		t.Errorf("the next pass: got %d posted, want 100", *got.Posted)
	}
	c.audit(t)
}

// late is the store of a process that listed the shares before other processes acted.
type late struct {
	store.Batches

	found []batch.Unposted
}

func (l late) Unposted(context.Context, batch.SharePlace, int) ([]batch.Unposted, error) {
	return l.found, nil
}

func TestWhatTheBooksHaveNoMoreIsCarried(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p := newProvider(t)
	r := c.earn(t, batch.Payg, p, 100, false)
	c.books.midnight()
	c.books.refund(p, r, 30)
	c.pass(t)
	if got := c.share(t, firstDay, p); got.Amount != 100 {
		t.Errorf("after a refund at night: got %+v, want the amount 100", got)
	} else if got.Posted == nil {
		t.Errorf("after a refund at night: got %+v, want it posted", got)
	} else if *got.Posted != 70 {
		t.Errorf("after a refund at night: got %d posted, want 70", *got.Posted)
	}
	c.earn(t, batch.Payg, p, 11, false)
	c.books.midnight()
	c.pass(t)
	if got := c.share(t, firstDay.AddDate(0, 0, 1), p); got.Amount != 11 {
		t.Errorf("next day: got %+v, want 11", got)
	}
	c.audit(t)
}

func TestAProviderWhoseLinesDifferIsBlockedUntilTheyAreMended(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p, honest := newProvider(t), newProvider(t)
	missing := request(t, c.books.today)
	c.books.earn(batch.Payg, p, missing, 100, false)
	c.earn(t, batch.Payg, honest, 3, false)
	c.books.midnight()
	c.closer.Patience = time.Hour
	if got := c.pass(t); got != batch.LinesMissing {
		t.Errorf("at first: got %s, want that the day waits", got)
	}
	c.closer.Patience = 0
	c.pass(t)
	if got := c.share(t, firstDay, p); !got.Blocked {
		t.Errorf("a line that never came: got %+v, want no amount", got)
	} else if got.Amount != 0 {
		t.Errorf("a line that never came: got %+v, want 100 earned", got)
	} else if got.Earned != 100 {
		t.Errorf("a line that never came: got %+v, want blocked", got)
	}
	if got := c.share(t, firstDay, honest); got.Amount != 3 {
		t.Errorf("another provider: got %+v, want 3", got)
	}
	c.earn(t, batch.Payg, p, 10, false)
	c.books.midnight()
	c.pass(t)
	if got := c.share(t, firstDay.AddDate(0, 0, 1), p); !got.Blocked {
		t.Errorf("still missing: got %+v, want blocked", got)
	} else if got.Earned != 110 {
		t.Errorf("still missing: got %+v, want 110 earned", got)
	}
	ownLine(t, c.pool, missing, p, 100, "hub")
	c.books.midnight()
	c.pass(t)
	if got := c.share(t, firstDay.AddDate(0, 0, 2), p); got.Blocked {
		t.Errorf("mended: got %+v, want it not blocked", got)
	} else if got.Amount != 110 {
		t.Errorf("mended: got %+v, want 110", got)
	}
	c.audit(t)
}

// behind is how many days up to yesterday are not batched.
func (c *closing) behind(t *testing.T) int64 {
	t.Helper()
	b, err := c.store.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b.Behind
}

// Days count as behind before there is any batch, because the first one may be what never comes.
func TestDaysAreBehindFromTheFirstOneWithALineOn(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	if got := c.behind(t); got != 0 {
		t.Errorf("without a line: got %d days behind, want 0", got)
	}
	today := time.Now().UTC().Truncate(24 * time.Hour) // of the database
	c.books = newBooks(today.AddDate(0, 0, -2))
	c.closer = c.worker(c.store, c.books)
	c.earn(t, batch.Payg, newProvider(t), 1, false)
	if got := c.behind(t); got != 2 {
		t.Errorf("without a batch: got %d days behind, want the day before yesterday and yesterday", got)
	}
	c.books.midnight()
	if got := c.pass(t); got != batch.Committed {
		t.Fatalf("the first day: got %s, want committed", got)
	}
	if got := c.behind(t); got != 1 {
		t.Errorf("after the first batch: got %d days behind, want yesterday", got)
	}
}

func TestADayOfFilledLinesWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p := newProvider(t)
	for i := range 100 {
		r := request(t, c.books.today)
		source := "hub"
		if i < 2 {
			source = "ledger"
		}
		ownLine(t, c.pool, r, p, 1, source)
		c.books.earn(batch.Payg, p, r, 1, false)
	}
	c.books.midnight()
	if got := c.pass(t); got != batch.TooManyFilled {
		t.Fatalf("2%% filled: got %s, want that the day waits", got)
	}
	if err := c.store.Allow(t.Context(), firstDay, "looked at"); err != nil {
		t.Fatal(err)
	}
	if got := c.pass(t); got != batch.Committed {
		t.Errorf("let go: got %s, want committed", got)
	}
	var filled int
	if err := c.pool.QueryRow(t.Context(), `SELECT filled FROM batch_day`).Scan(&filled); err != nil {
		t.Fatal(err)
	}
	if filled != 2 {
		t.Errorf("filled: got %d, want 2", filled)
	}
}

// audit recomputes each statement from its own text, and holds the books against the shares.
func (c *closing) audit(t *testing.T) {
	t.Helper()
	rows, err := c.pool.Query(t.Context(), `SELECT s.statement, s.csv, b.root FROM batch_share s
		JOIN batch b USING (day, chain_id)`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text, csv, root []byte
		if err := rows.Scan(&text, &csv, &root); err != nil {
			t.Fatal(err)
		}
		checkStatement(t, text, csv, merkle.Hash(root))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	report, err := c.store.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		for _, example := range i.Examples {
			t.Errorf("drift: %s: %s", i.Name, example)
		}
	}
	for at, has := range c.books.has {
		if at.kind != batch.Receivable && has < 0 {
			t.Errorf("%s of %s: got %s, want none below zero", at.kind, at.provider, has)
		}
	}
}

func checkStatement(t *testing.T, text, csv []byte, root merkle.Hash) {
	t.Helper()
	var s struct {
		Root  string   `json:"root"`
		CSV   string   `json:"csv_sha256"`
		Proof []string `json:"proof"`
		Leaf  struct {
			Index       uint64        `json:"index,string"`
			Beneficiary string        `json:"beneficiary"`
			Amount      money.NanoUSD `json:"amount_nano_usd,string"`
		} `json:"leaf"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	leaf := merkle.Leaf{Index: s.Leaf.Index, Amount: s.Leaf.Amount}
	if a, err := hex.DecodeString(strings.TrimPrefix(s.Leaf.Beneficiary, "0x")); err == nil {
		leaf.Beneficiary = merkle.Address(a)
	}
	proof := make([]merkle.Hash, len(s.Proof))
	for i, p := range s.Proof {
		h, err := chain.ParseHash(p)
		if err != nil {
			t.Fatal(err)
		}
		proof[i] = merkle.Hash(h)
	}
	if s.Root != root.String() {
		t.Errorf("statement %s: got the root %s, want %s", text, s.Root, root)
	} else if !merkle.Verify(root, leaf, proof) {
		t.Errorf("statement %s: its leaf is not in the root %s", text, root)
	}
	if s.CSV != hex.EncodeToString(csv) {
		t.Errorf("statement %s: its CSV is not %x", text, csv)
	}
}

// flaky loses calls: they do not happen, or nobody hears of them, as when the process is killed.
type flaky struct {
	batch.Store
	*books
	rng  *mathrand.Rand
	rate float64
}

var errKilled = errors.New("killed")

func (f *flaky) fate(call func() error) error {
	switch x := f.rng.Float64(); {
	case x < f.rate:
		return errKilled
	case x < 2*f.rate:
		_ = call() // nobody hears
		return errKilled
	}
	return call()
}

func (f *flaky) Collect(ctx context.Context, day time.Time, each func(batch.Page) (batch.Seal, error)) error {
	return f.fate(func() error { return f.Store.Collect(ctx, day, each) })
}

func (f *flaky) Commit(ctx context.Context, day time.Time, fi batch.Findings,
	assemble func(batch.Seal, []batch.Participant) ([]batch.Batch, error)) error {
	return f.fate(func() error { return f.Store.Commit(ctx, day, fi, assemble) })
}

func (f *flaky) Attempt(ctx context.Context, u batch.Unposted, a batch.Attempt) error {
	return f.fate(func() error { return f.Store.Attempt(ctx, u, a) })
}

func (f *flaky) SetPosted(ctx context.Context, u batch.Unposted, amount money.NanoUSD, entry ids.EntryID) error {
	return f.fate(func() error { return f.Store.SetPosted(ctx, u, amount, entry) })
}

func (f *flaky) Post(ctx context.Context, p batch.Posting) (id ids.EntryID, err error) {
	err = f.fate(func() error {
		id, err = f.books.Post(ctx, p)
		return err
	})
	return id, err
}

// idle counts the days that a closer begins to collect.
type idle struct {
	batch.Store
	begun int
}

func (i *idle) Collect(ctx context.Context, day time.Time, each func(batch.Page) (batch.Seal, error)) error {
	i.begun++
	return i.Store.Collect(ctx, day, each)
}

// A closer looks every 30 s, and a day is sealed once a day.
func TestADayThatIsOpenCostsNoTransactionAndNoPartition(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	c.earn(t, batch.Payg, newProvider(t), 100, false)
	counting := &idle{Store: c.store}
	c.closer = c.worker(counting, c.books)
	c.pass(t)
	if counting.begun != 0 {
		t.Errorf("days begun while the ledger's day is open: got %d, want 0", counting.begun)
	}
	if err := c.store.Collect(t.Context(), firstDay, func(page batch.Page) (batch.Seal, error) {
		return batch.Seal{}, page.AddLines(t.Context(), nil)
	}); err != nil {
		t.Fatal(err)
	}
	var partition *string
	if err := c.pool.QueryRow(t.Context(), `SELECT to_regclass('batch_line_202603')::text`).Scan(&partition); err != nil {
		t.Fatal(err)
	}
	if partition != nil {
		t.Errorf("partition of a day without lines: got %s, want none", *partition)
	}
}
