package store_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/entries"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// listed walks the pages of a filter, of two entries each, and returns the kinds of the entries.
func (e *env) listed(t testing.TB, f entries.Filter) (all []entries.Entry, kinds string) {
	t.Helper()
	cursor := ""
	for range 100 {
		page, next, err := entries.Page(t.Context(), e.store, f, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 2 {
			t.Errorf("page: got %d entries, want 2 at most", len(page))
		}
		for _, entry := range page {
			all, kinds = append(all, entry), kinds+string(entry.Kind)+" "
		}
		if cursor = next; next == "" {
			return all, strings.TrimSpace(kinds)
		}
	}
	t.Fatal("the pages do not end")
	return nil, ""
}

// lately is a time of which everything that a test records is a part.
func lately() entries.Filter {
	return entries.Filter{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
}

func TestEntriesAreFoundWithLegsThatSumToZero(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c, other := e.consumer(t, money.USD), e.consumer(t, money.USD)
	r, stray := e.reservation(t, c, 3), e.reservation(t, other, 3)
	e.admitOne(t, r, hold.Admitted)
	e.admitOne(t, stray, hold.Admitted)
	d := e.served(t, r, 2)
	e.settle(t, usage.Settled, d)
	e.settle(t, usage.Settled, e.served(t, stray, 1))
	if _, err := e.store.Refund(t.Context(), entryID(t), r.Request, usage.Goodwill, "sorry"); err != nil {
		t.Fatal(err)
	}
	post(t, e, must(t)(ledger.StrayDeposit(newFact(t), ledger.Sum{Token: ledger.USDCBase, Units: 2_000_000})))
	e.fold(t)

	owner := func(kind ledger.AccountKind, id [16]byte) entries.Filter {
		return entries.Filter{Account: kind, Owner: id}
	}
	timed := func(f entries.Filter) entries.Filter {
		f.Since, f.Until = lately().Since, lately().Until
		return f
	}
	all, kinds := e.listed(t, lately())
	if got := strings.Count(kinds, "usage"); got != 2 {
		t.Errorf("of the last hour: got %q, want two settled requests", kinds)
	}
	for _, entry := range all {
		sums := map[ledger.Asset]money.NanoUSD{}
		for _, leg := range entry.Legs {
			sums[leg.Asset] += leg.Amount
		}
		if len(entry.Legs) < 2 {
			t.Errorf("%s %s: got %d legs, want 2 or more", entry.Kind, entry.BusinessID, len(entry.Legs))
		}
		for asset, sum := range sums {
			if sum != 0 {
				t.Errorf("%s %s: got the sum %d of %s, want 0", entry.Kind, entry.BusinessID, sum, asset)
			}
		}
	}
	for name, tc := range map[string]struct {
		f    entries.Filter
		want string
	}{
		"request":              {entries.Filter{Request: r.Request}, "goodwill_refund usage"},
		"business id":          {entries.Filter{BusinessID: r.Request.String()}, "goodwill_refund"},
		"nobody's business id": {entries.Filter{BusinessID: "%"}, ""},
		"consumer":             {owner(ledger.Available, c.account), "goodwill_refund goodwill"},
		"consumer in a time":   {timed(owner(ledger.Available, c.account)), "goodwill_refund usage goodwill"},
		"provider":             {owner(ledger.Accrued, d.Event.Provider), ""},
		"provider in a time":   {timed(owner(ledger.Accrued, d.Event.Provider)), "usage"},
		"another kind":         {timed(owner(ledger.Payable, d.Event.Provider)), ""},
		"another owner":        {timed(owner(ledger.Accrued, c.account)), ""},
		"before":               {entries.Filter{Since: time.Now().Add(-2 * time.Hour), Until: lately().Since}, ""},
	} {
		if _, got := e.listed(t, tc.f); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestAFilterOfEntriesIsOneThatAnIndexAnswers(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := time.Now()
	for name, tc := range map[string]struct {
		f      entries.Filter
		cursor string
		size   int
	}{
		"nothing":        {entries.Filter{}, "", 1},
		"two":            {entries.Filter{BusinessID: "x", Request: ids.RequestID{1}}, "", 1},
		"no owner":       {entries.Filter{Account: ledger.Payable}, "", 1},
		"no account":     {entries.Filter{Owner: [16]byte{1}, Since: now.Add(-1), Until: now}, "", 1},
		"no kind":        {entries.Filter{Account: "l:provider:%", Owner: [16]byte{1}}, "", 1},
		"long":           {entries.Filter{BusinessID: strings.Repeat("x", 256)}, "", 1},
		"zero byte":      {entries.Filter{BusinessID: "x\x00"}, "", 1},
		"since alone":    {entries.Filter{Since: now}, "", 1},
		"until alone":    {entries.Filter{Until: now}, "", 1},
		"backwards":      {entries.Filter{Since: now, Until: now.Add(-1)}, "", 1},
		"empty":          {entries.Filter{Since: now, Until: now}, "", 1},
		"too long":       {entries.Filter{Since: now.Add(-entries.MaxSpan - 1), Until: now}, "", 1},
		"timed request":  {entries.Filter{Request: ids.RequestID{1}, Since: now.Add(-1), Until: now}, "", 1},
		"page":           {lately(), "", entries.MaxPage + 1},
		"page below":     {lately(), "", -1},
		"cursor":         {lately(), "' OR 1=1 --", 1},
		"another cursor": {lately(), strings.Repeat("_", 32), 1},
	} {
		_, _, err := entries.Page(t.Context(), e.store, tc.f, tc.cursor, tc.size)
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.InvalidValue)
		}
	}
	if _, _, err := entries.Page(t.Context(), e.store, lately(), "", entries.MaxPage); err != nil {
		t.Errorf("the largest page: got the error %v, want none", err)
	}
}

// However large the ledger is, a page reads its rows and not the tables.
func TestAPageOfEntriesReadsIndexes(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	timed := lately()
	timed.Account, timed.Owner = ledger.Accrued, [16]byte{1}
	consumer := timed
	consumer.Account = ledger.Available
	for name, tc := range map[string]struct {
		f    entries.Filter
		want []string
	}{
		"request":  {entries.Filter{Request: ids.RequestID{1}}, []string{"entry_kind_business_id_key"}},
		"owner":    {entries.Filter{Account: ledger.Payable, Owner: [16]byte{1}}, []string{"posting_account"}},
		"time":     {lately(), []string{"entry_recorded", "settled_at_idx"}},
		"provider": {timed, []string{"posting_account", "_of_provider"}},
		"consumer": {consumer, []string{"posting_account", "passbook_line"}},
	} {
		sql, args := store.SearchEntries(tc.f, entries.Place{}, 50)
		plan := strings.Join(e.planWithoutScans(t, sql, args...), "\n")
		for _, index := range tc.want {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: got the plan\n%s\nwant %s in it", name, plan, index)
			}
		}
	}
}

// served20000 copies a settled request, with another id and time of settling each, which takes a superuser:
// nobody else settles but now. Before the copies of its provider are as many of other providers.
func (e *env) served20000(t testing.TB, from ids.RequestID) {
	t.Helper()
	columns := strings.Join(column[string](t, e, `SELECT quote_ident(attname) FROM pg_attribute
		WHERE attrelid = 'usage_settlement'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
			AND attname NOT IN ('request_id', 'settled_at', 'provider_id') ORDER BY attnum`), ", ")
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO usage_settlement (`+columns+`, request_id, settled_at,
			provider_id)
		SELECT `+columns+`, overlay(request_id::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid,
			settled_at - n * interval '1 ms', CASE WHEN n > 20000 THEN provider_id ELSE md5(n::text)::uuid END
		FROM usage_settlement, generate_series(1, 40000) n WHERE request_id = $1`, [16]byte(from)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.owner.Exec(t.Context(), `ANALYZE usage_settlement`); err != nil {
		t.Fatal(err)
	}
}

// What a plan read of settled requests: the rows that a scan gave on, and those that it passed over.
var (
	scanned    = regexp.MustCompile(`Scan.* on usage_settlement.*actual rows=([0-9.]+) loops=([0-9]+)`)
	passedOver = regexp.MustCompile(`Rows Removed by [A-Za-z ]+: ([0-9]+)`)
)

// However many requests a provider has served, a page of 41 days reads few of them.
func TestAPageOfABusyProviderReadsThePage(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	r := e.reservation(t, c, 3)
	e.admitOne(t, r, hold.Admitted)
	d := e.served(t, r, 2)
	e.settle(t, usage.Settled, d)
	e.served20000(t, r.Request)
	const size = 50
	f := entries.Filter{Account: ledger.Accrued, Owner: d.Event.Provider, Since: time.Now().Add(-30 * 24 * time.Hour),
		Until: time.Now().Add(time.Hour)}
	first, next, err := entries.Page(t.Context(), e.store, f, "", size)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := entries.Page(t.Context(), e.store, f, next, size)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != size {
		t.Fatalf("the first page: got %d entries, want %d", len(first), size)
	}
	if len(second) != size {
		t.Fatalf("the second page: got %d entries, want %d", len(second), size)
	}
	last, following := first[size-1], second[0]
	if gap := last.At.Sub(following.At); gap != time.Millisecond {
		t.Errorf("between the pages: got a gap of %v, want the next request, 1 ms before", gap)
	}
	for name, after := range map[string]entries.Place{"the first page": {}, "the second": {At: last.At, ID: last.ID}} {
		sql, args := store.SearchEntries(f, after, size+1)
		plan := strings.Join(column[string](t, e, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) `+sql,
			args...), "\n")
		rows := 0.0
		for _, scan := range scanned.FindAllStringSubmatch(plan, -1) {
			each, _ := strconv.ParseFloat(scan[1], 64)
			loops, _ := strconv.ParseFloat(scan[2], 64)
			rows += each * loops
		}
		for _, passed := range passedOver.FindAllStringSubmatch(plan, -1) {
			more, _ := strconv.ParseFloat(passed[1], 64)
			rows += more
		}
		if rows < size {
			t.Errorf("%s: got %.0f rows read, want those of the page:\n%s", name, rows, plan)
		}
		if rows > 2*(size+1) {
			t.Errorf("%s: got %.0f rows read, want at most %d:\n%s", name, rows, 2*(size+1), plan)
		}
	}
}

