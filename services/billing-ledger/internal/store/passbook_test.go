package store_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/passbook"
	"svc.internal/services/billing-ledger/internal/usage"
)

// serve admits and settles a request of so many tokens.
func (e *env) serve(t testing.TB, r hold.Reservation, tokens int64) {
	t.Helper()
	e.admitOne(t, r, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, r, tokens))
}

func TestLinesAreWhatMovedTheWalletAndItsBalance(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	e := setup(t, unlimited)
	var all []consumer
	for range 3 {
		all = append(all, e.consumer(t, money.USD))
	}
	for range 60 {
		c := all[random.IntN(len(all))]
		switch random.IntN(5) {
		case 0:
			if _, _, err := e.accounts.Grant(t.Context(), c.account, money.NanoUSD(1+random.Int64N(int64(usd))),
				request(t).String(), "test"); err != nil {
				t.Fatal(err)
			}
		case 1:
			e.serve(t, e.free(t, c), 3)
		case 2:
			e.foldBy(t, 1+random.IntN(3))
		default:
			r := e.reservation(t, c, 1)
			if random.IntN(2) == 0 {
				r.Model = "acme/small"
			}
			e.serve(t, r, random.Int64N(2))
		}
	}
	e.fold(t)
	for _, c := range all {
		e.checkLines(t, c)
	}
	e.sound(t)
}

// checkLines compares the lines of an account with the wallet and with what was recorded.
func (e *env) checkLines(t *testing.T, c consumer) {
	t.Helper()
	lines := e.lines(t, c.account, passbook.Filter{Period: always}, 7)
	posted, _ := e.wallet(t, c)
	balance := posted
	seen := map[string]bool{}
	for i, l := range lines {
		if l.Balance != balance {
			t.Fatalf("line %d (%s): got the balance %v, want %v", i, l.Kind, l.Balance, balance)
		}
		if seen[l.ID()] {
			t.Fatalf("line %d: got %s twice", i, l.ID())
		}
		seen[l.ID()] = true
		balance -= l.Amount
	}
	if balance != 0 {
		t.Errorf("before the first line: got the balance %v, want 0", balance)
	}
	want := scan[int](t, e, `SELECT (SELECT count(*) FROM usage_settlement WHERE account_id = $1 AND charged > 0)
		+ (SELECT count(*) FROM posting WHERE owner_id = $1 AND account_kind = 'l:consumer:available')`,
		[16]byte(c.account))
	if len(lines) != want {
		t.Errorf("lines: got %d, want %d", len(lines), want)
	}
}

func TestSumsOfUsageAreTheSumsOfItsRequests(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	second := e.issue(t, c.account, key.IssueRequest{Name: "second"})
	e.serve(t, e.reservation(t, c, 3), 3)
	e.foldBy(t, 1)
	e.serve(t, e.reservation(t, c, 2), 2)
	e.serve(t, e.reservation(t, second, 4), 4)
	e.serve(t, e.free(t, second), 5)
	e.fold(t)

	period, err := passbook.DaysOf("", "", time.Now().Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	f := passbook.UsageFilter{Period: period}
	for by, want := range map[passbook.Group]map[string]passbook.Counts{
		passbook.ByKey: {
			c.key.String():      {Requests: 2, Completion: 5, Charged: 5 * cent},
			second.key.String(): {Requests: 2, Completion: 9, Charged: 4 * cent},
		},
		passbook.ByModel: {
			"acme/large": {Requests: 3, Completion: 9, Charged: 9 * cent},
			"acme/free":  {Requests: 1, Completion: 5},
		},
	} {
		sums, total, more, err := e.passbook().Sums(t.Context(), c.account, f, by)
		if err != nil {
			t.Fatal(err)
		}
		if more {
			t.Errorf("by %s: got more groups, want all", by)
		}
		if total.Requests != 4 {
			t.Errorf("by %s: got %d requests in all, want 4", by, total.Requests)
		}
		if len(sums) != len(want) {
			t.Errorf("by %s: got %d groups, want %d", by, len(sums), len(want))
		}
		for _, s := range sums {
			if s.Counts != want[s.Of] {
				t.Errorf("by %s, %s: got %+v, want %+v", by, s.Of, s.Counts, want[s.Of])
			}
		}
	}
	sums, _, _, err := e.passbook().Sums(t.Context(), c.account, passbook.UsageFilter{Period: period, Key: second.key},
		passbook.ByKey)
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) != 1 || sums[0].Name != "second" {
		t.Errorf("one key: got %+v, want the key named second alone", sums)
	}
	e.sound(t)
}

