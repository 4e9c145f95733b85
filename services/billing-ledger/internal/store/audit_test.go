package store_test

import (
	"bytes"
	"strings"
	"testing"

	"svc.internal/services/billing-ledger/internal/audit"
)

func TestVerifyNamesEveryPlantedDrift(t *testing.T) {
	for _, tc := range []struct{ invariant, names, plant string }{
		{"no wallet is overdrawn", "account",
			`ALTER TABLE wallet DROP CONSTRAINT wallet_bounds; UPDATE wallet SET posted = -5`},
		{"wallet.held is the sum of open holds and slices", "account", `UPDATE wallet SET held = held + 1`},
		{"wallet.held is the sum of open holds and slices", "account", `DELETE FROM hold WHERE state = 'open'`},
		{"wallet.held is the sum of open holds and slices", "slices 5",
			`INSERT INTO slice (account_id, owner, address, amount, alive_until, reclaim_after)
				SELECT account_id, account_id, '', 5, now(), interval '1 minute' FROM wallet LIMIT 1`},
		{"the slice of a dead owner is stranded and reclaimed", "the open slice",
			`INSERT INTO slice (account_id, owner, address, alive_until, reclaim_after)
				SELECT account_id, account_id, '', now() - interval '61 minutes', interval '1 minute' FROM wallet LIMIT 1`},
		{"the slice of a dead owner is stranded and reclaimed", "the stranded slice",
			`INSERT INTO slice (account_id, owner, address, alive_until, state, reclaim_after, reclaim_at)
				SELECT account_id, account_id, '', now(), 'stranded', interval '1 minute', now() - interval '61 minutes'
				FROM wallet LIMIT 1`},
		{"wallet.posted is postings less charges", "account", `UPDATE wallet SET posted = posted - 1`},
		{"wallet.posted is postings less charges", "account", `INSERT INTO wallet SELECT gen_random_uuid(), 7, 0`},
		{"every settled hold has its settled request", "request", `DELETE FROM usage_settlement WHERE source = 'payg'`},
		{"every settled hold has its settled request", "request",
			`UPDATE hold SET state = 'settled', closed_at = now() WHERE state = 'open'`},
		{"every settled request has its closed hold", "request", `DELETE FROM hold WHERE state = 'settled'`},
		{"every settled request has its closed hold", "request",
			`UPDATE hold SET state = 'released' WHERE state = 'settled'`},
		{"every settled request has its closed hold", "request",
			`UPDATE hold SET state = 'settled' WHERE state = 'released'`},
		{"no request is settled twice", "request", `ALTER TABLE usage_settlement DROP CONSTRAINT day_of_request;
			` + copyLine("day = day + 1")},
		{"orphan work has its entry, and no entry is without it", "request",
			`DELETE FROM posting WHERE entry_kind = 'orphan_work'`},
		{"orphan work has its entry, and no entry is without it", "request",
			`DELETE FROM usage_settlement WHERE source = 'orphan'`},
		{"what the gateway's count settled was reviewed", "request",
			`UPDATE usage_settlement SET evidence_source = 'gateway' WHERE source = 'payg'`},
		{"every entry balances", "entry", `UPDATE posting SET amount = amount + 1 WHERE account_kind = 'e:goodwill'`},
		{"every entry balances", "entry", `DELETE FROM posting WHERE account_kind = 'e:orphan_work'`},
		{"no payout exceeds its list price", "request",
			`ALTER TABLE usage_settlement DROP CONSTRAINT payout_within_list_price;
			UPDATE usage_settlement SET payout = list_price + 1`},
		{"key_inflight is the count of open holds without a report", "key", `UPDATE key_inflight SET n = n + 1`},
		{audit.AmountsRecomputed, "list price",
			`UPDATE usage_settlement SET list_price = list_price + 1, charged = charged + 1 WHERE source = 'payg'`},
		{audit.AmountsRecomputed, "payout", `UPDATE usage_settlement SET payout = payout - 1 WHERE source = 'payg'`},
		{audit.AmountsRecomputed, "rates", `UPDATE usage_settlement SET input_rate = input_rate + 1 WHERE source = 'payg'`},
		{audit.AmountsRecomputed, "short",
			`UPDATE usage_settlement SET charged = charged - 1, shortfall = shortfall + 1 WHERE source = 'payg'`},
		{audit.TrialBalanceZero, "debits", `UPDATE usage_settlement SET charged = charged - 1 WHERE source = 'payg'`},
		{audit.TrialBalanceZero, "debits",
			`UPDATE posting SET amount = amount * 2 WHERE account_kind = 'l:consumer:available'`},
	} {
		t.Run(tc.invariant+"/"+tc.plant[:min(len(tc.plant), 30)], func(t *testing.T) {
			t.Parallel()
			e, _, _ := populated(t)
			for _, statement := range strings.Split(strings.ReplaceAll(tc.plant, ";\n", "; "), "; ") {
				e.exec(t, statement)
			}
			report, err := audit.Run(t.Context(), e.store)
			if err != nil {
				t.Fatal(err)
			}
			if !named(report, tc.invariant, tc.names) {
				t.Errorf("drift is not named: %+v", report.Invariants)
			}
			if report.Drift == 0 {
				t.Error("drift: 0")
			}
		})
	}
}

func named(r audit.Report, invariant, text string) bool {
	for _, i := range r.Invariants {
		if i.Name == invariant && i.Drift > 0 && strings.Contains(strings.Join(i.Examples, "\n"), text) {
			return true
		}
	}
	return false
}

func TestVerifyPrintsTheTrialBalance(t *testing.T) {
	e, _, _ := populated(t)
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	var text, json bytes.Buffer
	if err := report.Print(&text); err != nil {
		t.Fatal(err)
	}
	if err := report.PrintJSON(&json); err != nil {
		t.Fatal(err)
	}
	// $1 granted, 3 cents charged, 4 cents held, two times 2.1 cents earned.
	squeezed := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"e:goodwill 1.00 0.00", "l:consumer:available 0.00 0.93", "l:consumer:held 0.00 0.04",
		"l:provider:accrued 0.00 0.042",
		"r:usage_margin 0.00 0.009", "e:orphan_work 0.021 0.00", "e:shortfall 0.00 0.00", "total 1.021 1.021", "drift: 0",
	} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("the report lacks %q:\n%s", want, &text)
		}
	}
	if !strings.Contains(json.String(), `"drift": 0`) {
		t.Errorf("JSON report: got %q, want %q in it", json.String(), `"drift": 0`)
	}
}
