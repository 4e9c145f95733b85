package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// besieged has a row in every table.
func besieged(t *testing.T) *env {
	t.Helper()
	e, c, open := populated(t)
	account, key, request := [16]byte(c.account), [16]byte(c.key), [16]byte(open.Request)
	e.pushBack(t, 2)
	e.sealDue(t)
	if err := e.keys.Revoke(t.Context(), e.consumer(t, 0).key); err != nil {
		t.Fatal(err)
	}
	if _, err := e.accounts.Create(t.Context(), "other", "taken"); err != nil {
		t.Fatal(err)
	}
	e.exec(t, `INSERT INTO closed_day VALUES (now()::date - 11)`)
	e.exec(t, `INSERT INTO cleared_day SELECT min(day) FROM seal`)
	e.exec(t, `INSERT INTO account_limits VALUES ($1, 0, 0)`, account)
	e.exec(t, `INSERT INTO category_gate VALUES ($1, 1, 1)`, account)
	e.exec(t, `INSERT INTO category_tokens VALUES ($1, 1, now()::date, 1, 5)`, account)
	e.exec(t, `INSERT INTO house_account (account_id) VALUES ($1)`, account)
	e.exec(t, `INSERT INTO idempotency_quota VALUES ($1, 1)`, key)
	e.exec(t, `INSERT INTO idempotency_account VALUES ($1, 1)`, account)
	e.exec(t, `INSERT INTO visitor VALUES (sha256('v'), '{}', now())`)
	e.exec(t, `INSERT INTO visitor_session VALUES (sha256('s'), sha256('v'), 1, now(), now() + interval '1 hour')`)
	e.exec(t, `INSERT INTO playground_account (account_id) VALUES ($1)`, account)
	e.exec(t, `INSERT INTO playground_day VALUES ((now() AT TIME ZONE 'UTC')::date, 5)`)
	e.exec(t, `INSERT INTO app_user VALUES (gen_random_uuid(), 'a@x', '', '$argon2id$v=19$m=1', $1, gen_random_uuid())`,
		account)
	e.exec(t, `INSERT INTO held_earning SELECT request_id, day, account_id, provider_id, 'same_user', '', payout
		FROM usage_settlement WHERE source = 'payg' LIMIT 1`)
	e.exec(t, `INSERT INTO user_session SELECT sha256('s'), id, now(), now() + interval '1 minute' FROM app_user`)
	e.besiegeUsers(t)
	e.exec(t, `INSERT INTO sign_in_attempt VALUES (sha256('e'), '{}', '{}', now())`)
	e.exec(t, `INSERT INTO sign_in_count VALUES (sha256('e'), sha256('n'), now())`)
	e.exec(t, `INSERT INTO known_network SELECT id, sha256('n'), now() FROM app_user`)
	e.exec(t, `INSERT INTO idempotency_claim VALUES ($1, sha256('t'), sha256('r'), gen_random_uuid(), 'running', now(),
		now(), NULL)`, key)
	e.exec(t, `INSERT INTO key_rate VALUES ($1, 1, now())`, key)
	e.exec(t, `INSERT INTO spend_counter VALUES ($1, 'none', '1970-01-01', 1, 1, 2)`, key)
	e.exec(t, `INSERT INTO account_rate SELECT account_id, 4, now() FROM consumer_key WHERE id = $1`, key)
	e.exec(t, `INSERT INTO renewal VALUES ($1, 1, 'h', gen_random_uuid(), 5, 5)`, request)
	e.exec(t, `INSERT INTO orphan_review VALUES ($1, 1, now())`, request)
	e.exec(t, `INSERT INTO work_receipt VALUES ($1, 1, gen_random_uuid(), 1, 'h', 'm', 1, 1, 1, 1, true, now(),
		'x', sha256('x'), sha256('x') || sha256('x'))`, request)
	e.exec(t, `INSERT INTO usage_key VALUES ('h', 'keykeyke', sha256('k'))`)
	e.exec(t, `INSERT INTO ledger_secret VALUES (true, sha256('s'))`)
	e.exec(t, `INSERT INTO void_attempt VALUES ($1, 1, 'h', gen_random_uuid())`, request)
	e.exec(t, `INSERT INTO plan VALUES ('new')`)
	e.exec(t, `INSERT INTO account_plan VALUES ($1, 'pro', now() - interval '1 day')`, account)
	e.exec(t, `INSERT INTO plan_gate VALUES ($1, 0, now())`, account)
	e.exec(t, `INSERT INTO plan_counter VALUES ($1, 'tokens', 'week', date_trunc('week', now())::date, 1, 5)`, account)
	e.exec(t, `INSERT INTO account_state_change (account_id, state, memo) VALUES ($1, 'open', '')`, account)
	e.exec(t, `INSERT INTO closed_month SELECT '2000-01', min(day), 6, 7, 6, 1 FROM seal`)
	e.exec(t, `INSERT INTO closed_share VALUES ('2000-01', $1, 7, 6, 2, 1)`, account)
	e.exec(t, `INSERT INTO revaluation SELECT (now() AT TIME ZONE 'UTC')::date, '254:native', 1, 2, 3, gen_random_uuid()`)
	e.exec(t, `INSERT INTO vendor (vendor_id) VALUES (gen_random_uuid())`)
	e.exec(t, `INSERT INTO vendor_price VALUES (gen_random_uuid(), 1)`)
	e.exec(t, `INSERT INTO vendor_invoice (vendor_id, number, amount, counted, note, asked_by, paid_by, paid_at)
		SELECT vendor_id, '1', 5, 5, 'n', 'operator:a@1', 'operator:a@1', now() FROM vendor`)
	e.besiegeSlices(t, account)
	e.besiegeCards(t)
	e.besiegePlans(t)
	e.besiegePassbook(t, account)
	e.besiegeWebhooks(t, account)
	e.besiegeContacts(t, account)
	e.besiegeStats(t, account)
	e.exec(t, `INSERT INTO account_mark VALUES ($1, sha256('m'), 'card')`, account)
	e.exec(t, `INSERT INTO provider_mark VALUES (gen_random_uuid(), sha256('m'), 'card')`)
	return e
}

