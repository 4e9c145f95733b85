package store_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// What a row of a table belongs to, if the ledger were divided by account over several
// databases (deploy/scale.md).
const (
	ofAccount  = "account"  // one account: it moves with the account
	everywhere = "copied"   // a rule, a price or a pepper: it is the same in each database
	ofDatabase = "database" // the books of one database, such as its seals
	ofWhole    = "whole"    // all accounts: one database has it
)

var belongs = map[string]string{
	ofAccount: `account account_event account_freeze account_limits account_mark account_plan account_rate
		account_state_change app_user card_alarm card_change card_debt card_dispute_won card_payment card_refund
		card_refund_failure card_reversal category_gate category_tokens checkout consumer_key document
		enterprise_contact entry held_earning hold
		house_account idempotency_account idempotency_claim idempotency_quota key_inflight
		key_rate known_network letter_token mail_outbox orphan_review passbook_line plan_counter plan_gate
		plan_invoice plan_return playground_account posting processor_event provider_mark refresh_token renewal
		request_report session_family slice spend_counter stats_use subscription usage_day usage_series usage_settlement
		used_proof user_identity user_session void_attempt wallet webhook webhook_delivery work_receipt`,
	everywhere: `asset card_listing chart entry_kind pepper plan plan_limit plan_price posting_rule schema_function
		schema_migrations vendor vendor_price`,
	ofDatabase: `balance_snapshot cleared_day closed_day document_number ledger_secret passbook_fold
		playground_day quarantine revaluation seal sign_in_attempt sign_in_count stats_fold stats_sum usage_key
		visitor visitor_session visitor_session_count`,
	ofWhole: `closed_month closed_share operator operator_action operator_session sandbox_event sandbox_invoice
		sandbox_return sandbox_session sandbox_subscription vendor_invoice`,
}

// mayRefer says to what rows may refer, besides rows of their own kind.
var mayRefer = map[string][]string{ofAccount: {everywhere}, ofDatabase: {everywhere}, ofWhole: {everywhere}}

// mustChange are the references that a division would have to replace: a month of plans is shared out over
// the accounts of all databases, and each database needs a series of documents of its own.
var mustChange = []string{"closed_month -> seal", "document -> document_number"}

// TestALedgerCanBeDividedByAccount fails where a new table or reference would tie the accounts of one
// database to those of another.
func TestALedgerCanBeDividedByAccount(t *testing.T) {
	e := setup(t, unlimited)
	kind := map[string]string{}
	for k, tables := range belongs {
		for table := range strings.FieldsSeq(tables) {
			kind[table] = k
		}
	}
	tables := column[string](t, e, `SELECT relname::text FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`)
	if got, want := slices.Sorted(slices.Values(tables)), slices.Sorted(maps.Keys(kind)); !slices.Equal(got, want) {
		t.Errorf("the tables: got\n%q\nand this test knows\n%q", got, want)
	}
	var crossing []string
	for _, reference := range column[string](t, e, `SELECT DISTINCT conrelid::regclass || ' -> ' || confrelid::regclass
		FROM pg_constraint JOIN pg_class c ON c.oid = conrelid
		WHERE contype = 'f' AND conparentid = 0 AND NOT c.relispartition
			AND c.relnamespace = current_schema()::regnamespace`) {
		from, to, _ := strings.Cut(reference, " -> ")
		if kind[from] != kind[to] && !slices.Contains(mayRefer[kind[from]], kind[to]) {
			crossing = append(crossing, reference)
		}
	}
	slices.Sort(crossing)
	if !slices.Equal(crossing, mustChange) {
		t.Errorf("references that a division would have to replace: got\n%q\nwant\n%q", crossing, mustChange)
	}
}

// spanning are the unique indexes of accounts' rows that hold over all accounts and have no id in them. Some of them
// are read before the account is known: there a directory, or a prefix of what is random, must name the database.
var spanning = []string{
	"account: idempotency_key",      // directory: the caller's own name for the account that it makes
	"app_user: email",               // directory: a sign-in begins with it
	"card_alarm: reason,object",     // the object is the processor's
	"card_change: kind,reference",   // the reference is the processor's
	"card_change: number",           // counts the changes of one database
	"card_payment: number",          // counts the payments of one database
	"consumer_key: hash",            // directory or prefix: a request begins with it
	"consumer_key: old_hash",        // directory or prefix: likewise
	"document: series,year,number",  // each database needs a series of its own
	"letter_token: token_sha256",    // prefix: a letter's link begins with it
	"playground_account: expr",      // each database needs one of its own
	"refresh_token: token_sha256",   // prefix: a session is renewed with it
	"used_proof: nonce",             // it is signed together with what it proves
	"user_identity: issuer,subject", // directory: a sign-in begins with it
	"user_session: token_sha256",    // prefix: a user's request begins with it
}

func TestWhatIsUniqueOverAllAccountsIsKnown(t *testing.T) {
	e := setup(t, unlimited)
	got := slices.DeleteFunc(column[string](t, e, `SELECT c.relname || ': ' ||
			(SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = i.indexrelid)
		FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisunique
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indexrelid
				AND (a.atttypid = 'uuid'::regtype OR a.attname ~ '(^|_)id$'))
		ORDER BY 1`), func(index string) bool {
		table, _, _ := strings.Cut(index, ":")
		return !slices.Contains(strings.Fields(belongs[ofAccount]), table)
	})
	if !slices.Equal(got, spanning) {
		t.Errorf("got\n%q\nwant\n%q", got, spanning)
	}
}
