package store_test

import (
	"testing"
	"time"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// later is a clock that is ahead of the machine's.
type later time.Duration

func (l later) Now() time.Time { return time.Now().Add(time.Duration(l)) }

func TestAnAuthorizationIsGoodFromItsSigningOn(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	w.arrive(by, evmtest.Transfer(1, w.token, at, usd(150_000_000)))
	s, p := w.sweeper(evmtest.Address("treasury", 1))
	// The sweep is planned, and is sent 40 days later.
	p.fails = sending.ErrHalted
	w.pass(s)
	const waited = 40 * 24 * time.Hour
	p.fails, s.Clock = nil, later(waited)
	w.pass(s)
	if len(p.requests) != 2 {
		t.Fatalf("got %d calls, want the halted call and another call", len(p.requests))
	}
	until, err := chain.AmountOf(p.requests[1].Data[4+4*32 : 4+5*32])
	if err != nil {
		t.Fatal(err)
	}
	if soon := chain.NewAmount(uint64(time.Now().Add(waited + 29*24*time.Hour).Unix())); until.Cmp(soon) < 0 {
		t.Errorf("the authorization ends at %s, want later than %s", until, soon)
	}
	// One that was not mined in time is refused by the token. What it left is planned again on another day.
	w.ends(sending.Reverted, 5)
	w.pass(s)
	if got := w.text(`SELECT state FROM sweep`); got != "failed" {
		t.Errorf("after its end: got it %s, want failed", got)
	}
	owner := pgtest.Open(t, w.pool.Config().ConnString(), store.Schema, "")
	if _, err := owner.Exec(t.Context(), `UPDATE sweep SET day = day - 1`); err != nil {
		t.Fatal(err)
	}
	w.pass(s)
	if got := w.text(`SELECT count(*)::text || ' ' || max(state) FROM sweep WHERE state <> 'failed'`); got != "1 sent" {
		t.Errorf("on another day: got %s, want 1 sent", got)
	}
}