func (e *env) besiegeStats(t *testing.T, account [16]byte) {
	t.Helper()
	e.exec(t, `INSERT INTO stats_sum VALUES (60, date_trunc('hour', now()), 'm', '00000000-0000-0000-0000-000000000000',
		2, 1, 1, 0, 5, '{}', '{}')`)
	e.exec(t, `INSERT INTO stats_use VALUES (date_trunc('hour', now()), 'm', '00000000-0000-0000-0000-000000000000', $1,
		1, 0)`, account)
}

// besiegePlans has a row in every table of plans that are sold.
func (e *env) besiegePlans(t *testing.T) {
	t.Helper()
	e.exec(t, `WITH b AS (INSERT INTO subscription (id, account_id, plan_id, price_cents, checkout_id, object_id, state,
			period_start, period_end)
		SELECT gen_random_uuid(), a.id, 'pro', 600, c.id, 'sub', 'active', now(), now() + interval '1 month'
		FROM account a, checkout c WHERE c.state = 'paid' AND a.idempotency_key = 'taken' LIMIT 1
		RETURNING id, account_id, period_start, period_end)
	INSERT INTO plan_invoice (id, subscription_id, account_id, payment_id, cents, period_start, period_end, paid_at, month,
			entry_id)
		SELECT 'in', id, account_id, 'pi', 600, period_start, period_end, now(), '2026-01', gen_random_uuid() FROM b`)
	e.exec(t, `INSERT INTO plan_return VALUES ('re', 'in', 100, '2026-01', gen_random_uuid())`)
}

