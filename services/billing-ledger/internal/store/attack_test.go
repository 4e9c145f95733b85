package store_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// populated has an open hold, a settled request, an orphan with its entry and a
// quarantined event.
func populated(t *testing.T) (*env, consumer, hold.Reservation) {
	t.Helper()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	open, settled, orphan, quarantined := e.reservation(t, c, 4), e.reservation(t, c, 4), e.reservation(t, c, 4),
		e.reservation(t, c, 4)
	for _, reservation := range []hold.Reservation{open, settled, orphan} {
		e.admitOne(t, reservation, hold.Admitted)
	}
	e.settle(t, usage.Settled, e.served(t, settled, 3))
	e.release(t, orphan.Request)
	e.settle(t, usage.Orphaned, e.served(t, orphan, 3))
	e.settle(t, usage.UnknownRequest, e.served(t, quarantined, 3))
	e.sound(t)
	return e, c, open
}

// refusedSQL runs a statement as the application role, in a transaction with
// its commit, and wants it refused for the reason given.
func refusedSQL(t *testing.T, e *env, because, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(t.Context(), sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			t.Errorf("%s: touches no row, so it shows nothing", sql)
		}
		return err
	})
	if err == nil {
		t.Errorf("%s: accepted", sql)
	} else if !strings.Contains(err.Error(), because) {
		t.Errorf("%s: refused by %v, want %q", sql, err, because)
	}
}

func TestApplicationRoleMayOnlyAddToTheLedger(t *testing.T) {
	e, _, _ := populated(t)
	for table, column := range map[string]string{
		"entry": "memo = 'x'", "posting": "amount = -amount", "usage_settlement": "charged = 0",
		"request_report": "total_ms = 0", "renewal": "request_id = request_id", "orphan_review": "opened_at = now()",
		"quarantine": "detail = ''", "chart": "normal = 'debit'", "posting_rule": "entry_kind = 'x'",
	} {
		refusedSQL(t, e, "permission denied", "UPDATE "+table+" SET "+column)
		refusedSQL(t, e, "permission denied", "DELETE FROM "+table)
		refusedSQL(t, e, "permission denied", "TRUNCATE "+table+" CASCADE")
	}
	for _, sql := range []string{
		"DELETE FROM hold", "DELETE FROM wallet", "DELETE FROM account", "DELETE FROM consumer_key",
		"DELETE FROM key_inflight",
		"TRUNCATE hold", "UPDATE hold SET amount = 0", "UPDATE hold SET expires_at = now()",
		"UPDATE hold SET output_rate = 0",
		"UPDATE account SET state = 'frozen'", "UPDATE consumer_key SET hash = sha256('x')",
		"UPDATE wallet SET account_id = account_id",
		"INSERT INTO chart VALUES ('l:free_money', 'credit', false)",
		"INSERT INTO posting_rule VALUES ('goodwill', 'l:provider:accrued')",
		"CREATE TABLE mine (x int)", "ALTER TABLE wallet DISABLE TRIGGER ALL", "DROP TRIGGER hold_closes_once ON hold",
		"INSERT INTO usage_settlement_default SELECT FROM usage_settlement", "SET session_replication_role = replica",
	} {
		if _, err := e.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: accepted", sql)
		}
	}
}

