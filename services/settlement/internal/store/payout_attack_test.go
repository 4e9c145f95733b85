package store_test

import (
	"maps"
	"strings"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// Each attack is what a faulty program would do, as the application's role or, where the role's grants would hide the
// constraint, as the owner. $1 is the payout.
// payoutAttack is a statement about a payout that the database refuses.
type payoutAttack struct {
	of      payout.ID
	asOwner bool
	sql     string
	says    string
}

// drafts are payouts that nobody may ask for, beside one that is open and behind one that is confirmed.
func drafts(open, confirmed payout.ID) map[string]payoutAttack {
	const insert = `INSERT INTO payout (payout_id, provider_id, chain_id, gross_nano_usd, fee_nano_usd, address,
			previous_at)
		SELECT gen_random_uuid(), provider_id, chain_id, %s FROM payout WHERE payout_id = $1`
	const same = `gross_nano_usd, fee_nano_usd, address`
	return map[string]payoutAttack{
		"below the minimum": {confirmed, false, with(insert, `9999999000, fee_nano_usd, address, requested_at`),
			"gross_nano"},
		"parts of a micro": {confirmed, false, with(insert, `10000000001, fee_nano_usd, address, requested_at`),
			"gross_nano"},
		"another fee": {confirmed, false, with(insert, `gross_nano_usd, 0, address, requested_at`),
			"fee_nano"},
		"to nobody": {confirmed, false, with(insert,
			`gross_nano_usd, fee_nano_usd, decode(repeat('00', 20), 'hex'), requested_at`), "address"},
		"beside an open one": {open, false, with(insert, same+`, requested_at`), "payout_hour|payout_one_open"},
		"within the hour":    {confirmed, false, with(insert, same+`, requested_at`), "payout_hour"},
		"a second first":     {confirmed, false, with(insert, same+`, NULL`), "payout_follows_one"},
		"behind none that is": {confirmed, false, with(insert, same+`, requested_at - interval '2 hours'`),
			"payout_follows"},
	}
}

// payoutsStand checks that the invariants of payouts hold.
func payoutsStand(t *testing.T, st *store.Store) {
	t.Helper()
	report, err := st.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Drift > 0 && strings.Contains(i.Name, "payout") {
			t.Errorf("after all, %s: got %d that break it (%v), want none", i.Name, i.Drift, i.Examples)
		}
	}
}