// besiegeCards has a row in every table of card payments, and a second checkout and
// session, which are open.
func (e *env) besiegeCards(t *testing.T) {
	t.Helper()
	e.exec(t, `WITH c AS (INSERT INTO checkout (id, purpose, provider_id, cents, fee_cents, processor, livemode,
			return_url, session_id, url, state, expires_at, paid_at)
		SELECT gen_random_uuid(), 'collateral', gen_random_uuid(), 2000, 0, 'sandbox', false, 'x', s, s, state, now(), paid
		FROM (VALUES (NULL, 'created', NULL::timestamptz), ('cs', 'paid', now())) AS v (s, state, paid)
		RETURNING id, state),
	p AS (INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents, entry_id)
		SELECT 'pi', id, 2000, 'bt', 88, gen_random_uuid() FROM c WHERE state = 'paid' RETURNING checkout_id)
	INSERT INTO card_change (number, kind, checkout_id, reference, cents, entry_id)
		SELECT n, 'paid', checkout_id, 'cs' || n, 2000, gen_random_uuid() FROM p, generate_series(1, 2) AS n`)
	e.exec(t, `INSERT INTO card_refund (id, payment_id, cents, on_card) VALUES (gen_random_uuid(), 'pi', 100, true)`)
	e.exec(t, `INSERT INTO card_refund_failure SELECT 're', id, 1, gen_random_uuid() FROM card_refund`)
	e.exec(t, `INSERT INTO card_reversal VALUES ('dp', 'pi', 'dispute', 100, gen_random_uuid())`)
	e.exec(t, `INSERT INTO card_dispute_won VALUES ('dp', gen_random_uuid())`)
	e.exec(t, `INSERT INTO card_debt (reversal_id, account_id, owed) SELECT 'dp', id, 5 FROM account LIMIT 1`)
	e.exec(t, `INSERT INTO account_freeze (account_id, cause, ref) SELECT account_id, 'debt', 'dp' FROM card_debt`)
	e.exec(t, `INSERT INTO processor_event VALUES ('evt', sha256('e'), 'session', 'cs')`)
	e.exec(t, `INSERT INTO card_listing VALUES ('sandbox')`)
	e.exec(t, `INSERT INTO card_alarm VALUES ('foreign', 'cs', '')`)
	e.exec(t, `INSERT INTO sandbox_session (id, checkout, purpose, provider, account, description, return_url, cents,
			expires_at, payment_id, cost_id, paid_at) VALUES
		('sbx_cs_1_with_a_long_id', '1', '', '', '', '', '', 2000, now(), 'pi', 'bt', now()),
		('sbx_cs_2_with_a_long_id', '2', '', '', '', '', '', 2000, now(), NULL, NULL, NULL)`)
	e.exec(t, `INSERT INTO sandbox_return VALUES ('sbx_dp_1_with_a_long_id', 'sbx_cs_1_with_a_long_id', 'dispute', 100)`)
	e.exec(t, `INSERT INTO sandbox_subscription VALUES ('sbx_sub_1_with_a_long_id', 'sbx_cs_1_with_a_long_id', now(),
		false, false, NULL, now())`)
	e.exec(t, `INSERT INTO sandbox_invoice VALUES ('sbx_in_1_with_a_long_id', 'sbx_sub_1_with_a_long_id', 1, now(),
		now() + interval '1 month', 1, 'sbx_cs_1_with_a_long_id')`)
	e.exec(t, `INSERT INTO sandbox_event VALUES ('evt', 'x', 'x')`)
}

// copied is which row of a table is inserted again.
var copied = map[string]string{
	"hold": "state = 'open'", "usage_settlement": "source = 'payg'", "posting": "account_kind = 'l:consumer:available'",
	"entry": "kind = 'goodwill'", "consumer_key": "state = 'active'", "plan_limit": "kind = 'tokens' AND period = 'week'",
	"seal": "previous IS NOT NULL", "account": "idempotency_key = 'taken'", "chart": "kind = 'e:gas'",
	"posting_rule": "entry_kind = 'gas'", "document": "series = 'R'",
	"plan": "id = 'new'", "entry_kind": "kind = 'gas'", "asset": "id = 'usd'", "operator": "name = 'ivy'",
}

