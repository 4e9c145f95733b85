package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/seal"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// pushBack moves all that was recorded so many days into the past.
func (e *env) pushBack(t testing.TB, days int) {
	t.Helper()
	e.exec(t, `UPDATE entry SET at = at - make_interval(days => $1)`, days)
	e.exec(t, `UPDATE usage_settlement SET settled_at = settled_at - make_interval(days => $1)`, days)
	e.exec(t, `UPDATE account SET created_at = created_at - make_interval(days => $1)`, days)
}

func (e *env) sealDue(t testing.TB) []seal.Day {
	t.Helper()
	var days []seal.Day
	sealer := &seal.Sealer{Store: e.store, Poll: time.Millisecond}
	if err := sealer.Due(t.Context(), func(d seal.Day) error {
		days = append(days, d)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return days
}

// history is a ledger of three days: the populated one two days ago, nothing
// the day before, and one more request today. The first two are sealed.
func history(t *testing.T) (*env, consumer, []seal.Day) {
	t.Helper()
	e, c, _ := populated(t)
	e.pushBack(t, 2)
	days := e.sealDue(t)
	e.serveOne(t, c)
	return e, c, days
}

func (e *env) serveOne(t testing.TB, c consumer) {
	t.Helper()
	reservation := e.reservation(t, c, 1)
	e.admitOne(t, reservation, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, reservation, 1))
}

func TestDaysThatAreOverAreSealedInAChain(t *testing.T) {
	e, c, days := history(t)
	switch {
	case len(days) != 2:
		t.Fatalf("sealed: len(days): got %d, want 2, in %+v", len(days), days)
	case days[0].Counts != (seal.Counts{Lines: 2, Entries: 2, Postings: 4}):
		t.Fatalf("sealed: days[0].Counts: got %+v, want %+v", days[0].Counts, seal.Counts{Lines: 2, Entries: 2, Postings: 4})
	case days[1].Counts != (seal.Counts{}):
		t.Fatalf("sealed: days[1].Counts: got %+v, want %+v", days[1].Counts, seal.Counts{})
	}
	if days[0].Previous != (seal.Root{}) {
		t.Errorf("the chain: days[0].Previous: got %v, want %v", days[0].Previous, seal.Root{})
	} else if days[1].Previous != days[0].Root {
		t.Errorf("the chain: days[1].Previous: got %v, want %v", days[1].Previous, days[0].Root)
	} else if want := days[0].Day.AddDate(0, 0, 1); !days[1].Day.Equal(want) {
		t.Errorf("the chain: days[1].Day: got %v, want %v", days[1].Day, want)
	}
	e.sound(t)
	if again := e.sealDue(t); len(again) != 0 {
		t.Errorf("sealed again: got %d, want 0, in %+v", len(again), again)
	}
	if again, err := e.store.SealDay(t.Context(), days[0].Day); err != nil {
		t.Errorf("the first day again: got the error %v, want none", err)
	} else if again != days[0] {
		t.Errorf("the first day again: got %+v, want %+v", again, days[0])
	}
	if _, due, err := e.store.DueDay(t.Context(), 24*time.Hour); due {
		t.Error("today: due: got true, want false")
	} else if err != nil {
		t.Errorf("today: got the error %v, want none", err)
	}
	e.serveOne(t, c)
	// As if a day had passed. Seals carry their dates, so they are made anew.
	e.exec(t, `DELETE FROM balance_snapshot`)
	e.exec(t, `DELETE FROM seal`)
	e.exec(t, `DELETE FROM closed_day`)
	e.pushBack(t, 1)
	switch days = e.sealDue(t); {
	case len(days) != 3:
		t.Errorf("len(days): got %d, want 3, in %+v", len(days), days)
	case days[2].Lines != 2:
		t.Errorf("days[2].Lines: got %d, want 2", days[2].Lines)
	case days[2].Previous != days[1].Root:
		t.Errorf("days[2].Previous: got %v, want %v", days[2].Previous, days[1].Root)
	}
	e.sound(t)
}

func TestASnapshotIsWhatWasRecordedUpToItsDay(t *testing.T) {
	e, c, days := history(t)
	type balance struct{ moved, balance int64 }
	read := func(day time.Time, kind string, owner [16]byte) (b balance) {
		if err := e.owner.QueryRow(t.Context(),
			`SELECT moved, balance FROM balance_snapshot WHERE day = $1 AND account_kind = $2 AND owner_id = $3`,
			day, kind, owner).Scan(&b.moved, &b.balance); err != nil {
			t.Fatal(err)
		}
		return b
	}
	// A dollar granted, three cents charged, two times 2.1 cents paid.
	if got := read(days[0].Day, "l:consumer:available", c.account); got != (balance{970_000_000, 970_000_000}) {
		t.Errorf("the consumer: got %+v, want %+v", got, balance{970_000_000, 970_000_000})
	}
	if got := read(days[0].Day, "e:orphan_work", [16]byte{}); got != (balance{-21_000_000, -21_000_000}) {
		t.Errorf("orphan work: got %+v, want %+v", got, balance{-21_000_000, -21_000_000})
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM balance_snapshot WHERE day = $1`, days[1].Day); n != 0 {
		t.Errorf("accounts moved on a day without anything: got %d, want 0", n)
	}
	posted, _ := e.wallet(t, c)
	if want := money.NanoUSD(970_000_000) - cent; posted != want {
		t.Errorf("posted: got %s, want %s", posted, want)
	}
}

func TestVerifyFindsWhatWasChangedInASealedDay(t *testing.T) {
	const sealedRows, sums = "every sealed day is as it was sealed", "balances of sealed days are what was recorded"
	for _, tc := range []struct{ name, invariant, names, plant string }{
		{"a line is changed", sealedRows, "a row is not",
			`UPDATE usage_settlement SET delivered_bytes = delivered_bytes + 1 WHERE settled_at < now() - interval '1 day'`},
		{"a line is taken away", sealedRows, "sealed with", `DELETE FROM usage_settlement WHERE source = 'orphan'`},
		{"a line is added", sealedRows, "sealed with",
			`UPDATE usage_settlement SET settled_at = settled_at - interval '2 days'
				WHERE settled_at > now() - interval '1 day'`},
		{"an entry is changed", sealedRows, "a row is not", `UPDATE entry SET memo = 'another'`},
		{"a posting is changed", sealedRows, "a row is not",
			`UPDATE posting SET owner_id = gen_random_uuid() WHERE account_kind = 'l:provider:accrued'`},
		{"a posting is taken away", sealedRows, "sealed with", `DELETE FROM posting WHERE leg = 1`},
		{"rows are moved before the chain", sealedRows, "before the first seal",
			`UPDATE entry SET at = at - interval '9 days'`},
		{"a seal is taken away", sealedRows, "does not follow", `DELETE FROM seal WHERE previous IS NULL`},
		{"a root is changed", sealedRows, "does not follow",
			`ALTER TABLE seal DROP CONSTRAINT seal_root; UPDATE seal SET root = sha256(root) WHERE previous IS NOT NULL`},
		{"a balance is changed", sums, "moved", `UPDATE balance_snapshot SET balance = balance + 1`},
		{"a movement is changed", sums, "moved", `UPDATE balance_snapshot SET moved = moved + 1, balance = balance + 1`},
		{"a balance is taken away", sums, "moved", `DELETE FROM balance_snapshot WHERE account_kind = 'e:goodwill'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, _, _ := history(t)
			for _, sql := range strings.Split(tc.plant, "; ") {
				e.exec(t, sql)
			}
			report, err := audit.Run(t.Context(), e.store)
			if err != nil {
				t.Fatal(err)
			}
			if !named(report, tc.invariant, tc.names) {
				t.Errorf("it is not named: %+v", report.Invariants)
			}
		})
	}
}

