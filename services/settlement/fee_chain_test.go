package settlement

import (
	"context"
	"testing"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// age makes a payout's transactions as old as they are when their fees are raised.
func (p *paying) age(t *testing.T) {
	t.Helper()
	tx, err := pgtest.Owner(t, p.pool).Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{`SET LOCAL session_replication_role = replica`,
		`UPDATE signed_tx SET signed_at = signed_at - interval '10 minutes'`} {
		_, err := tx.Exec(t.Context(), sql)
		must(t, err)
	}
	must(t, tx.Commit(t.Context()))
}

// hang has a payout sent to a chain that puts it into no block.
func (p *paying) hang(t *testing.T) payout.ID {
	t.Helper()
	tell(t, p.chain, "evm_setAutomine", false)
	id := p.ask(t).ID
	if got := p.advance(t, id).State; got != payout.Submitted {
		t.Fatalf("sent: got %s, want %s", got, payout.Submitted)
	}
	return id
}

// eighth is an amount and an eighth of it, rounded up, as nodes demand of what takes another's place.
func eighth(t *testing.T, a chain.Amount) chain.Amount {
	t.Helper()
	more, ok := a.MulDiv(9, 8)
	if !ok {
		t.Fatalf("an eighth more than %s: got an overflow, want a number", a)
	}
	more, _ = more.Add(chain.NewAmount(1))
	return more
}

// wantMined checks that of the transactions of a call one alone is in a block.
func (p *paying) wantMined(t *testing.T, call sending.Status, want int) {
	t.Helper()
	for i, tx := range call.Signed {
		_, found, err := p.reader.Receipt(t.Context(), tx.Hash)
		must(t, err)
		if found != (i == want) {
			t.Errorf("transaction %d of %d is in a block: got %t, want %t", i, len(call.Signed), found, i == want)
		}
	}
}

func TestATransactionThatHangsIsReplacedByOneWithHigherFeesAndPostedOnce(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	id := p.hang(t)
	for range 3 {
		p.advance(t, id) // it is sent again, and nothing else
	}
	if got := len(p.call(t, id).Signed); got != 1 {
		t.Fatalf("before ten minutes: got %d transactions, want 1", got)
	}
	p.age(t)
	p.advance(t, id)
	call := p.call(t, id)
	if len(call.Signed) != 2 {
		t.Fatalf("after ten minutes: got %d transactions, want 2", len(call.Signed))
	}
	was, now := call.Signed[0].Fees, call.Signed[1].Fees
	if want := eighth(t, was.Max); now.Max != want {
		t.Errorf("the highest fee: got %s, want %s, an eighth above %s", now.Max, want, was.Max)
	}
	if want := eighth(t, was.Tip); now.Tip != want {
		t.Errorf("the tip: got %s, want %s, an eighth above %s", now.Tip, want, was.Tip)
	}
	// The base fee of the next block is above what the first one offers.
	base, _ := was.Max.Add(chain.NewAmount(1))
	tell(t, p.chain, "anvil_setNextBlockBaseFeePerGas", base.String())
	must(t, p.chain.Mine(t.Context(), 1))
	p.wantMined(t, call, 1)
	must(t, p.chain.Mine(t.Context(), 2))
	p.until(t, id, payout.Confirmed)
	if got := p.holds(t); got != "99000000" {
		t.Errorf("received: got %s, want 99000000", got)
	}
	p.wantSaid(t, "at the end", "reserve", "confirm")
	must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
	must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
	if len(p.gas) != 1 {
		t.Fatalf("costs that were posted: got %d, want 1", len(p.gas))
	}
	if got, want := p.gas[0].Transaction, call.Signed[1].Hash; got != want {
		t.Errorf("the cost: got that of %s, want that of %s", got, want)
	}
}

func TestFeesAreRaisedEightTimesAndThenAPersonIsAsked(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	id := p.hang(t)
	for n := range sending.MaxBumps + 2 {
		p.age(t)
		stuck, err := p.pipeline.Pass(t.Context(), chain.Base)
		must(t, err)
		if got, want := len(p.call(t, id).Signed), min(n+2, sending.MaxBumps+1); got != want {
			t.Fatalf("after %d times ten minutes: got %d transactions, want %d", n+1, got, want)
		}
		if got, want := stuck.Fees, max(0, n+1-sending.MaxBumps); min(got, 1) != min(want, 1) {
			t.Errorf("after %d times ten minutes: got %d calls for a person, want %d", n+1, got, min(want, 1))
		}
	}
	call := p.call(t, id)
	must(t, p.chain.Mine(t.Context(), 3))
	p.wantMined(t, call, sending.MaxBumps)
	p.until(t, id, payout.Confirmed)
	p.wantSaid(t, "at the end", "reserve", "confirm")
}

func TestACancelOfATransactionThatHangsTakesItsPlaceOnTheChain(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	id := p.hang(t)
	operator := actor.WithOperator(t.Context(), "ann")
	_, err := p.keeper.CancelOnChain(operator, id, "it hangs")
	must(t, err)
	p.advance(t, id)
	p.advance(t, id)
	call := p.call(t, id)
	if got := len(call.Signed); got != 2 {
		t.Fatalf("after the cancel: got %d transactions, want 2", got)
	}
	if !call.Signed[1].Cancels {
		t.Error("the second transaction: got a payment, want a cancel")
	}
	must(t, p.chain.Mine(t.Context(), 1))
	p.wantMined(t, call, 1)
	p.wantSaid(t, "before the cancel is final", "reserve")
	must(t, p.chain.Mine(t.Context(), 2))
	p.until(t, id, payout.Failed)
	p.wantSaid(t, "at the end", "reserve", "give back")
	if got := p.holds(t); got != "0" {
		t.Errorf("received: got %s, want nothing", got)
	}
	must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
	if len(p.gas) != 1 {
		t.Errorf("costs that were posted: got %d, want that of the cancel", len(p.gas))
	}
}

// Whoever cancels may be too late: the chain decides, and the books say what it decided.
func TestACancelThatComesTooLateLeavesThePayoutPaid(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	id := p.hang(t)
	operator := actor.WithOperator(t.Context(), "ann")
	_, err := p.keeper.CancelOnChain(operator, id, "it hangs")
	must(t, err)
	must(t, p.chain.Mine(t.Context(), 1))
	p.advance(t, id)
	p.wantMined(t, p.call(t, id), 0)
	must(t, p.chain.Mine(t.Context(), 2))
	p.until(t, id, payout.Confirmed)
	p.wantSaid(t, "at the end", "reserve", "confirm")
	if got := p.holds(t); got != "99000000" {
		t.Errorf("received: got %s, want 99000000", got)
	}
}
