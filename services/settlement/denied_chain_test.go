package settlement

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"svc.internal/pkg/actor"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// paidBesideACancel is a payout that is confirmed, although its cancel was signed and sent.
func (p *paying) paidBesideACancel(t *testing.T) payout.ID {
	t.Helper()
	id := p.hang(t)
	_, err := p.keeper.CancelOnChain(actor.WithOperator(t.Context(), "ann"), id, "it hangs")
	must(t, err)
	p.advance(t, id)
	call := p.call(t, id)
	if got := len(call.Signed); got != 2 {
		t.Fatalf("after the cancel: got %d transactions, want 2", got)
	}
	tell(t, p.chain, "anvil_dropTransaction", call.Signed[1].Hash.String())
	p.sendRaw(t, call.Signed[0])
	must(t, p.chain.Mine(t.Context(), 3))
	p.wantMined(t, call, 0)
	p.until(t, id, payout.Confirmed)
	return id
}

// sendRaw has somebody send the bytes of a transaction.
func (p *paying) sendRaw(t *testing.T, tx sending.Signed) {
	t.Helper()
	tell(t, p.chain, "eth_sendRawTransaction", "0x"+hex.EncodeToString(tx.Raw))
}

// takeBack has the chain forget the block that ended a payout, and all behind it.
func (p *paying) takeBack(t *testing.T, id payout.ID) {
	t.Helper()
	head, err := p.reader.Head(t.Context())
	must(t, err)
	reorg(t, p.chain, int(head-p.call(t, id).End.Block)+1)
}

// wantHalt checks what the halt of the chain says, and lifts it.
func (p *paying) wantHalt(t *testing.T, says string) {
	t.Helper()
	halts, err := store.Sending{Store: p.store}.Halts(t.Context())
	must(t, err)
	if len(halts) != 1 {
		t.Fatalf("halts: got %v, want one", halts)
	}
	if got := halts[0].Detail; !strings.Contains(got, says) {
		t.Errorf("the halt: got %q, want it to say %q", got, says)
	}
	must(t, store.Sending{Store: p.store}.Lift(t.Context(), chain.Base, sending.FinalReorged, "operator:ann", "known"))
}

func TestAConfirmedPayoutThatAReorgTakesAwayIsSentWithHigherFeesThanItsCancel(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	id := p.paidBesideACancel(t)
	p.takeBack(t, id)
	p.sendRaw(t, p.call(t, id).Signed[1]) // a node has kept the cancel
	must(t, p.pipeline.Recheck(t.Context(), chain.Base))
	p.wantHalt(t, id.String())
	call := p.call(t, id)
	if got := len(call.Signed); got != 3 {
		t.Fatalf("sent again: got %d transactions, want 3", got)
	}
	if call.Signed[2].Cancels {
		t.Error("the third transaction: got a cancel, want a payment")
	}
	if got, want := call.Signed[2].Fees.Max, eighth(t, call.Signed[1].Fees.Max); got.Cmp(want) < 0 {
		t.Errorf("the highest fee: got %s, want at least %s, an eighth above that of the cancel", got, want)
	}
	must(t, p.chain.Mine(t.Context(), 4))
	p.wantMined(t, call, 2)
	must(t, p.pipeline.Recheck(t.Context(), chain.Base))
	if _, _, err := p.pipeline.Check(t.Context(), chain.Base, sending.Payout); err != nil {
		t.Errorf("the next payout: got the error %v, want none", err)
	}
	if got := p.holds(t); got != "99000000" {
		t.Errorf("received: got %s, want 99000000", got)
	}
	p.wantSaid(t, "at the end", "reserve", "confirm")

	// Taken back once more, and the cancel is in a block before anything is sent.
	p.takeBack(t, id)
	p.sendRaw(t, call.Signed[1])
	must(t, p.chain.Mine(t.Context(), 4))
	p.wantMined(t, call, 1)
	if err := p.pipeline.Recheck(t.Context(), chain.Base); !errors.Is(err, sending.ErrHalted) {
		t.Errorf("the cancel is final: got the error %v, want %v", err, sending.ErrHalted)
	}
	const lost = " was not done, although it is stored as done"
	p.wantHalt(t, "payout "+id.String()+lost)
	must(t, p.pipeline.Recheck(t.Context(), chain.Base))
	if _, _, err := p.pipeline.Check(t.Context(), chain.Base, sending.Payout); err != nil {
		t.Errorf("the halt that names the payout was lifted: got the error %v, want none", err)
	}
	if text := printed(t, p.verified(t)); !strings.Contains(text, "payout "+id.String()+lost) {
		t.Errorf("verify: got %s, want it to name the payout", text)
	}
	if got := len(p.call(t, id).Signed); got != 3 {
		t.Errorf("transactions that were signed: got %d, want 3", got)
	}
	p.wantSaid(t, "at the end", "reserve", "confirm")
}