// A change together with the seals of its day and of all after it shows in the
// last root, which somebody else may have kept.
func TestWhoSealsAnewHasAnotherRoot(t *testing.T) {
	e, _, days := history(t)
	e.exec(t, `DELETE FROM balance_snapshot`)
	e.exec(t, `DELETE FROM seal`)
	e.exec(t, `UPDATE entry SET memo = 'another'`)
	again := e.sealDue(t)
	e.sound(t)
	if len(again) != 2 {
		t.Errorf("the last root is the same: len(again): got %d, want 2", len(again))
	} else if again[1].Root == days[1].Root {
		t.Errorf("the last root is the same: again[1].Root: got %v, want any but %v", again[1].Root, days[1].Root)
	}
}

// A transaction that began before its day was closed, and has not written yet,
// is refused and begins anew. A transaction that has written is awaited.
func TestAClosedDayTakesNoMoreAndAwaitsWhatWasUnderWay(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	begin := func() pgx.Tx {
		tx, err := e.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
		if _, err := tx.Exec(t.Context(), `SELECT now()`); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	write := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(),
			`INSERT INTO entry (id, kind, business_id) VALUES (gen_random_uuid(), 'goodwill', gen_random_uuid()::text)`)
		return err
	}
	early, late := begin(), begin()
	if err := write(early); err != nil {
		t.Fatal(err)
	}
	// Today cannot be closed by the application, nor by the clock of a test.
	today := time.Now().UTC().Truncate(24 * time.Hour)
	if _, err := e.store.CloseDay(t.Context(), today); err == nil {
		t.Fatal("closing today: got no error, want one")
	} else if !strings.Contains(err.Error(), "is not over") {
		t.Fatalf(`closing today: got the error %q, want "is not over" in it`, err)
	}
	e.exec(t, `INSERT INTO closed_day (day) VALUES ((now() AT TIME ZONE 'UTC')::date)`)
	barrier, err := e.store.CloseDay(t.Context(), today.AddDate(0, 0, -1))
	if err != nil {
		t.Fatal(err)
	}
	if passed, err := e.store.Passed(t.Context(), barrier); err != nil {
		t.Errorf("while a writer is under way: got the error %v, want none", err)
	} else if passed {
		t.Error("while a writer is under way: passed: got true, want false")
	}
	var refused *pgconn.PgError
	if err := write(late); !errors.As(err, &refused) {
		t.Errorf("written to a closed day: got the error %v, want a %T", err, refused)
	} else if refused.Code != "40001" {
		t.Errorf(`written to a closed day: refused.Code: got %q, want "40001"`, refused.Code)
	}
	_ = early.Rollback(t.Context())
	_ = late.Rollback(t.Context())
	if passed, err := e.store.Passed(t.Context(), barrier); err != nil {
		t.Errorf("when all have ended: got the error %v, want none", err)
	} else if !passed {
		t.Error("when all have ended: passed: got false, want true")
	}
	entry := ledger.Grant(entryID(t), c.account, 5, "late", "")
	if _, err := e.store.Post(t.Context(), entry); err == nil {
		t.Error("posted on a closed day")
	}
	e.exec(t, `DELETE FROM closed_day WHERE day = (now() AT TIME ZONE 'UTC')::date`)
	if _, err := e.store.Post(t.Context(), entry); err != nil {
		t.Error(err)
	}
}