// again inserts a row of a table again, with the columns that role may write.
func (e *env) again(t testing.TB, as *pgxpool.Pool, table, changes string) string {
	t.Helper()
	rows, err := as.Query(t.Context(), `SELECT attname::text FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = ''
			AND has_column_privilege(attrelid, attname, 'INSERT') ORDER BY attnum`, table)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	if table == "entry" || table == "usage_settlement" {
		set["at"], set["settled_at"] = "now()", "now()"
	}
	for _, change := range splitChanges(changes) {
		name, value, ok := strings.Cut(change, " = ")
		if !ok {
			t.Fatalf(`%s: %q as a change of a column: ok of strings.Cut(change, " = "): got false, want true`, table, change)
		}
		if !slices.Contains(names, name) {
			t.Fatalf("%s: %q as a change of a column: names: got %q, want %q in it", table, change, names, name)
		}
		set[name] = value
	}
	values := slices.Clone(names)
	for i, name := range names {
		if value, ok := set[name]; ok {
			values[i] = value
		}
	}
	where := "true"
	if w, ok := copied[table]; ok {
		where = w
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") +
		" FROM (SELECT * FROM " + table + " WHERE " + where + " LIMIT 1) AS " + table
}

// splitChanges splits at commas outside of parentheses and quotes.
func splitChanges(changes string) []string {
	if changes == "=" {
		return nil
	}
	var out []string
	depth, from, quoted := 0, 0, false
	for i, c := range changes {
		switch {
		case c == '\'':
			quoted = !quoted
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0 && !quoted:
			out = append(out, strings.TrimSpace(changes[from:i]))
			from = i + 1
		}
	}
	return append(out, strings.TrimSpace(changes[from:]))
}

// rootOf stands for @root(previous, day): the root that a seal would have.
func rootOf(changes string) string {
	before, call, ok := strings.Cut(changes, "@root(")
	if !ok {
		return changes
	}
	inside := call[:strings.LastIndex(call, ")")]
	cut := strings.LastIndex(inside, ",")
	return before + "sha256(int2send(version) || coalesce(" + inside[:cut] +
		", decode(repeat('00', 32), 'hex')) || date_send(" +
		strings.TrimSpace(inside[cut+1:]) + ") || int8send(lines) || int8send(entries) || int8send(postings) || digest)"
}

func TestEveryConstraintAndTriggerWithstandsItsAttack(t *testing.T) {
	e := besieged(t)
	attacked := map[string]bool{}
	list := strings.TrimSpace(attacks) + "\n" + strings.TrimSpace(cardAttacks) + "\n" +
		strings.TrimSpace(sandboxAttacks) + "\n" + strings.TrimSpace(planAttacks) + "\n" +
		strings.TrimSpace(userAttacks) + "\n" + strings.TrimSpace(passbookAttacks) + "\n" +
		strings.TrimSpace(visitorAttacks) + "\n" + strings.TrimSpace(webhookAttacks) + "\n" +
		strings.TrimSpace(operatorAttacks) + "\n" + strings.TrimSpace(vendorAttacks) + "\n" +
		strings.TrimSpace(contactAttacks) + "\n" + strings.TrimSpace(sliceAttacks)
	for _, line := range strings.Split(strings.ReplaceAll(list, "\n\t", " "), "\n") {
		object, attack, _ := strings.Cut(line, " | ")
		table, name, _ := strings.Cut(object, " ")
		attack, want, ok := strings.Cut(attack, " => ")
		if !ok {
			want = name
		}
		attacked[object] = true
		sql := func(as *pgxpool.Pool) string {
			if raw, ok := strings.CutPrefix(attack, "! "); ok {
				return raw
			}
			return e.again(t, as, table, rootOf(attack))
		}
		var refusal *pgconn.PgError
		if scan[bool](t, e, `SELECT has_any_column_privilege('svc_billing', $1::regclass, 'INSERT')`, table) {
			refusal = e.attack(t, e.pool, sql(e.pool))
		} else {
			refusal = &pgconn.PgError{Code: "42501"}
		}
		if refusal != nil && refusal.Code == "42501" {
			// Not the application's to write; the rule binds the owner too.
			if role := e.attack(t, e.pool, sql(e.owner)); role == nil {
				t.Errorf("%s: the application's role is refused: got no error, want one", object)
			} else if role.Code != "42501" {
				t.Errorf(`%s: the application's role is refused: role.Code: got %q, want "42501"`, object, role.Code)
			}
			refusal = e.attack(t, e.owner, sql(e.owner))
		}
		switch {
		case refusal == nil:
			t.Errorf("%s: %s: accepted", object, attack)
		case refusal.ConstraintName != want &&
			!strings.Contains(refusal.ConstraintName+" "+refusal.Message+" "+refusal.Detail+" "+refusal.Hint, want):
			t.Errorf("%s: %s: refused by %s %q, want %q", object, attack, refusal.ConstraintName, refusal.Message, want)
		}
	}
	for _, object := range column[string](t, e, `SELECT r.relname || ' ' || x.name FROM pg_class r JOIN (
			SELECT conrelid AS oid, conname AS name FROM pg_constraint WHERE contype IN ('c', 'f', 'p', 'u', 'x')
				AND conparentid = 0
			UNION SELECT tgrelid, tgname FROM pg_trigger WHERE NOT tgisinternal
				-- They refuse nothing.
				AND tgname NOT IN ('wallet_low', 'wallet_low_set', 'account_mark_bound', 'provider_mark_bound',
					'account_mark_is_its_providers', 'app_user_provider_is_marked', 'card_payment_marks')
			UNION SELECT indrelid, i.relname FROM pg_index JOIN pg_class i ON i.oid = indexrelid
				WHERE indisunique AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)) x USING (oid)
		WHERE r.relnamespace = current_schema()::regnamespace AND NOT r.relispartition AND r.relname NOT LIKE 'schema\_%'`) {
		if !attacked[object] {
			t.Errorf("nothing attacks %s", object)
		}
		delete(attacked, object)
	}
	for object := range attacked {
		t.Errorf("%s is attacked, and is not there", object)
	}
}

// TestEveryRuleOfAHoldIsAttacked fails where hold_is_sound has a rule that no attack breaks.
func TestEveryRuleOfAHoldIsAttacked(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("functions", "hold_is_sound.sql"))
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile(`THEN '(\w+)'`).FindAllSubmatch(text, -1)
	if len(rules) == 0 {
		t.Fatal("rules: got none, want some")
	}
	list := strings.ReplaceAll(attacks, "\n\t", " ")
	for _, rule := range rules {
		if want := regexp.MustCompile(`(?m)^hold hold_is_sound \| .* => ` + string(rule[1]) + `$`); !want.MatchString(list) {
			t.Errorf("attacks on the rule %s: got none, want one", rule[1])
		}
	}
}