func TestTheDatabaseRefusesWhatPayoutsDoNotDo(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	owner := pgtest.Owner(t, pool)
	st := store.New(pool)
	b := both{store.Payouts{Store: st}, store.Sending{Store: st}}
	requested, approved := b.ask(t, provider(t), 100*money.USD), b.approved(t)
	large, medium := b.ask(t, provider(t), 10_001*money.USD), b.ask(t, provider(t), 1_001*money.USD)
	b.must(t, large.ID, payout.Reserve, payout.Requested, reserved)
	b.must(t, medium.ID, payout.Reserve, payout.Requested, reserved)
	signing, submitted := b.signing(t), b.ended(t, sending.Succeeded)
	confirmed := b.ended(t, sending.Succeeded)
	b.must(t, confirmed.ID, payout.Confirm, payout.Confirmed, final)
	const move = `UPDATE payout SET revision = revision + 1, %s WHERE payout_id = $1`
	attacks := map[string]payoutAttack{
		"a final one that moves": {confirmed.ID, false, with(move, `state = 'failed'`), "never changes"},
		"a final one, its note": {confirmed.ID, true, `UPDATE payout SET waiting = 'x' WHERE payout_id = $1`,
			"never changes"},
		"another amount": {approved.ID, true, `UPDATE payout SET gross_nano_usd = gross_nano_usd * 2
			WHERE payout_id = $1`, "stays"},
		"another address": {approved.ID, true, `UPDATE payout SET address = decode(repeat('09', 20), 'hex')
			WHERE payout_id = $1`, "stays"},
		"another sum that is sent": {signing.ID, false, `UPDATE payout SET amount = amount + 1 WHERE payout_id = $1`,
			"decided stays"},
		"a state that is skipped":   {requested.ID, false, with(move, `state = 'submitted'`), "does not go from"},
		"approved, not set aside":   {requested.ID, false, with(move, `state = 'approved'`), "payout_reserved"},
		"large, without operators":  {large.ID, false, with(move, `state = 'approved'`), "waits for operators"},
		"medium, without operators": {medium.ID, false, with(move, `state = 'approved'`), "waits for operators"},
		"signing without a call": {approved.ID, false, with(move, `state = 'signing', amount = 99000000`),
			"once its transaction is"},
		"submitted without bytes": {signing.ID, false, with(move, `state = 'submitted'`), "once its transaction is"},
		"failed without a receipt": {submitted.ID, false, with(move, `state = 'failed', final_entry = gen_random_uuid()`),
			"once its transaction is"},
		"confirmed without an entry": {submitted.ID, false, with(move, `state = 'confirmed'`), "payout_ended"},
		"cancelled with a call": {signing.ID, false, with(move, `state = 'cancelled', final_entry = gen_random_uuid()`),
			"does not go from"},
		"cancelled, never asked": {approved.ID, false, with(move, `state = 'cancelled', final_entry = gen_random_uuid()`),
			"payout_ends"},
		"a change without an entry": {approved.ID, false, with(move, `ends_as = 'cancelled', ends_reason = 'x'`),
			"with an entry"},
		"an end without a revision": {approved.ID, false, `UPDATE payout SET ends_as = 'cancelled', ends_reason = 'x'
			WHERE payout_id = $1`, "with a revision"},
		"a payout that is deleted": {confirmed.ID, true, `DELETE FROM payout WHERE payout_id = $1`, "kept"},
		"history that changes": {confirmed.ID, true, `UPDATE payout_change SET actor = 'operator' WHERE payout_id = $1`,
			"kept"},
		"an entry that is ahead": {approved.ID, false, `INSERT INTO payout_change (payout_id, revision, from_state, to_state,
			cause, actor, reason) VALUES ($1, 9, 'approved', 'signing', 'send', 'platform', '')`, "not ahead"},
		"approved by a provider": {medium.ID, false, `INSERT INTO payout_change (payout_id, revision, from_state, to_state,
			cause, actor, reason) VALUES ($1, 3, 'requested', 'approved', 'approve', '` + user + `', 'x')`,
			"payout_change_actor"},
		"a consent that is no operator's": {large.ID, false, `INSERT INTO payout_approval (payout_id, actor)
			VALUES ($1, 'platform')`, "violates check"},
		"a call that pays another": {signing.ID, false, `WITH c AS (INSERT INTO chain_call (chain_id, sender, nonce, purpose,
				ref, recipient, value, data, gas_limit, call_hash)
			SELECT c.chain_id, c.sender, s.next, 'payout', gen_random_uuid()::text, c.recipient, c.value, c.data, c.gas_limit,
				c.call_hash FROM chain_call c JOIN sender s ON s.address = c.sender WHERE c.ref = $1::uuid::text RETURNING 1)
			UPDATE sender SET next = next + 1 WHERE EXISTS (SELECT FROM c)`, "pays it"},
	}
	maps.Copy(attacks, drafts(requested.ID, confirmed.ID))
	for name, tc := range attacks {
		db := pool
		if tc.asOwner {
			db = owner
		}
		if _, err := db.Exec(t.Context(), tc.sql, tc.of); !refused(err, tc.says) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, tc.says)
		}
	}
	payoutsStand(t, st)
}

func with(sql, what string) string { return strings.Replace(sql, "%s", what, 1) }

func TestLargePayoutsNeedTwoOperatorsWhoSignedIn(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	st := store.New(pool)
	b := both{store.Payouts{Store: st}, store.Sending{Store: st}}
	p := b.ask(t, provider(t), 10_001*money.USD)
	b.must(t, p.ID, payout.Reserve, payout.Requested, reserved)
	consent := func(name string, cause payout.Cause, to payout.State) error {
		_, err := b.Change(t.Context(), p.ID, func(p *payout.Payout) (payout.Step, error) {
			step := payout.Step{Entry: payout.Entry{Revision: p.Revision + 1, From: p.State, To: to, Cause: cause,
				Actor: "operator:" + name, Reason: "it is due"}, Consents: true}
			p.State, p.Revision = to, p.Revision+1
			return step, nil
		})
		return err
	}
	for _, program := range []string{"bot", "bootstrap.root"} {
		if err := consent(program, payout.Consent, payout.Requested); err != nil {
			t.Fatal(err)
		}
	}
	if err := consent("job", payout.Approve, payout.Approved); err == nil {
		t.Error("three programs: got no error, want a refusal")
	}
	if err := consent("ann@1", payout.Approve, payout.Approved); err == nil {
		t.Error("one operator and two programs: got no error, want a refusal")
	}
	if err := consent("ann@1", payout.Consent, payout.Requested); err != nil {
		t.Fatal(err)
	}
	if err := consent("ann@1", payout.Approve, payout.Approved); err == nil {
		t.Error("the same operator twice: got no error, want a refusal")
	}
	if err := consent("bob@2", payout.Approve, payout.Approved); err != nil {
		t.Errorf("two operators: got the error %v, want none", err)
	}
	wantActs(t, pool, "operator:bob@2 approve_payout "+p.ID.String(), "operator:ann@1 consent_payout "+p.ID.String(),
		"operator:bootstrap.root consent_payout "+p.ID.String(), "operator:bot consent_payout "+p.ID.String())
}
