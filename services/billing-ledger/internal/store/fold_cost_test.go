package store_test

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestTheFoldReadsABalanceOnceForAnAccount(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	for range 5 {
		r := e.reservation(t, c, 10)
		e.admitOne(t, r, hold.Admitted)
		e.settle(t, usage.Settled, e.served(t, r, 10))
	}
	from, to := time.Unix(0, 0), scan[time.Time](t, e, `SELECT now() + interval '1 hour'`)
	e.exec(t, store.InsertSeries, from, to)
	plan := column[string](t, e, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) `+store.InsertLinesOfBooks,
		from, to)
	lookups := 0
	for _, line := range plan {
		if strings.Contains(line, "Index Scan") && strings.Contains(line, "on passbook_line") {
			lookups++
			if !strings.Contains(line, "loops=1)") {
				t.Errorf("balances read for one account: got %q, want loops=1", strings.TrimSpace(line))
			}
		}
	}
	if lookups != 1 {
		t.Errorf("places of the plan that read balances: got %d, want 1", lookups)
	}
	if t.Failed() {
		t.Log(strings.Join(plan, "\n"))
	}
}