func TestTheViewsAndTheTrialBalanceAgree(t *testing.T) {
	e, c, _ := populated(t)
	provider := newProvider(t)
	e.fund(t, provider, c)
	entries := everyEntry(t, e, c, provider)
	post(t, e, entries...)
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range report.TrialBalance {
		if l.Debit != l.Credit && l.Account != "total" {
			got = append(got, l.Account+" "+l.Debit+" "+l.Credit)
		}
	}
	want := []string{}
	rows, err := e.owner.Query(t.Context(), `SELECT account_kind, sum(amount)::bigint FROM (
			SELECT account_kind, amount FROM ledger_leg WHERE asset = 'usd'
			UNION ALL SELECT account_kind, amount FROM hold_leg) l GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var kind string
	var amount money.NanoUSD
	if _, err := pgx.ForEachRow(rows, []any{&kind, &amount}, func() error {
		if amount != 0 {
			want = append(want, kind+" "+max(-amount, 0).String()+" "+max(amount, 0).String())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("trial balance\n%s\nviews\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	lines := column[int32](t, e, `SELECT DISTINCT line FROM usage_leg ORDER BY 1`)
	if !slices.Equal(lines, []int32{5}) {
		t.Errorf("lines of settled requests: got %v, want %v", lines, []int32{5})
	}
}

func TestTheExportHasEveryRowButTheHashesOfKeys(t *testing.T) {
	e, _, days := history(t)
	var out bytes.Buffer
	heard := map[string]bool{}
	if err := e.store.Export(t.Context(), &out, func(table string, _ int64) { heard[table] = true }); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var header struct {
		Export       int
		At           time.Time
		Schema, Seal string
	}
	if err := json.Unmarshal([]byte(lines[0]), &header); err != nil || header.Export != store.ExportVersion ||
		header.Schema != "billing" ||
		header.Seal != hexRoot(days[1].Root) || header.At.IsZero() {
		t.Errorf("header %s, %v", lines[0], err)
	}
	var order []string
	rows := map[string]int64{}
	for _, line := range lines[1 : len(lines)-1] {
		var row struct {
			Table string
			Row   map[string]any
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: got the error %v, want none", line, err)
		} else if len(row.Row) == 0 {
			t.Fatalf("%s: len(row.Row): got 0, want at least 1", line)
		}
		if rows[row.Table]++; rows[row.Table] == 1 {
			order = append(order, row.Table)
		}
		if row.Table == "consumer_key" && row.Row["hash"] != nil {
			t.Error("the hash of a key is exported")
		}
	}
	for table := range heard {
		if want := scan[int64](t, e, `SELECT count(*) FROM `+table); rows[table] != want {
			t.Errorf("%s: got %d, want %d", table, rows[table], want)
		}
	}
	for _, table := range []string{"account", "entry", "posting", "hold", "usage_settlement", "consumer_key", "seal",
		"balance_snapshot", "plan"} {
		if rows[table] == 0 {
			t.Errorf("exported of %s: got 0, want any but 0", table)
		}
	}
	if slices.Index(order, "account") != 0 || slices.Index(order, "posting") > slices.Index(order, "hold") ||
		slices.Index(order, "consumer_key") < slices.Index(order, "hold") {
		t.Errorf("the order is %q", order)
	}
	var end struct {
		End  bool
		Rows int
	}
	switch err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case !end.End:
		t.Errorf("end.End: got false, want true, with %s", lines[len(lines)-1])
	case end.Rows != len(lines)-2:
		t.Errorf("end.Rows: got %d, want %d, with %s", end.Rows, len(lines)-2, lines[len(lines)-1])
	}
}

// exportedBytes are the columns of bytes that an export may have: each hashes or
// signs something that is no secret, or is the payload of a usage event.
var exportedBytes = []string{
	"account_mark.evidence", "card_payment.card_fingerprint", "idempotency_claim.request_sha256",
	"idempotency_claim.token_sha256",
	"known_network.network", "operator_session.network",
	"pepper.fingerprint", "processor_event.sha256", "provider_mark.evidence", "quarantine.payload",
	"quarantine.payload_hash", "seal.digest", "seal.previous", "seal.root", "sign_in_attempt.email_sha256",
	"sign_in_count.email_sha256", "sign_in_count.network", "usage_key.key_id",
	"usage_settlement.payload_hash", "used_proof.nonce", "user_identity.evidence",
	"visitor.address", "visitor_session.network",
	"work_receipt.proof", "work_receipt.public_key", "work_receipt.signature",
}

func TestTheExportHasNoColumnOfBytesThatIsNotKnownToBeNoSecret(t *testing.T) {
	e := besieged(t)
	var out bytes.Buffer
	if err := e.store.Export(t.Context(), &out, func(string, int64) {}); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		var row struct {
			Table string
			Row   map[string]any
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		for column := range row.Row {
			have[row.Table+"."+column] = true
		}
	}
	var got []string
	for _, column := range column[string](t, e,
		`SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = 'billing'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND a.atttypid = 'bytea'::regtype
		ORDER BY 1`) {
		if have[column] {
			got = append(got, column)
		}
	}
	if !slices.Equal(got, exportedBytes) {
		t.Errorf("an export has the bytes of\n%q\nwant those of\n%q", got, exportedBytes)
	}
}

func hexRoot(r seal.Root) string {
	const digits = "0123456789abcdef"
	var out []byte
	for _, b := range r {
		out = append(out, digits[b>>4], digits[b&15])
	}
	return string(out)
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestAnExportThatCannotBeWrittenFails(t *testing.T) {
	e, _, _ := history(t)
	if err := e.store.Export(t.Context(), &brokenWriter{left: 100}, func(string, int64) {}); err == nil {
		t.Error("the export succeeded")
	}
}

func TestReconcileNamesDriftOfWhatIsOpenOrRecent(t *testing.T) {
	for name, plant := range map[string]string{
		"wallet.held is the sum of open holds and slices": `UPDATE wallet SET held = held + 1`,
		"every settled request has its closed hold":       `UPDATE hold SET state = 'released' WHERE state = 'settled'`,
		"every entry balances": `UPDATE posting SET amount = amount + 1
			WHERE account_kind = 'e:goodwill'`,
	} {
		e, _, _ := populated(t)
		next, drifts, err := e.store.Reconcile(t.Context(), store.Place{}, time.Hour)
		switch {
		case err != nil:
			t.Fatalf("a sound ledger: got the error %v, want none", err)
		case len(drifts) != 0:
			t.Fatalf("a sound ledger: len(drifts): got %d, want 0, in %v", len(drifts), drifts)
		case next != (store.Place{}):
			t.Fatalf("a sound ledger: next: got %v, want %v", next, store.Place{})
		}
		e.exec(t, plant)
		_, drifts, err = e.store.Reconcile(t.Context(), store.Place{}, time.Hour)
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case len(drifts) == 0:
			t.Errorf("%s: len(drifts): got 0, want at least 1, in %v", name, drifts)
		case drifts[0].Invariant != name:
			t.Errorf("%s: drifts[0].Invariant: got %q, want %q", name, drifts[0].Invariant, name)
		}
	}
}

func TestReconcileReachesEveryWallet(t *testing.T) {
	e := setup(t, unlimited)
	e.exec(t, `INSERT INTO wallet SELECT gen_random_uuid(), 5, 0 FROM generate_series(1, 4500)`)
	e.exec(t, `UPDATE wallet SET held = 1 WHERE account_id = (SELECT max(account_id::text)::uuid FROM wallet)`)
	var place store.Place
	for round, found := range []int{0, 0, 1} {
		next, drifts, err := e.store.Reconcile(t.Context(), place, time.Hour)
		switch {
		case err != nil:
			t.Errorf("round %d: got the error %v, want none", round, err)
		case len(drifts) != found:
			t.Errorf("round %d: len(drifts): got %d, want %d, in %v", round, len(drifts), found, drifts)
		case (next == store.Place{}) != (round == 2):
			t.Errorf("round %d: next == store.Place{}: got %t, want %t", round, next == store.Place{}, round == 2)
		}
		place = next
	}
}