func TestDatabaseRefusesWhatTheRulesForbid(t *testing.T) {
	e, c, open := populated(t)
	account, key, request := [16]byte(c.account), [16]byte(c.key), [16]byte(open.Request)
	for _, tc := range []struct {
		because, sql string
		args         []any
	}{
		{"wallet_bounds", `UPDATE wallet SET posted = -1, held = -1`, nil},
		{"wallet_bounds", `UPDATE wallet SET held = posted + 1`, nil},
		{"wallet_ceiling", `UPDATE wallet SET posted = 1000000000000000001`, nil},
		{"key_inflight_bounds", `UPDATE key_inflight SET n = -1 WHERE key_id = $1`, []any{key}},
		{"may not change any more", `UPDATE hold SET state = 'released', closed_at = now() WHERE state = 'settled'`, nil},
		{"may not change any more", `UPDATE hold SET state = 'open', closed_at = NULL WHERE state = 'released'`, nil},
		{"hold_check", `UPDATE hold SET closed_at = now() WHERE request_id = $1`, []any{request}},
		{"may not change any more", `UPDATE hold SET expires_at = expires_at - interval '1 second' WHERE request_id = $1`,
			[]any{request}},
		{"may not change any more", `UPDATE hold SET expires_at = expires_at + interval '1 day' WHERE state = 'settled'`,
			nil},
		{"is to be reviewed",
			`WITH r AS (INSERT INTO renewal VALUES ($1, 1, 'h', gen_random_uuid(), 1, 1) RETURNING request_id)
			UPDATE hold SET state = 'expired', closed_at = now() FROM r WHERE hold.request_id = r.request_id`, []any{request}},
		{"hold_check", `UPDATE hold SET state = 'released' WHERE request_id = $1`, []any{request}},
		{"hold_state_check", `UPDATE hold SET state = 'gone', closed_at = now() WHERE request_id = $1`, []any{request}},
		{"may not change any more", copyHold("state = 'settled', closed_at = now()"), []any{request}},
		{"hold_amount_check", copyHold("amount = -1"), []any{request}},
		{"hold_check", copyHold("billing_type = 'free'"), []any{request}},
		{"hold_check", copyHold("payout_output_rate = output_rate + 1"), []any{request}},
		{"hold_pkey", copyHold("amount = 1", "request_id = request_id"), []any{request}},
		{"consumer_key_hash_key",
			`INSERT INTO consumer_key (id, account_id, name, hash, prefix) SELECT gen_random_uuid(), account_id, '', hash, ''
				FROM consumer_key`, nil},
		{"account_limits_requests_per_minute_check", `INSERT INTO account_limits VALUES ($1, -2, 0)`, []any{account}},
		{"key_rate_class_check", `INSERT INTO key_rate VALUES ($1, 7, now())`, []any{key}},

		{"usage_settlement_", copyLine(""), nil}, // its key: the same request on the same day
		{"day_of_request", copyLine("day = day + 1"), nil},
		{"payout_within_list_price", copyLine("payout = list_price + 1", fresh), nil},
		{"payout_within_list_price", copyLine("payout = -1", fresh), nil},
		{"are not the list price", copyLine("charged = charged - 1", fresh), nil},
		{"are not the list price", copyLine("charged = 0, discount = list_price", fresh), nil},
		{"only_payg_is_charged", copyLine("source = 'orphan'", fresh), nil},
		{"free_costs_nothing", copyLine("source = 'free', charged = 0", fresh), nil},
		{"shortfall_check", copyLine("shortfall = -1, charged = charged + 1", fresh), nil},
		{"payload_hash_check", copyLine("payload_hash = 'short'::bytea", fresh), nil},
		{"non-DEFAULT value into column",
			`INSERT INTO usage_settlement (day, request_id, fee) VALUES (now(), gen_random_uuid(), 5)`, nil},

		{"that sum to", `INSERT INTO entry (id, kind, business_id) VALUES (gen_random_uuid(), 'goodwill', 'lonely')`, nil},
		{"that sum to",
			`INSERT INTO posting SELECT entry_id, 3, entry_kind, account_kind, account_owned, owner_id, -5 FROM posting
				WHERE leg = 1`, nil},
		{"that sum to", twoLegs("'e:goodwill', false, NULL::uuid, -5", "'l:consumer:available', true, gen_random_uuid(), 6"),
			nil},
		{"posting_amount_check", twoLegs("'e:goodwill', false, NULL::uuid, 0",
			"'l:consumer:available', true, gen_random_uuid(), 0"), nil},
		{"posting_rule_fkey", twoLegs("'e:goodwill', false, NULL::uuid, -5",
			"'l:provider:accrued', true, gen_random_uuid(), 5"), nil},
		{"posting_account_fkey", twoLegs("'e:goodwill', false, NULL::uuid, -5",
			"'l:consumer:available', false, NULL::uuid, 5"), nil},
		{"posting_check", twoLegs("'e:goodwill', false, NULL::uuid, -5", "'l:consumer:available', true, NULL::uuid, 5"), nil},
		{"entry_kind_business_id_key", `INSERT INTO entry SELECT gen_random_uuid(), kind, business_id, memo FROM entry`, nil},
	} {
		refusedSQL(t, e, tc.because, tc.sql, tc.args...)
	}
	e.sound(t)
}

func TestRevokedKeysStayRevoked(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	if err := e.keys.Revoke(t.Context(), c.key); err != nil {
		t.Fatal(err)
	}
	refusedSQL(t, e, "may not change any more", `UPDATE consumer_key SET state = 'active', revoked_at = NULL`)
}

// fresh gives a copied row another request of the same day.
const fresh = "request_id = overlay(request_id::text placing '00' from 35)::uuid"

// copyHold inserts the hold $1 again as another request, with changes.
func copyHold(changes ...string) string {
	return copyRow("hold", "request_id = $1", append([]string{"request_id = gen_random_uuid()"}, changes...))
}

// copyLine inserts the payg line again with changes.
func copyLine(changes ...string) string {
	return copyRow("usage_settlement", "source = 'payg'", changes)
}

// copyRow is an INSERT of a row of table with some columns set anew; the later
// of two settings of a column counts.
func copyRow(table, where string, changes []string) string {
	set := map[string]string{}
	for _, change := range changes {
		for _, one := range strings.Split(change, ", ") {
			if name, value, ok := strings.Cut(one, " = "); ok {
				set[name] = value
			}
		}
	}
	columns := map[string]string{
		"hold": `request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens, max_completion_tokens, pinned,
			price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, rate_limit, rate_remaining,
			rate_reset_at, state, admitted_at, expires_at, closed_at`,
		"usage_settlement": `day, request_id, account_id, key_id, provider_id, hub_id, attempt, epoch, model_id,
			price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, prompt_tokens, completion_tokens,
			list_price, payout, charged, shortfall, source, ending, claim_state, claimed_prompt, claimed_completion,
			recounted_completion, delivered_bytes, estimated_prompt, route_mode, requested_provider, fallback_reason,
			payload_hash, first_content_ms, connection_mode`,
	}[table]
	var names, values []string
	for _, name := range strings.Split(columns, ",") {
		name = strings.TrimSpace(name)
		names = append(names, name)
		if value, ok := set[name]; ok {
			values = append(values, value)
		} else {
			values = append(values, name)
		}
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") +
		" FROM " + table + " WHERE " + where
}

func twoLegs(first, second string) string {
	return `WITH e AS (INSERT INTO entry (id, kind, business_id)
		VALUES (gen_random_uuid(), 'goodwill', gen_random_uuid()::text) RETURNING id, kind)
		INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
		SELECT id, 1, kind, ` + first + ` FROM e UNION ALL SELECT id, 2, kind, ` + second + ` FROM e`
}
