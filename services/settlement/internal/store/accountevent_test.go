package store_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// taken takes what is due of the outbox.
func taken(t *testing.T, pool *pgxpool.Pool) []accountevent.Event {
	t.Helper()
	list, err := store.AccountEvents{Store: store.New(pool)}.TakeAccountEvents(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func dataOf(t *testing.T, e accountevent.Event) map[string]any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatalf("%s: %v", e.Data, err)
	}
	if subject, message, err := e.Encode(); err != nil {
		t.Errorf("encode: got the error %v, want none", err)
	} else if _, err := accountevent.Decode(subject, message); err != nil {
		t.Errorf("decode: got the error %v, want none", err)
	}
	return data
}

func TestAPayoutIsToldOnceItIsConfirmedAndUntilItIsStored(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	owner := pgtest.Owner(t, pool)
	st := store.New(pool)
	b := both{store.Payouts{Store: st}, store.Sending{Store: st}}
	p := b.ended(t, sending.Succeeded)
	if n := len(taken(t, pool)); n != 0 {
		t.Errorf("events before the end: got %d, want 0", n)
	}
	p = b.must(t, p.ID, payout.Confirm, payout.Confirmed, final)
	list := taken(t, pool)
	if len(list) != 1 {
		t.Fatalf("events: got %d, want 1", len(list))
	}
	if list[0].Kind != accountevent.PayoutConfirmed {
		t.Errorf("kind: got %s, want %s", list[0].Kind, accountevent.PayoutConfirmed)
	}
	if list[0].Provider != p.ProviderID {
		t.Errorf("provider: got %s, want %s", list[0].Provider, p.ProviderID)
	}
	data := dataOf(t, list[0])
	for name, want := range map[string]string{
		"payout_id": p.ID.String(), "gross_usd_str": p.Gross.String(), "fee_usd_str": p.Fee.String(),
		"net_usd_str": (p.Gross - p.Fee).String(), "tx_hash": p.Transaction.String(),
	} {
		if data[name] != want {
			t.Errorf("%s: got %v, want %s", name, data[name], want)
		}
	}
	if n := len(taken(t, pool)); n != 0 {
		t.Errorf("events at once again: got %d, want 0", n)
	}
	if _, err := owner.Exec(t.Context(), `UPDATE account_event SET due_at = due_at - $1::interval`,
		accountevent.Pause+time.Second); err != nil {
		t.Fatal(err)
	}
	again := taken(t, pool)
	if len(again) != 1 || again[0].ID != list[0].ID {
		t.Fatalf("events that nobody noted: got %v, want %s again", again, list[0].ID)
	}
	if err := (store.AccountEvents{Store: st}).DropAccountEvents(t.Context(), []accountevent.ID{list[0].ID, {9}}); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM account_event`).Scan(&left); err != nil || left != 0 {
		t.Errorf("events that were noted: got %d, %v, want 0", left, err)
	}
}

func TestAPenaltyIsToldWhenItIsCreated(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p := e.open(t)
	list := taken(t, e.pool)
	if len(list) != 1 {
		t.Fatalf("events: got %d, want 1", len(list))
	}
	data := dataOf(t, list[0])
	if data["penalty_id"] != p.ID.String() {
		t.Errorf("penalty_id: got %v, want %s", data["penalty_id"], p.ID)
	}
	if want := p.AppealUntil.UTC().Format(time.RFC3339); data["appeal_until"] != want {
		t.Errorf("appeal_until: got %v, want %s", data["appeal_until"], want)
	}
}

// Attacks on the outbox, as the application's role, or as the owner where the role may not.
func TestTheOutboxOfEventsRefusesWhatNobodyIsTold(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	owner := pgtest.Owner(t, pool)
	for name, sql := range map[string]string{
		"account_event_kind_check": `INSERT INTO account_event (kind, provider_id, data)
			VALUES ('odd', gen_random_uuid(), '{}')`,
		"account_event_data": `INSERT INTO account_event (kind, provider_id, data)
			VALUES ('payout.confirmed', gen_random_uuid(), '[]')`,
		"account_event_tries_check": `INSERT INTO account_event (kind, provider_id, data, tries)
			VALUES ('payout.confirmed', gen_random_uuid(), '{}', -1)`,
	} {
		_, err := owner.Exec(t.Context(), sql)
		wantConstraint(t, name, err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE account_event SET data = '{}'`); err == nil {
		t.Error("the role changes what is told: got no error, want one")
	}
	for nano, want := range map[int64]string{0: "0.00", 10_000_000_000: "10.00", 1: "0.000000001", 12_345_000_000: "12.345"} {
		var got string
		if err := owner.QueryRow(t.Context(), `SELECT usd_text($1)`, nano).Scan(&got); err != nil || got != want {
			t.Errorf("usd_text(%d): got %q, %v, want %q", nano, got, err, want)
		}
		if money.NanoUSD(nano).String() != want {
			t.Errorf("package money writes %q, want %q", money.NanoUSD(nano), want)
		}
	}
}

func wantConstraint(t *testing.T, name string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error, want one", name)
		return
	}
	if got := constraintOf(err); got != name {
		t.Errorf("refused by: got %q, want %q", got, name)
	}
}

// constraintOf returns the constraint that refused a statement.
func constraintOf(err error) string {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.ConstraintName
	}
	return ""
}
