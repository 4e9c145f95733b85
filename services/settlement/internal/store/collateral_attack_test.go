package store_test

import (
	"strings"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/refund"
)

// standing is a market in which providers[0] has collateral on a chain and by card, an open refund behind providers[1],
// and a penalty behind providers[0].
func standing(t *testing.T) *market {
	t.Helper()
	m := newMarket(t, 1)
	c := m.chains[chain.Base]
	for _, id := range m.providers[:2] {
		c.deposit(holder{subjectOf(id), m.people[0]}, 40_000_000)
		m.books.pay(id, 5_000)
	}
	c.mine()
	m.work(0)
	m.work(0) // an answer of the books may be lost
	if _, err := m.payers[0].Store.Ask(t.Context(), refund.ID(newID(t)), m.providers[1]); err != nil {
		t.Fatal(err)
	}
	d := draft(t)
	d.ProviderID = m.providers[0]
	if _, err := m.keepers[0].Open(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return m
}

// collateralAttack is what a faulty program would do, and what the database says to it.
type collateralAttack struct {
	asOwner bool
	sql     string
	args    []any
	says    string
}

// Each attack is what a faulty program would do, as the application's role or, where the role's grants would hide the
// rule, as the owner.
func TestTheDatabaseRefusesWhatCollateralWouldNotDo(t *testing.T) {
	t.Parallel()
	m := standing(t)
	for name, a := range map[string]collateralAttack{
		"a position without an event": {false, `UPDATE position SET free = free + 1, number = number + 1000`, nil,
			"what its events told them|position_follows"},
		"another amount under its event": {true, `UPDATE position SET free = free - 1`, nil, "its next event"},
		"an event twice": {false, `INSERT INTO position_event (chain_id, number, event, tx, place, kind, subject, depositor,
			amount, at, free_after, escrow_after, units) SELECT chain_id, number + 1000, event, tx, place, kind, subject,
			depositor, amount, at, free_after, escrow_after, 0 FROM position_event LIMIT 1`, nil, "position_event_once"},
		"an event that is changed": {true, `UPDATE position_event SET amount = 1`, nil, "changes once"},
		"an event that is posted twice": {false, `UPDATE position_event SET entry_id = gen_random_uuid()`, nil,
			"changes once"},
		"an event that is deleted":    {true, `DELETE FROM position_event`, nil, "kept"},
		"a cursor that goes back":     {false, `UPDATE position_cursor SET number = 0`, nil, "never goes back"},
		"a balance without a version": {false, `UPDATE card_collateral SET free_nano_usd = 1`, nil, "with its version"},
		"a balance below zero": {false, `UPDATE card_collateral SET free_nano_usd = -1, version = version + 1`, nil,
			"free_nano_usd_check"},
		"a part that takes more": {true, `UPDATE penalty_part SET amount = amount + 1 WHERE chain_id IS NOT NULL`, nil,
			"stays"},
		"a part of another state": {false, `UPDATE penalty_part SET state = 'executed'`, nil, "does not go from"},
		"a part of a later moment": {false, `INSERT INTO penalty_part (part_id, penalty_id, provider_id, nano_usd)
			SELECT sha256('x'), penalty_id, provider_id, 10000000 FROM penalty LIMIT 1`, nil, "fixed with it"},
		"a part by card without an entry": {false, `UPDATE penalty_part SET state = 'escrowed' WHERE chain_id IS NULL`, nil,
			"penalty_part_entries|does not go"},
		"a second refund": {false, `INSERT INTO collateral_refund (refund_id, provider_id) VALUES (gen_random_uuid(), $1)`,
			[]any{m.providers[1]}, "collateral_refund_one_open|taken back"},
		"a refund beside a penalty": {false, `INSERT INTO collateral_refund (refund_id, provider_id)
			VALUES (gen_random_uuid(), $1)`, []any{m.providers[0]}, "beside a penalty"},
		"a refund before its time": {false, `UPDATE collateral_refund SET state = 'paying', paying_at = asked_at`, nil,
			"collateral_refund_in_time"},
		"a refund that skips a state": {false, `UPDATE collateral_refund SET state = 'paid', paying_at = due_at,
			ended_at = due_at`, nil, "does not go from"},
		"a refund that is due earlier": {true, `UPDATE collateral_refund SET due_at = due_at - interval '1 day'`, nil,
			"stays"},
		"a position that is not empty": {false, `UPDATE collateral_refund_part SET state = 'done'`, nil, "when it is empty"},
		"a payment before the refund is paid": {false, `INSERT INTO collateral_refund_part (part_id, refund_id, checkout_id,
			cents, state) SELECT gen_random_uuid(), refund_id, gen_random_uuid(), 1, 'opened' FROM collateral_refund`, nil,
			"begins with it"},
		"a payout beside a refund": {false, `INSERT INTO payout (payout_id, provider_id, chain_id, gross_nano_usd,
			fee_nano_usd, address)
			VALUES (gen_random_uuid(), $1, 8453, 10000000000, 1000000000, decode(repeat('01', 20), 'hex'))`,
			[]any{m.providers[1]}, "payout_beside_refund|beside a refund"},
		"a suspension told anew": {false, `UPDATE provider_suspension SET holds = false`, nil, "with its revision"},
	} {
		m.refuse(t, name, a)
	}
}

func TestTheDatabaseRefusesToPayACardTwice(t *testing.T) {
	t.Parallel()
	m := standing(t)
	for name, a := range map[string]collateralAttack{
		"a payment back by the same attempt": {true, `ALTER TABLE collateral_refund_part DISABLE TRIGGER USER;
			UPDATE collateral_refund_part SET chain_id = NULL, depositor = NULL, checkout_id = gen_random_uuid(), cents = 1,
				state = 'done', asked_entry = gen_random_uuid(), paid_entry = gen_random_uuid();
			ALTER TABLE collateral_refund_part ENABLE TRIGGER USER;
			UPDATE collateral_refund_part SET state = 'posted', paid_entry = NULL`, nil, "by the same attempt"},
		"an earlier attempt":      {false, `UPDATE collateral_refund_part SET card_attempt = 0`, nil, "stays"},
		"an attempt on a chain":   {false, `UPDATE collateral_refund_part SET card_attempt = 2`, nil, "card_attempts"},
		"a refund that goes back": {false, `UPDATE collateral_refund SET state = 'repaying'`, nil, "does not go from"},
	} {
		m.refuse(t, name, a)
	}
}

// refuse wants the database to refuse an attack, with one of the texts that it may say.
func (m *market) refuse(t *testing.T, name string, a collateralAttack) {
	t.Helper()
	pool := m.pool
	if a.asOwner {
		pool = m.owner
	}
	_, err := pool.Exec(t.Context(), a.sql, a.args...)
	refused := false
	for _, want := range strings.Split(a.says, "|") {
		refused = refused || err != nil && strings.Contains(err.Error(), want)
	}
	if !refused {
		t.Errorf("%s: got the error %v, want one with %q", name, err, a.says)
	}
}

func TestAPenaltyTakesItsShareOfEachPositionAndOfTheCard(t *testing.T) {
	t.Parallel()
	m := standing(t)
	if got := m.count(`SELECT amount::bigint FROM penalty_part WHERE chain_id = 8453`); got != 4_000_000 {
		t.Errorf("on the chain: got %d, want a tenth of 40 dollars", got)
	}
	if got := m.count(`SELECT nano_usd FROM penalty_part WHERE chain_id IS NULL`); got != 5_000_000_000 {
		t.Errorf("by card: got %d, want a tenth of 50 dollars", got)
	}
}

func TestTenThousandTinyPositionsAreRecordedAndIgnored(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c := m.chains[chain.Base]
	for i := range 10_000 {
		c.deposit(holder{subjectOf(m.providers[0]), chain.Address{byte(i), byte(i >> 8), 1}}, 999_999)
	}
	c.mine()
	for range 3 {
		m.work(0)
	}
	if got := m.count(`SELECT count(*) FROM position`); got != 10_000 {
		t.Errorf("positions: got %d, want all 10,000", got)
	}
	if got := len(m.books.custody); got != 0 {
		t.Errorf("the books were told of %d, want none", got)
	}
	if got := m.count(`SELECT count(*) FROM provider`); got != 0 {
		t.Errorf("rows of providers: got %d, want none", got)
	}
}

func TestAStrangerWhoLeavesSuspendsNobody(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c, id := m.chains[chain.Base], m.providers[0]
	own, strange := holder{subjectOf(id), m.people[0]}, holder{subjectOf(id), m.people[1]}
	c.deposit(own, 40_000_000)
	c.deposit(strange, 40_000_000)
	c.exit(strange)
	c.mine()
	m.work(0)
	if got := m.suspended(id, "exit"); got {
		t.Error("a stranger leaves: got a suspension, want none")
	}
	c.exit(own)
	c.mine()
	m.work(0)
	if got := m.suspended(id, "exit"); !got {
		t.Error("the last depositor leaves: got no suspension, want one")
	}
}

func (m *market) suspended(id ids.ProviderID, cause string) bool {
	return m.count(`SELECT count(*) FROM provider_suspension WHERE provider_id = $1 AND cause = $2 AND holds`,
		id, cause) == 1
}