func TestRequestsAreListedByKeyAndModel(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	second := e.issue(t, c.account, key.IssueRequest{Name: "second"})
	want := map[ids.RequestID]bool{}
	for range 5 {
		e.serve(t, e.free(t, c), 1)
		r := e.reservation(t, second, 1)
		want[r.Request] = true
		e.serve(t, r, 1)
	}
	e.fold(t)
	for name, f := range map[string]passbook.UsageFilter{
		"by key":   {Period: always, Key: second.key},
		"by model": {Period: always, Model: "acme/large"},
	} {
		got := e.servedPages(t, c.account, f, 2)
		if len(got) != len(want) {
			t.Errorf("%s: got %d requests, want %d", name, len(got), len(want))
		}
		for _, r := range got {
			if !want[r.Request] {
				t.Errorf("%s: got request %s, want none of another key and model", name, r.Request)
			}
		}
	}
	if got := e.servedPages(t, c.account, passbook.UsageFilter{Period: always}, 3); len(got) != 10 {
		t.Errorf("all: got %d requests, want 10", len(got))
	}
	if got := e.servedPages(t, c.account, passbook.UsageFilter{Period: always, Model: "none"}, 3); len(got) != 0 {
		t.Errorf("of a model that was not used: got %d requests, want 0", len(got))
	}
}

func TestPagesUnderConcurrentWritesNeitherSkipNorRepeat(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	for range 20 {
		e.serve(t, e.reservation(t, c, 1), 1)
	}
	e.fold(t)
	before := e.lines(t, c.account, passbook.Filter{Period: always}, 100)
	var paged []passbook.Line
	w := passbook.Walk{Limit: 3}
	for {
		page, err := e.passbook().Lines(t.Context(), c.account, passbook.Filter{Period: always}, w)
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, page...)
		if len(page) < w.Limit {
			break
		}
		w.Behind = &page[len(page)-1].Place
		e.serve(t, e.reservation(t, c, 1), 1)
		e.fold(t)
	}
	if !slices.Equal(paged, before) {
		t.Errorf("newest first: got %d lines, want the %d of before", len(paged), len(before))
	}

	// Oldest first the pages reach what was written meanwhile.
	var grown []passbook.Line
	w = passbook.Walk{Limit: 3, OldestFirst: true}
	for more := 10; ; {
		page, err := e.passbook().Lines(t.Context(), c.account, passbook.Filter{Period: always}, w)
		if err != nil {
			t.Fatal(err)
		}
		grown = append(grown, page...)
		if len(page) < w.Limit {
			break
		}
		w.Behind = &page[len(page)-1].Place
		if more--; more >= 0 {
			e.serve(t, e.reservation(t, c, 1), 1)
			e.fold(t)
		}
	}
	slices.Reverse(grown)
	if all := e.lines(t, c.account, passbook.Filter{Period: always}, 100); !slices.Equal(grown, all) {
		t.Errorf("oldest first: got %d lines, want all %d", len(grown), len(all))
	}
}

func TestLinesAreFilteredByKindAndTime(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.serve(t, e.reservation(t, c, 1), 1)
	e.past(t, 48*time.Hour)
	e.serve(t, e.reservation(t, c, 2), 2)
	e.fold(t)
	now := time.Now().UTC()
	for name, tc := range map[string]struct {
		f    passbook.Filter
		want int
	}{
		"all":             {passbook.Filter{Period: always}, 3},
		"usage":           {passbook.Filter{Period: always, Kind: passbook.Usage}, 2},
		"grants":          {passbook.Filter{Period: always, Kind: ledger.GoodwillGrant}, 1},
		"a kind without":  {passbook.Filter{Period: always, Kind: ledger.CardTopUpPaid}, 0},
		"the last day":    {passbook.Filter{Period: passbook.Period{From: now.Add(-24 * time.Hour), To: always.To}}, 1},
		"before that day": {passbook.Filter{Period: passbook.Period{From: always.From, To: now.Add(-24 * time.Hour)}}, 2},
	} {
		if got := e.lines(t, c.account, tc.f, 2); len(got) != tc.want {
			t.Errorf("%s: got %d lines, want %d", name, len(got), tc.want)
		}
	}
}

