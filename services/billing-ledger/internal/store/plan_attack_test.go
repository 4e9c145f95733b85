package store_test

import (
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestTheDatabaseGuardsPlans(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, money.USD, limits{requests: 5, images: 5, tokens: 10, rate: 5, concurrent: 5})
	open, payg := e.standard(t, c, 4), e.reservation(t, c, 1)
	e.admitOne(t, open, hold.Admitted)
	e.admitOne(t, payg, hold.Admitted)
	for _, tc := range []struct{ because, sql string }{
		{"permission denied", `UPDATE plan_limit SET cap = 1000000`},
		{"permission denied", `INSERT INTO plan VALUES ('mine')`},
		{"permission denied", `DELETE FROM plan_counter`},
		{"permission denied", `DELETE FROM account_plan`},
		{"permission denied", `UPDATE account_plan SET from_at = now()`},
		{"permission denied", `UPDATE hold SET plan_price = 0`},
		{"permission denied", `UPDATE plan_counter SET window_start = window_start + 7`},
		{"plan_counter_within_cap", `UPDATE plan_counter SET used = 11 WHERE kind = 'tokens'`},
		{"plan_counter_used_check", `UPDATE plan_counter SET used = -1`},
		{"plan_counter_check",
			`INSERT INTO plan_counter SELECT account_id, 'tokens', 'week', window_start + 1, 0 FROM plan_counter
				WHERE period = 'week'`},
		{"plan_gate_bounds", `UPDATE plan_gate SET open = -1`},
		{"hold_refund", `UPDATE hold SET plan_refunded = true WHERE plan_id IS NOT NULL`},
		{"hold_refund", `UPDATE hold SET plan_refunded = true, state = 'released', closed_at = now() WHERE plan_id IS NULL`},
		{"hold_plan_is_pinned", copyHold("billing_type = 'plan'", "amount = 0")},
		{"the state of its last change", `UPDATE account SET state = 'frozen'`},
		{"the state of its last change",
			`INSERT INTO account_state_change (account_id, state, memo) SELECT id, 'frozen', '' FROM account`},
		{"only_payg_is_charged", copyPlanLine},
	} {
		args := []any{}
		if tc.sql == copyHold("billing_type = 'plan'", "amount = 0") {
			args = append(args, [16]byte(payg.Request))
		}
		if tc.sql == copyPlanLine {
			e.settle(t, usage.Settled, e.served(t, payg, 1))
		}
		refusedSQL(t, e, tc.because, tc.sql, args...)
	}
	for _, tc := range []struct{ because, sql string }{
		{"may not change any more", `UPDATE plan_limit SET tiers = '{3}'`},
		{"may not change any more", `DELETE FROM plan_limit`},
		{"takes no further limit",
			`INSERT INTO plan_limit SELECT plan_id, 'tokens', 'day', 'token', 5, true, '{2}' FROM account_plan`},
		{"may not change any more", `DELETE FROM account_plan`},
	} {
		if _, err := e.owner.Exec(t.Context(), tc.sql); err == nil {
			t.Errorf("%s: accepted from the owner", tc.sql)
		}
	}
	e.sound(t)
}

// copyPlanLine pretends that a plan paid for what was charged.
var copyPlanLine = copyLine("source = 'plan'", fresh)

func TestVerifyNamesEveryDriftOfPlansAndRefunds(t *testing.T) {
	for _, tc := range []struct{ invariant, plant string }{
		{"plan counters are what the plans covered", `UPDATE plan_counter SET used = used + 1 WHERE kind = 'requests'`},
		{"plan counters are what the plans covered", `UPDATE plan_counter SET used = used - 1 WHERE kind = 'tokens'`},
		{"plan counters are what the plans covered", `DELETE FROM plan_counter WHERE kind = 'list_price'`},
		{"plan counters are what the plans covered", `UPDATE hold SET plan_day = plan_day + 40`},
		{"plan counters are what the plans covered",
			`UPDATE hold SET plan_refunded = true WHERE state = 'settled' AND plan_id IS NOT NULL`},
		{"no admission passed the cap of a plan",
			`ALTER TABLE plan_counter DROP CONSTRAINT plan_counter_within_cap, ADD CHECK (used > -1)`},
		{"places in a plan are its open holds without a report", `UPDATE plan_gate SET open = open + 1`},
		{"places in a plan are its open holds without a report", `DELETE FROM plan_gate`},
		{"a refund is the charge of its request",
			`UPDATE posting SET amount = amount + 1 WHERE entry_kind = 'goodwill_refund' AND amount > 0`},
	} {
		t.Run(tc.plant[:min(len(tc.plant), 40)], func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			c := e.subscriber(t, money.USD, limits{requests: 10, images: 10, tokens: 10, rate: 10, concurrent: 10})
			settled, open, payg := e.standard(t, c, 4), e.standard(t, c, 5), e.reservation(t, c, 3)
			e.admit(t, settled, open, payg)
			e.settle(t, usage.Settled, e.served(t, settled, 4), e.served(t, payg, 3))
			if _, err := e.store.Refund(t.Context(), entryID(t), payg.Request, usage.Goodwill, ""); err != nil {
				t.Fatal(err)
			}
			e.sound(t)
			e.exec(t, tc.plant)
			if tc.invariant == "no admission passed the cap of a plan" {
				e.exec(t, `UPDATE plan_counter SET used = 11 WHERE kind = 'tokens'`)
			}
			report, err := audit.Run(t.Context(), e.store)
			if err != nil {
				t.Fatal(err)
			}
			if !named(report, tc.invariant, "") {
				t.Errorf("drift is not named: %+v", report.Invariants)
			}
		})
	}
}
