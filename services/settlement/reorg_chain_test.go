package settlement

import (
	"errors"
	"slices"
	"testing"

	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// tell calls a method of the chain's RPC.
func tell(t *testing.T, c *devchain.Chain, method string, args ...any) {
	t.Helper()
	must(t, devchain.Ask(t.Context(), c.URL, nil, method, args...))
}

// reorg has the chain forget its last blocks with all that is in them, and make as many that are empty.
func reorg(t *testing.T, c *devchain.Chain, blocks int) {
	t.Helper()
	tell(t, c, "anvil_reorg", blocks, []any{})
}

// advance makes one look at a payout and at the transactions of its chain.
func (p *paying) advance(t *testing.T, id payout.ID) payout.Payout {
	t.Helper()
	_, err := p.keeper.Advance(t.Context(), id)
	must(t, err)
	if _, err := p.pipeline.Pass(t.Context(), chain.ID(p.chain.ID())); err != nil {
		t.Log(err)
	}
	now, err := p.keeper.Advance(t.Context(), id)
	must(t, err)
	return now
}

// holds returns what the payee has of the dollar in the newest final block.
func (p *paying) holds(t *testing.T) string {
	t.Helper()
	block, err := p.reader.Final(t.Context())
	must(t, err)
	usd, err := chain.ParseAddress(devchain.USD)
	must(t, err)
	got, err := p.reader.TokenBalance(t.Context(), usd, p.address, block)
	must(t, err)
	return got.String()
}

// call returns the one transaction that pays a payout, with all that came of it.
func (p *paying) call(t *testing.T, id payout.ID) sending.Status {
	t.Helper()
	status, ok, err := store.Sending{Store: p.store}.Call(t.Context(), payout.Purpose, id.String())
	must(t, err)
	if !ok {
		t.Fatalf("the call of payout %s: got none, want one", id)
	}
	return status
}

// wantSaid checks what the books were told, in order.
func (p *paying) wantSaid(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(p.said, want) {
		t.Errorf("%s: got the posts %q, want %q", when, p.said, want)
	}
}

func TestAPayoutThatAReorgTakesAwayIsMinedAgainAndPostedOnce(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	id := p.ask(t).ID
	if got := p.advance(t, id).State; got != payout.Submitted {
		t.Fatalf("sent: got %s, want %s", got, payout.Submitted)
	}
	first := p.call(t, id).Signed[0].Hash
	receipt := func() (chain.Receipt, bool) {
		got, found, err := p.reader.Receipt(t.Context(), first)
		must(t, err)
		return got, found
	}
	untilMined := func(when string) {
		t.Helper()
		got, found := receipt()
		for !found { // a block comes for each transaction, but a moment after it was sent
			got, found = receipt()
		}
		if got.Final {
			t.Fatalf("%s: got a final receipt, want none", when)
		}
	}
	untilMined("sent")
	reorg(t, p.chain, 1)
	if _, found := receipt(); found {
		t.Fatal("after the reorg: the transaction is in a block, want it in none")
	}
	if got := p.advance(t, id).State; got != payout.Submitted {
		t.Errorf("after the reorg: got %s, want %s", got, payout.Submitted)
	}
	p.wantSaid(t, "after the reorg", "reserve")
	untilMined("sent again")
	must(t, p.chain.Mine(t.Context(), 2))
	p.until(t, id, payout.Confirmed)
	if got := p.holds(t); got != "99000000" {
		t.Errorf("received: got %s, want 99000000", got)
	}
	if got := len(p.call(t, id).Signed); got != 1 {
		t.Errorf("transactions that were signed: got %d, want 1: the same bytes are sent again", got)
	}
	must(t, p.pipeline.Recheck(t.Context(), chain.Base))
	halts, err := store.Sending{Store: p.store}.Halts(t.Context())
	must(t, err)
	if len(halts) > 0 {
		t.Errorf("halts: got %v, want none: no block that was final has changed", halts)
	}
	p.wantSaid(t, "at the end", "reserve", "confirm")
}

func TestADepositThatAReorgTakesAwayBeforeItIsFinalIsNeverCredited(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	d := newDepositing(t, p)
	d.fund(t)
	d.watch(t)
	d.pay(t)
	d.watch(t)
	d.wantTransfer(t, "in a block that is not final", "seen")
	reorg(t, p.chain, 1)
	d.watch(t)
	must(t, p.chain.Mine(t.Context(), 3))
	if d.watch(t) {
		t.Error("after a reorg above the final block: got a halt, want none")
	}
	d.wantTransfer(t, "after the reorg", "dropped")
	d.pay(t) // the consumer pays anew, with the same nonce
	must(t, p.chain.Mine(t.Context(), 3))
	d.watch(t)
	d.watch(t)
	d.wantTransfer(t, "paid anew", "credited,dropped", deposit.FactDeposited)
}

func TestAChangedFinalBlockStopsTheChainUntilAnOperatorNamesItAndNothingIsPaidTwice(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	d := newDepositing(t, p)
	d.fund(t)
	d.watch(t)
	// A payout and a deposit are final, paid and credited.
	id := p.ask(t).ID
	p.until(t, id, payout.Confirmed)
	d.pay(t)
	must(t, p.chain.Mine(t.Context(), 3))
	d.watch(t)
	d.wantTransfer(t, "final", "credited", deposit.FactDeposited)
	must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
	was := p.call(t, id)

	head, err := p.reader.Head(t.Context())
	must(t, err)
	reorg(t, p.chain, int(head-was.End.Block)+1)
	d.wantHalted(t, was.Call.Request)
	d.lift(t)
	for range 3 {
		if d.watch(t) {
			t.Fatal("lifted: got a halt, want none")
		}
		must(t, p.pipeline.Recheck(t.Context(), chain.Base))
		p.advance(t, id)
	}
	d.wantTransfer(t, "lifted", "dropped", deposit.FactDeposited, deposit.FactGone)
	p.wantSaid(t, "lifted", "reserve", "confirm")
	must(t, p.pipeline.PostGas(t.Context(), p.desk, p.desk))
	if got := len(p.gas); got != 1 {
		t.Errorf("costs that were posted: got %d, want 1", got)
	}
	now := p.call(t, id)
	if got := len(now.Signed); got != 1 {
		t.Errorf("transactions that were signed: got %d, want 1", got)
	}
	if got, want := now.End.Transaction, was.End.Transaction; got != want {
		t.Errorf("the end of the call: got %s, want %s", got, want)
	}
	if _, _, err := p.pipeline.Check(t.Context(), chain.Base, sending.Payout); err != nil {
		t.Errorf("the next payout: got the error %v, want none", err)
	}
	d.wantBooks(t)
}

// wantHalted checks that nothing is credited, posted or sent anew while a final block has another hash, but for the
// stored bytes.
func (d *depositing) wantHalted(t *testing.T, request sending.Request) {
	t.Helper()
	for range 3 {
		if !d.watch(t) {
			t.Fatal("a final block has changed: got no halt, want one")
		}
		must(t, d.pipeline.Recheck(t.Context(), chain.Base))
	}
	halts, err := store.Sending{Store: d.store}.Halts(t.Context())
	must(t, err)
	if got := len(halts); got != 1 {
		t.Fatalf("halts of what is sent: got %v, want one", halts)
	}
	if got := halts[0].Cause; got != sending.FinalReorged {
		t.Errorf("the halt of what is sent: got %s, want %s", got, sending.FinalReorged)
	}
	if _, err := d.pipeline.Prepare(t.Context(), request); !errors.Is(err, sending.ErrHalted) {
		t.Errorf("a payout on a halted chain: got the error %v, want %v", err, sending.ErrHalted)
	}
	d.wantTransfer(t, "halted", "credited", deposit.FactDeposited)
	d.wantSaid(t, "halted", "reserve", "confirm")
}

// lift has an operator accept the new history, once the stored bytes are mined in it. The payee has the money there
// too.
func (d *depositing) lift(t *testing.T) {
	t.Helper()
	must(t, d.chain.Mine(t.Context(), 3))
	d.watch(t)
	if got := d.holds(t); got != "99000000" {
		t.Errorf("received in the new history: got %s, want 99000000", got)
	}
	halt, open, err := store.Watch{Store: d.store}.OpenHalt(t.Context(), chain.Base)
	must(t, err)
	if !open {
		t.Fatal("the halt: got none, want one until an operator lifts it")
	}
	if _, err := d.lifter.Lift(t.Context(), chain.Base, halt.Was, "operator:ann", "no"); err == nil {
		t.Error("lifted by the hash of before: got no error, want one")
	}
	_, err = d.lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "the network says so")
	must(t, err)
	must(t, store.Sending{Store: d.store}.Lift(t.Context(), chain.Base, sending.FinalReorged, "operator:ann",
		"it was mined again"))
	d.watch(t) // it finds the halt lifted
}