func TestADayOfUsageIsADayOfUTC(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	first, second := e.reservation(t, c, 1), e.reservation(t, c, 2)
	e.serve(t, first, 1)
	e.serve(t, second, 2)
	// New York changes its clocks between these two moments.
	e.exec(t, `UPDATE entry SET at = '2026-03-01'`)
	e.exec(t, `UPDATE usage_settlement SET settled_at = '2026-03-07 23:59:59.999999Z' WHERE request_id = $1`,
		[16]byte(first.Request))
	e.exec(t, `UPDATE usage_settlement SET settled_at = '2026-03-08 00:00:00Z' WHERE request_id = $1`,
		[16]byte(second.Request))
	e.exec(t, `UPDATE passbook_fold SET begun_at = '2026-03-01', until_at = '2026-03-01', invoice_month = '2026-03-01'`)
	e.exec(t, `ALTER ROLE CURRENT_USER IN DATABASE `+
		pgx.Identifier{scan[string](t, e, `SELECT current_database()`)}.Sanitize()+` SET TimeZone = 'America/New_York'`)
	e.pool.Reset()
	e.foldUpTo(t, time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), 100)
	for d, want := range map[string]int64{"2026-03-06": 0, "2026-03-07": 1, "2026-03-08": 2, "2026-03-09": 0} {
		period, err := passbook.DaysOf(d, d, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		_, total, _, err := e.passbook().Sums(t.Context(), c.account, passbook.UsageFilter{Period: period}, passbook.ByDay)
		if err != nil {
			t.Fatal(err)
		}
		if total.Completion != want {
			t.Errorf("%s: got %d tokens, want %d", d, total.Completion, want)
		}
		listed, err := e.passbook().Served(t.Context(), c.account, passbook.UsageFilter{Period: period},
			passbook.Walk{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var tokens int64
		for _, r := range listed {
			tokens += r.Completion
		}
		if tokens != want {
			t.Errorf("%s: got requests of %d tokens, want %d", d, tokens, want)
		}
	}
}

func TestNothingIsFoldedPastATransactionUnderWay(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	folder := e.folder()
	look := func() {
		t.Helper()
		if err := folder.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	// The transaction has its time from here on, and writes later.
	if _, err := tx.Exec(t.Context(), `SELECT now()`); err != nil {
		t.Fatal(err)
	}
	e.serve(t, e.reservation(t, c, 1), 1)
	look() // makes the mark
	look()
	if got := e.lines(t, c.account, passbook.Filter{Period: always}, 10); len(got) != 0 {
		t.Errorf("beside an older transaction: got %d lines, want 0", len(got))
	}
	if _, err := tx.Exec(t.Context(), `WITH e AS (INSERT INTO entry (id, kind, business_id)
			VALUES (gen_random_uuid(), 'goodwill', 'late') RETURNING id)
		INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
		SELECT id, leg, 'goodwill', kind, owner IS NOT NULL, owner, amount FROM e,
			(VALUES (1, 'e:goodwill', NULL::uuid, -5), (2, 'l:consumer:available', $1::uuid, 5))
				AS v (leg, kind, owner, amount)`,
		[16]byte(c.account)); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE wallet SET posted = posted + 5 WHERE account_id = $1`,
		[16]byte(c.account)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	e.checkLines(t, c)
	e.sound(t)
}

func TestAnAuditHoldsNoFoldUp(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	tx, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock_shared(hashtext('billing.reader'))`); err != nil {
		t.Fatal(err)
	}
	folder := e.folder()
	for range 2 {
		if err := folder.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.lines(t, c.account, passbook.Filter{Period: always}, 10); len(got) != 1 {
		t.Errorf("got %d lines, want 1", len(got))
	}
}

func TestReplicasThatFoldAtOnceMakeEachLineOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	for range 12 {
		e.serve(t, e.reservation(t, c, 1), 1)
	}
	upTo := scan[time.Time](t, e, `SELECT now()`)
	failed := make(chan error, 3)
	for range cap(failed) {
		go func() {
			var err error
			for range 40 {
				if _, err = e.passbook().Fold(t.Context(), upTo, 1); err != nil {
					break
				}
			}
			failed <- err
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	e.foldUpTo(t, upTo, 1)
	e.checkLines(t, c)
	e.sound(t)
}

func TestTheStandingIsTheWalletAndWhatWasCharged(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.serve(t, e.reservation(t, c, 5), 5)
	e.admitOne(t, e.reservation(t, c, 2), hold.Admitted)
	e.fold(t)
	s, err := e.passbook().Standing(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	if s.Credit != usd-5*cent {
		t.Errorf("credit: got %v, want %v", s.Credit, usd-5*cent)
	}
	if s.Available() != usd-7*cent {
		t.Errorf("available: got %v, want %v", s.Available(), usd-7*cent)
	}
	if s.Charged != 5*cent {
		t.Errorf("charged: got %v, want %v", s.Charged, 5*cent)
	}
	if s.Owed != 0 {
		t.Errorf("owed: got %v, want 0", s.Owed)
	}
}

func TestVerifyFindsAPassbookThatIsNotWhatWasRecorded(t *testing.T) {
	t.Parallel()
	for _, plant := range []string{
		`DELETE FROM passbook_line WHERE kind = 'goodwill'`,
		`UPDATE passbook_line SET balance = balance + 1 WHERE kind = 'usage'`,
		`UPDATE passbook_line SET amount = amount - 1 WHERE kind = 'usage'`,
		`UPDATE usage_day SET requests = requests + 1`,
		`UPDATE usage_day SET charged = charged + 1`,
		`UPDATE document_number SET last = last + 1`,
		`UPDATE document SET number = number + 1`,
		`DELETE FROM document`,
		`UPDATE document SET amount = 1`,
	} {
		t.Run(plant, func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			e.serve(t, e.reservation(t, e.consumer(t, money.USD), 1), 1)
			e.fold(t)
			e.sound(t)
			e.exec(t, plant)
			if report, err := audit.Run(t.Context(), e.store); err != nil {
				t.Fatal(err)
			} else if report.Drift == 0 {
				t.Error("got no drift, want some")
			}
		})
	}
}

func TestASlowReaderOfAnExportHoldsNoConnection(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.exec(t, `INSERT INTO passbook_line (account_id, at, n, kind, ref, amount, balance)
		SELECT $1, '2026-03-01', n, 'goodwill', gen_random_uuid(), 1, n FROM generate_series(1, 3000) AS n`,
		[16]byte(c.account))
	pieces := 0
	err := passbook.ExportLines(t.Context(), e.passbook(), c.account, passbook.Filter{Period: always},
		func([]byte, int64) error {
			pieces++
			if got := e.pool.Stat().AcquiredConns(); got != 0 {
				t.Errorf("piece %d: got %d connections in use, want 0", pieces, got)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if pieces < 4 {
		t.Errorf("got %d pieces, want more than the header and one", pieces)
	}
}

func TestEveryKindThatMovesCreditHasItsText(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	for _, kind := range column[string](t, e, `SELECT DISTINCT entry_kind FROM posting_rule
		WHERE account_kind = 'l:consumer:available'`) {
		if !passbook.Known(ledger.EntryKind(kind)) {
			t.Errorf("%s: got no text, want one", kind)
		}
	}
}

func TestAnIdleFoldStaysWhereItIsAndGoesOnWithTheNextLine(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	folder := e.folder()
	look := func(times int) time.Time {
		t.Helper()
		for range times {
			if err := folder.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return scan[time.Time](t, e, `SELECT until_at FROM passbook_fold`)
	}
	folded := look(2) // marks and folds the consumer's deposit
	if got := look(3); !got.Equal(folded) {
		t.Errorf("place of the fold after looks at nothing new: got %s, want %s", got, folded)
	}
	e.serve(t, e.reservation(t, c, 1), 1)
	if got := look(2); !got.After(folded) {
		t.Errorf("place of the fold after a request: got %s, want a later one than %s", got, folded)
	}
	e.checkLines(t, c)
	e.past(t, 2*passbook.IdleInterval)
	stood := scan[time.Time](t, e, `SELECT until_at FROM passbook_fold`)
	if got := look(2); !got.After(stood) {
		t.Errorf("place of a fold that stood for long: got %s, want a later one", got)
	}
}
