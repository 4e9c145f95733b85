package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/store"
)

func TestNobodyMarksWorkThatWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	f, owner := fair{store.New(pool), pool}, pgtest.Owner(t, pool)
	endCall(t, sent{pool, store.Sending{Store: f.Store}}, chain.Base, 0)
	f.exec(t, `INSERT INTO deposit_address (deposit_index, account_id, address) VALUES (0, gen_random_uuid(), $1)`,
		[]byte{19: 1})
	f.exec(t, `INSERT INTO deposit_dust (deposit_index, chain_id, token, amount, transfers)
		VALUES (0, 8453, '8453:usdc', 7, 1)`)
	for name, attack := range map[string]struct {
		asOwner   bool
		sql, says string
	}{
		"a call that goes on": {true, `UPDATE chain_call SET ended = false`, "kept as they are"},
		"a cost that is posted by a mark": {false, `UPDATE call_end SET booked = true`,
			"permission denied"},
		"a cost that the books do not have": {true, `UPDATE call_end SET booked = true`, "kept as they are"},
		"another end beside the mark":       {true, `UPDATE call_end SET booked = true, cost = 1`, "kept as they are"},
		"costs that are forgotten":          {false, `UPDATE chain_unbooked SET wei = 0`, "permission denied"},
		"a balance that changes by itself":  {false, `UPDATE deposit_balance SET dust = 0`, "permission denied"},
		"a balance of nothing": {false, `INSERT INTO deposit_balance (deposit_index, chain_id, token)
			VALUES (0, 1, '1:usdc')`, "permission denied"},
		"a sum that the role adds": {false, `SELECT add_deposit_balance(0, 8453, '8453:usdc', 1, 1, 0, 0, 0)`,
			"permission denied"},
		"more posted than arrived": {true, `UPDATE deposit_balance SET posted = 1`, "deposit_balance_posted"},
		"a block that is marked":   {false, `UPDATE batch_block SET lifted = true`, "permission denied"},
	} {
		db := pool
		if attack.asOwner {
			db = owner
		}
		if _, err := db.Exec(t.Context(), attack.sql); !refused(err, attack.says) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, attack.says)
		}
	}
	s := newSent(t)
	s.must(t, "a")
	if _, err := pgtest.Owner(t, s.pool).Exec(t.Context(), `UPDATE chain_call SET ended = true`); !refused(err, "kept") {
		t.Errorf("a call without its end: got the error %v, want a refusal", err)
	}
}

// without runs statements as the owner without the triggers of a table, and takes them back.
func without(t *testing.T, owner *pgxpool.Pool, table, trigger string, sql string, args ...any) error {
	t.Helper()
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // nothing of it stays
	if _, err := tx.Exec(t.Context(), `ALTER TABLE `+table+` DISABLE TRIGGER `+trigger); err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), sql, args...)
	return err
}

const convert = `INSERT INTO conversion (conversion_id, provider_id, account_id, nano_usd)
	SELECT gen_random_uuid(), $1, gen_random_uuid(), 1 FROM generate_series(1, $2::int)`

func TestTheDatabaseHasTheBoundOfConversions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	f, owner, id := fair{store.New(pool), pool}, pgtest.Owner(t, pool), provider(t)
	f.exec(t, `INSERT INTO provider (provider_id) VALUES ($1)`, id)
	f.exec(t, convert, id, payout.MaxConversions)
	if _, err := pool.Exec(t.Context(), convert, id, 1); !refused(err, "conversion_hour") {
		t.Errorf("one more: got the error %v, want one with conversion_hour", err)
	}
	const place = `INSERT INTO conversion (conversion_id, provider_id, account_id, nano_usd, number, bound_at)
		VALUES (gen_random_uuid(), $1, gen_random_uuid(), 1, `
	for name, attack := range map[string]struct{ values, says string }{
		"one behind nothing":        {`61, NULL)`, "conversion_hour"},
		"one behind a made up time": {`61, now() - interval '2 hours')`, "conversion_follows"},
		"one in another's place":    {`60, NULL)`, "conversion_place"},
		"one far beyond":            {`500, now() - interval '2 hours')`, "conversion_follows"},
	} {
		if err := without(t, owner, "conversion", "conversion_begins", place+attack.values, id); !refused(err, attack.says) {
			t.Errorf("%s, without the trigger: got the error %v, want one with %q", name, err, attack.says)
		}
	}
	if _, err := owner.Exec(t.Context(), `UPDATE conversion SET number = number + 1000`); !refused(err, "ends once") {
		t.Errorf("places that change: got the error %v, want a refusal", err)
	}
}

func TestConversionsOfAnHourAgoBoundNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	f, owner, id := fair{store.New(pool), pool}, pgtest.Owner(t, pool), provider(t)
	f.exec(t, `INSERT INTO provider (provider_id) VALUES ($1)`, id)
	f.exec(t, convert, id, payout.MaxConversions)
	if _, err := owner.Exec(t.Context(), `SET session_replication_role = replica;
		UPDATE conversion SET requested_at = requested_at - interval '1 hour'; RESET session_replication_role`); err != nil {
		t.Fatal(err)
	}
	f.exec(t, convert, id, payout.MaxConversions)
	if _, err := pool.Exec(t.Context(), convert, id, 1); !refused(err, "conversion_hour") {
		t.Errorf("one more: got the error %v, want one with conversion_hour", err)
	}
}

