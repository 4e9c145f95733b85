package store_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// The hub's count was settled for ten tokens before the gateway told that four
// had come.
func TestAWordThatComesLateGivesBackWhatDidNotCome(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	late, provider := e.settledFor(t, c)
	whole, _ := e.settledFor(t, c)
	brokenWord := func(tokens int64) func(*hold.RequestReport) {
		return func(w *hold.RequestReport) { w.Outcome, w.RelayedTokens, w.RelayedBytes = "failed", tokens, 100*tokens }
	}
	report := servedWord(late, 4)
	brokenWord(4)(&report)
	all := servedWord(whole, 10)
	brokenWord(10)(&all)
	inTime := e.reservation(t, c, 10)
	e.admitOne(t, inTime, hold.Admitted)
	early := servedWord(inTime.Request, 4)
	brokenWord(4)(&early)
	for _, w := range []hold.RequestReport{report, all, early} {
		if _, _, err := e.store.Conclude(t.Context(), []hold.RequestReport{w}); err != nil {
			t.Fatal(err)
		}
	}
	e.settle(t, usage.Settled, e.served(t, inTime, 10))
	for round, want := range []int{1, 0} {
		n, err := usage.CorrectLateReports(t.Context(), e.store, slog.New(slog.DiscardHandler), 10)
		if err != nil {
			t.Errorf("round %d: corrected: got the error %v, want none", round, err)
		} else if n != want {
			t.Errorf("round %d: corrected: usage.CorrectLateReports(…): got %d, want %d", round, n, want)
		}
	}
	// Ten cents for the request whole, and four for each of the others.
	e.wantWallet(t, c, money.USD-18*cent, 0)
	if got := e.balance(t, ledger.Accrued, provider); got != 7*cent {
		t.Errorf("the provider, which served ten tokens, has: got %v, want %v", got, 7*cent)
	}
	if _, err := e.store.Refund(t.Context(), entryID(t), late, usage.Goodwill, ""); !errors.Is(err, usage.ErrRefunded) {
		t.Errorf("a refund beside: got the error %v, want %v", err, usage.ErrRefunded)
	}
	e.sound(t)
}

// A database that stood still answers with a time by which much is over.
func TestWhatIsOverOnlySinceTheLookBeganDoesNotExpire(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.admitOne(t, e.reservation(t, c, 10), hold.Admitted)
	before, err := e.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.overdue(t)
	e.exec(t, `UPDATE hold SET expires_at = $1::timestamptz + interval '1 microsecond',
		admitted_at = $1::timestamptz - interval '1 minute'`, before)
	if n, err := e.store.ExpireHolds(t.Context(), before, 10); err != nil {
		t.Errorf("expired before they were over when the look began: got the error %v, want none", err)
	} else if n != 0 {
		t.Errorf("expired before they were over when the look began: got %d, want 0", n)
	}
	if n, err := e.store.ExpireHolds(t.Context(), ever, 10); err != nil {
		t.Errorf("expired: got the error %v, want none", err)
	} else if n != 1 {
		t.Errorf("expired: e.store.ExpireHolds(…): got %d, want 1", n)
	}
}

// Each look may read rows by their keys only: neither reports nor renewals are
// ever removed.
func TestLooksForWhatIsOverReadNoTableWhole(t *testing.T) {
	e := setup(t, unlimited)
	e.exec(t, `INSERT INTO request_report (request_id, outcome, committed_attempt, relayed_tokens, relayed_bytes,
		http_status, error_code,
			route_mode, requested_provider, fallback_reason, stream, attempts, first_content_ms, total_ms, hub_id, provider_id)
		SELECT gen_random_uuid(), 'completed', 1, 5, 50, 200, '', 'auto', '', '', true, '[]', 1, 1, 'hub-1', gen_random_uuid()
		FROM generate_series(1, 20000)`)
	e.exec(t, `ANALYZE request_report`)
	plan := column[string](t, e, `EXPLAIN SELECT h.request_id FROM hold h
		LEFT JOIN LATERAL (SELECT e.request_id FROM evidence e WHERE e.request_id = h.request_id LIMIT 1) served ON true
		WHERE h.state = 'open' AND h.expires_at <= now() AND served.request_id IS NULL`)
	for _, line := range plan {
		for _, table := range []string{"request_report", "renewal", "work_receipt"} {
			if strings.Contains(line, "Seq Scan on "+table) {
				t.Errorf("%s is read whole:\n%s", table, strings.Join(plan, "\n"))
			}
		}
	}
}