// attack runs a statement with its commit and undoes it if that succeeds.
func (e *env) attack(t testing.TB, as *pgxpool.Pool, sql string) *pgconn.PgError {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), as, func(tx pgx.Tx) error {
		for _, statement := range strings.Split(sql, "; ") {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		_, err := tx.Exec(t.Context(), `SET CONSTRAINTS ALL IMMEDIATE`)
		if err == nil {
			err = errAccepted
		}
		return err
	})
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal
	}
	if !errors.Is(err, errAccepted) {
		t.Fatalf("%s: got the error %v, want %v", sql, err, errAccepted)
	}
	return nil
}

var errAccepted = errors.New("accepted")

// What the role may do to each table; everything else is refused by the server.
func TestTheApplicationsRoleHasTheseRightsAndNoOthers(t *testing.T) {
	e := setup(t, unlimited)
	may := map[string]string{
		"account_event": "DELETE SELECT INSERT(id,account_id,kind,data,at) UPDATE(pending)",
		"webhook": "DELETE SELECT INSERT(id,account_id,url,description,kinds,secret) UPDATE(url,description,kinds,secret," +
			"previous,previous_until,note,tested_at,failures,failing_since,paused_until,dropped,next_at,busy_until,served_at," +
			"earlier,earlier_until)",
		"webhook_delivery": "DELETE SELECT INSERT(webhook_id,event_id) " +
			"UPDATE(state,attempt,first_at,tried_at,due_at,status,problem)",
		"enterprise_contact": "DELETE SELECT INSERT(id,account_id,idempotency_key,company,message) " +
			"UPDATE(answered_at,answered_by)",
		"admission_key": "SELECT",
		"slice": "DELETE SELECT INSERT(account_id,owner,address,amount,places,alive_until,reclaim_after) " +
			"UPDATE(address,amount,places,alive_until,state,recalled,reclaim_at)",
		"account":       "INSERT SELECT UPDATE(state)",
		"account_mark":  "SELECT INSERT(account_id,evidence,cause)",
		"provider_mark": "SELECT INSERT(provider_id,evidence,cause)",
		"account_limits": "INSERT SELECT UPDATE(requests_per_minute,concurrent_requests,day_cap,month_cap,own_day_cap," +
			"own_month_cap,account_per_minute,class_per_minute,class_concurrent,class_tokens,discount,priority,terms_note)",
		"category_gate": "INSERT SELECT UPDATE(open)", "category_tokens": "INSERT SELECT UPDATE(used,cap,excess)",
		"account_plan": "INSERT SELECT INSERT(subscription_id) UPDATE(until_at)", "account_state_change": "INSERT SELECT",
		"plan_price": "SELECT",
		"subscription": "SELECT INSERT(id,account_id,plan_id,price_cents,checkout_id,object_id,state,period_start," +
			"period_end,cause,ended_at,due_at) UPDATE(object_id,state,period_start,period_end,cancel_at_period_end,cause," +
			"ended_at,due_at,tell_at)",
		"plan_invoice": "SELECT INSERT(id,subscription_id,account_id,payment_id,cents,period_start,period_end,paid_at," +
			"month,entry_id,refund_cause,refund_due_at) UPDATE(refund_cause,refund_due_at,refund_looks)",
		"plan_return": "SELECT INSERT(id,invoice_id,cents,month,entry_id)",
		"app_user":    "INSERT SELECT UPDATE(password_hash,provider_id,email_confirmed_at)",
		"session_family": "DELETE SELECT INSERT(id,user_id,network,remembered,expires_at) " +
			"UPDATE(network,used_at,expires_at,ended_at,cause)",
		"user_identity": "DELETE SELECT INSERT(id,user_id,issuer,subject,evidence) UPDATE(used_at)",
		"used_proof":    "DELETE SELECT INSERT(nonce,user_id,expires_at) UPDATE(expires_at)",
		"refresh_token": "DELETE SELECT INSERT(token_sha256,family_id,expires_at) UPDATE(used_at,sealed)",
		"mail_outbox":   "DELETE SELECT INSERT(kind,recipient,user_id) UPDATE(due_at,tries)",
		"letter_token":  "DELETE SELECT INSERT(token_sha256,user_id,kind,email,expires_at) UPDATE(expires_at)",
		"ledger_secret": "INSERT SELECT", "usage_key": "INSERT SELECT",
		"asset": "SELECT", "balance_snapshot": "INSERT SELECT", "chart": "SELECT", "cleared_day": "SELECT",
		"closed_day":   "SELECT INSERT(day)",
		"closed_month": "SELECT INSERT(month,through,pool,earned,paid,providers)", "closed_share": "INSERT SELECT",
		"checkout": "SELECT " +
			"INSERT(id,purpose,provider_id,account_id,cents,fee_cents,processor,livemode,return_url,expires_at," +
			"plan_id) UPDATE(session_id,url,state,expires_at,paid_at,due_at)",
		"card_payment": "SELECT " +
			"INSERT(id,checkout_id,cents,cost_id,cost_cents,entry_id,invoice_id,card_fingerprint,charged_before) UPDATE(id)",
		"card_refund": "SELECT INSERT(id,payment_id,cents,on_card,due_at,entry_id,asked_by,note) " +
			"UPDATE(state,object_id,ended_at,due_at,looks,attempt)",
		"card_refund_failure": "SELECT INSERT(object_id,refund_id,attempt,entry_id)",
		"card_reversal":       "SELECT INSERT(id,payment_id,cause,cents,entry_id)",
		"card_dispute_won":    "SELECT INSERT(reversal_id,entry_id)",
		"card_change":         "SELECT INSERT(kind,checkout_id,reference,cents,entry_id)",
		"processor_event":     "SELECT INSERT(id,sha256,object_kind,object_id,due_at,processor) UPDATE(due_at,looks)",
		"card_listing":        "SELECT INSERT(processor) UPDATE(through,due_at)",
		"card_alarm":          "SELECT INSERT(reason,object,detail) UPDATE(closed_at,closed_by)",
		"sandbox_session": "SELECT INSERT(id,checkout,purpose,provider,account,description,return_url,cents,expires_at," +
			"payment_id,cost_id,cost_cents,paid_at,plan,card) UPDATE(declined,payment_id,cost_id,cost_cents,paid_at,card)",
		"sandbox_return": "SELECT INSERT(id,session_id,kind,cents,key) UPDATE(won_at,failed_at,lost_at)",
		"sandbox_event":  "SELECT INSERT(id,type,object) UPDATE(due_at,tries)",
		"consumer_key": "INSERT SELECT UPDATE(name,hash,prefix,state,allowed_models,expires_at,revoked_at,include_usage," +
			"rotated_at,old_hash,old_prefix,old_until,budget,budget_period,pepper,old_pepper)",
		"pepper":        "SELECT INSERT(number,fingerprint) UPDATE(fingerprint,given_up_at)",
		"spend_counter": "INSERT SELECT UPDATE(spent,held,cap,excess)", "entry": "INSERT SELECT", "entry_kind": "SELECT",
		"evidence": "SELECT",
		"held_earning": "SELECT INSERT(request_id,day,account_id,provider_id,rule,book,payout) " +
			"UPDATE(ended_as,ended_at,reason,withheld)",
		"revaluation": "SELECT INSERT(day,token,units,booked,worth,entry_id)", "withheld_end": "SELECT",
		"account_freeze": "SELECT INSERT(account_id,cause,ref) UPDATE(lifted_at)",
		"card_debt": "SELECT INSERT(reversal_id,account_id,owed) " +
			"UPDATE(paid,lost,undone,payments,due_at)",
		"sandbox_invoice": "SELECT INSERT(id,subscription_id,number,period_start,period_end) " +
			"UPDATE(tries,session_id,void_at)",
		"sandbox_subscription": "SELECT INSERT(id,session_id,period_end,due_at) " +
			"UPDATE(period_end,ends_at_period_end,declines,ended_at,due_at)",
		"operator": "SELECT INSERT(id,name,role,ticket_sha256,ticket_at,ticket_until) " +
			"UPDATE(role,state,ticket_sha256,ticket_at,ticket_until,password_hash,totp_sealed,totp_step,active_since," +
			"totp_pepper)",
		"operator_session":  "DELETE SELECT INSERT(id,operator_id,token_sha256,network,expires_at) UPDATE(used_at,ended_at)",
		"card_payment_back": "SELECT", "common_owner": "SELECT", "granted_credit": "SELECT", "paid_deposit": "SELECT",
		"kin":      "SELECT",
		"hold":     "INSERT SELECT UPDATE(plan_refunded,state,expires_at,closed_at)",
		"hold_leg": "SELECT", "account_rate": "INSERT SELECT UPDATE(full_at)",
		"key_inflight":        "INSERT SELECT UPDATE(n,used_at)",
		"key_rate":            "INSERT SELECT UPDATE(full_at)",
		"house_account":       "SELECT INSERT(account_id)",
		"idempotency_account": "INSERT SELECT UPDATE(live)",
		"idempotency_claim":   "DELETE INSERT SELECT UPDATE(state,leased_until,sealed,kept_slot)",
		"idempotency_quota":   "INSERT SELECT UPDATE(live)",
		"ledger_leg":          "SELECT", "operator_action": "SELECT INSERT(actor,action,subject,detail)",
		"orphan_review": "INSERT SELECT UPDATE(publications,next_at)", "plan": "SELECT",
		"plan_counter": "INSERT SELECT UPDATE(used,cap,excess)", "plan_gate": "INSERT SELECT UPDATE(open,full_at)",
		"plan_limit": "SELECT",
		"posting":    "INSERT SELECT", "posting_rule": "SELECT", "quarantine": "INSERT SELECT",
		"work_receipt": "INSERT SELECT",
		"renewal": "INSERT SELECT " +
			"UPDATE(committed_attempt,hub_id,provider_id,relayed_tokens,relayed_bytes,renewed_at)",
		"schema_migrations": "SELECT", "schema_function": "SELECT",
		"seal":      "SELECT INSERT(day,version,lines,entries,postings,digest,previous,root)",
		"usage_leg": "SELECT", "usage_settlement": "INSERT SELECT",
		"sign_in_count": "DELETE INSERT SELECT UPDATE(full_at)", "known_network": "DELETE INSERT SELECT UPDATE(used_at)",
		"sign_in_attempt": "DELETE INSERT SELECT UPDATE(made_at,networks,expires_at)",
		"user_session":    "DELETE SELECT INSERT(token_sha256,user_id,expires_at,family_id) UPDATE(expires_at)",
		"void_attempt":    "DELETE SELECT INSERT(request_id,attempt,hub_id,provider_id)",
		"visitor":         "DELETE INSERT SELECT UPDATE(taken_at,expires_at)",
		"visitor_session": "DELETE INSERT SELECT", "visitor_session_count": "SELECT UPDATE(live)",
		"playground_account": "SELECT INSERT(account_id)", "playground_day": "INSERT SELECT UPDATE(budget)",
		"document":        "SELECT INSERT(series,account_id,at,amount,entry_id,month,body)",
		"stats_fold":      "SELECT UPDATE(until_at,last)",
		"stats_sum":       "DELETE INSERT SELECT UPDATE(requests,judged,succeeded,retried,tokens,ttft,speed,accounts)",
		"stats_use":       "DELETE INSERT SELECT UPDATE(served,failed)",
		"document_number": "SELECT", "passbook_fold": "SELECT UPDATE(until_at,invoice_month,invoiced)",
		"passbook_line": "INSERT SELECT", "vendor": "INSERT SELECT", "vendor_price": "INSERT SELECT",
		"vendor_invoice": "SELECT INSERT(vendor_id,number,amount,counted,note,asked_by,paid_by,paid_at) " +
			"UPDATE(amount,counted,note,asked_by,asked_at,paid_by,paid_at)",
		"usage_day":    "INSERT SELECT UPDATE(requests,prompt_tokens,completion_tokens,charged,covered)",
		"usage_series": "SELECT INSERT(account_id,key_id,model_id,provider_id,source,unit)",
		"wallet":       "INSERT SELECT UPDATE(posted,held,low_at)", "request_report": "INSERT SELECT",
	}
	rows, err := e.owner.Query(t.Context(), `SELECT c.relname::text, concat_ws(' ',
			(SELECT string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type) FROM aclexplode(c.relacl) a
				WHERE a.grantee = 'svc_billing'::regrole),
			(SELECT string_agg(g.right_, ' ' ORDER BY g.right_) FROM (
				SELECT p.privilege_type || '(' || string_agg(a.attname, ',' ORDER BY a.attnum) || ')' AS right_
				FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) p
				WHERE a.attrelid = c.oid AND NOT a.attisdropped AND p.grantee = 'svc_billing'::regrole
					GROUP BY p.privilege_type) g))
		FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v')`)
	if err != nil {
		t.Fatal(err)
	}
	var table, rights string
	if _, err := pgx.ForEachRow(rows, []any{&table, &rights}, func() error {
		if rights != may[table] {
			t.Errorf("%s: the role: got %q, want %q", table, rights, may[table])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if owned := scan[int64](t, e, `SELECT count(*) FROM pg_class WHERE relowner = 'svc_billing'::regrole`); owned != 0 {
		t.Errorf("the role owns: got %d, want 0", owned)
	}
}