// planWithoutScans explains a statement as if no table could be read whole.
func (e *env) planWithoutScans(t testing.TB, sql string, args ...any) (plan []string) {
	t.Helper()
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
	}
	return plan
}

func TestTheTrialBalanceIsZeroBeforeAndAfterASeal(t *testing.T) {
	e, c, _ := history(t)
	post(t, e, must(t)(ledger.Deposit(newFact(t), c.account, ledger.Sum{Token: ledger.USDCBase, Units: 10_000_000})),
		must(t)(ledger.PlanSale(newFact(t), "2026-03", 6*money.USD)))
	open := e.reservation(t, c, 2)
	e.admitOne(t, open, hold.Admitted)
	check := func(when string) {
		t.Helper()
		trial, err := entries.NewTrials(e.store, clock.System).Trial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !trial.Balanced() {
			t.Errorf("%s: the totals: got %+v, want zeros", when, trial.Totals)
		}
		if len(trial.Totals) != 2 {
			t.Errorf("%s: the totals: got %+v, want those of dollars and one token", when, trial.Totals)
		}
		_, held := e.wallet(t, c)
		for _, want := range []entries.Balance{
			{Account: ledger.PlanPool, Book: "2026-03", Asset: ledger.USD, Amount: 6 * money.USD},
			{Account: ledger.Held, Asset: ledger.USD, Amount: held},
		} {
			if !slices.Contains(trial.Balances, want) {
				t.Errorf("%s: got %+v, want %+v among them", when, trial.Balances, want)
			}
		}
	}
	check("open")
	e.exec(t, `DELETE FROM balance_snapshot`)
	e.exec(t, `DELETE FROM seal`)
	e.exec(t, `DELETE FROM closed_day`)
	e.pushBack(t, 1)
	e.sealDue(t)
	check("sealed")
}

// A wrong sum is seen: the trial balance is no tautology.
func TestATrialBalanceThatIsNotZeroIsSeen(t *testing.T) {
	e, c, _ := history(t)
	e.exec(t, `UPDATE wallet SET posted = posted + 1 WHERE account_id = $1`, [16]byte(c.account))
	trial, err := entries.NewTrials(e.store, clock.System).Trial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if trial.Balanced() {
		t.Errorf("the totals: got %+v, want one of 1", trial.Totals)
	}
}