func TestTheDatabaseHasTheBoundOfRefunds(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	f, owner, id := fair{store.New(pool), pool}, pgtest.Owner(t, pool), provider(t)
	const ask = `INSERT INTO collateral_refund (refund_id, provider_id) VALUES (gen_random_uuid(), $1)`
	f.exec(t, `INSERT INTO provider (provider_id) VALUES ($1)`, id)
	f.exec(t, ask, id)
	f.exec(t, `UPDATE collateral_refund SET state = 'cancelled', ended_at = clock_timestamp()`)
	if _, err := pool.Exec(t.Context(), ask, id); !refused(err, "collateral_refund_day") {
		t.Errorf("the second of a day: got the error %v, want one with collateral_refund_day", err)
	}
	const placed = `INSERT INTO collateral_refund (refund_id, provider_id, asked_at, due_at, previous_at)
		VALUES (gen_random_uuid(), $1, now(), now() + interval '7 days', `
	for name, attack := range map[string]struct{ values, says string }{
		"one behind nothing":        {`NULL)`, "collateral_refund_follows_one"},
		"one behind a made up time": {`now() - interval '2 days')`, "collateral_refund_follows"},
	} {
		err := without(t, owner, "collateral_refund", "collateral_refund_begins", placed+attack.values, id)
		if !refused(err, attack.says) {
			t.Errorf("%s, without the trigger: got the error %v, want one with %q", name, err, attack.says)
		}
	}
	if _, err := owner.Exec(t.Context(), `UPDATE collateral_refund SET previous_at = asked_at`); !refused(err, "stays") {
		t.Errorf("a refund that follows another: got the error %v, want a refusal", err)
	}
}

// refusing is a purse that takes nothing of one provider, and does not say why.
type refusing struct {
	*purse
	of ids.ProviderID
}

func TestConversionsThatTheBooksDoNotTakeKeepNoOtherOneWaiting(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, payout.Config{}, chain.Address{7}, 100*money.USD), provider(t)
	odd := provider(t)
	for i := range 4 {
		of := odd
		if i == 3 {
			of = id
		}
		if _, err := c.rows.InsertConversion(t.Context(), payout.Conversion{ID: payout.ID(newID(t)), ProviderID: of,
			Account: ids.AccountID(newID(t)), Amount: money.USD}, operationOf(of, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	keeper := payout.NewKeeper(payout.Config{}, payout.Deps{Store: c.rows, Ledger: refusing{c.purse, odd}})
	const limit = 3
	if err := keeper.FinishConversions(t.Context(), limit); !errors.Is(err, errRefused) {
		t.Errorf("the first look: got the error %v, want that of the books", err)
	}
	if err := keeper.FinishConversions(t.Context(), limit); err != nil {
		t.Errorf("the second look: got the error %v, want none: what fails waits", err)
	}
	last, _, err := c.rows.KnownConversion(t.Context(), operationOf(id, "3"))
	if err != nil {
		t.Fatal(err)
	}
	if last.Entry.IsZero() {
		t.Error("the conversion behind those that fail: got no entry, want one")
	}
	first, _, err := c.rows.KnownConversion(t.Context(), operationOf(odd, "0"))
	if err != nil {
		t.Fatal(err)
	}
	if first.Tries != 1 {
		t.Errorf("tries of one that fails: got %d, want 1", first.Tries)
	}
}

// errRefused is what the books say.
var errRefused = errors.New("the books take nothing of that provider")

func (r refusing) Convert(ctx context.Context, c payout.Conversion) (ids.EntryID, error) {
	if c.ProviderID == r.of {
		return ids.EntryID{}, errRefused
	}
	return r.purse.Convert(ctx, c)
}

func TestAConversionThatFailsForHalfAnHourIsCounted(t *testing.T) {
	t.Parallel()
	c, id := newCounter(t, payout.Config{}, chain.Address{7}, money.USD), provider(t)
	made, err := c.rows.InsertConversion(t.Context(), payout.Conversion{ID: payout.ID(newID(t)), ProviderID: id,
		Account: ids.AccountID(newID(t)), Amount: money.USD}, operationOf(id, "k"))
	if err != nil {
		t.Fatal(err)
	}
	for tries := range payout.StuckConversion + 1 {
		backlog, err := c.rows.Backlog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if tries >= payout.StuckConversion {
			want = 1
		}
		if backlog.StuckConversions != want {
			t.Errorf("after %d tries: got %d stuck, want %d", tries, backlog.StuckConversions, want)
		}
		made.Tries = tries
		for range 2 { // of two that count one try, one does
			if err := c.rows.DelayConversion(t.Context(), made, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	made.Refusal = string(fault.InsufficientEarnings)
	if _, err := c.rows.EndConversion(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	backlog, err := c.rows.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if backlog.StuckConversions != 0 {
		t.Errorf("conversions that are stuck after the end: got %d, want none", backlog.StuckConversions)
	}
}
