package settlement

import (
	"errors"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

func TestACallThatTheSignerDoesNotAllowIsCancelledByAnOperatorsWord(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.Base)
	// The signer pays no contract of its settings.
	var err error
	p.address, err = chain.ParseAddress(devchain.Collateral)
	must(t, err)
	asked := p.ask(t)
	if asked.State != payout.Signing {
		t.Fatalf("asked: got %s (%s), want signing", asked.State, asked.Waiting)
	}
	stuck, err := p.pipeline.Pass(t.Context(), chain.Base)
	if !errors.Is(err, sending.ErrRefused) {
		t.Fatalf("got the error %v, want %v", err, sending.ErrRefused)
	}
	if stuck.Refused != 1 {
		t.Errorf("refused: got %d, want 1", stuck.Refused)
	}
	calls := store.Sending{Store: p.store}
	at := sending.Place{Chain: chain.Base, Sender: p.hot}
	for range 2 {
		call, err := calls.Cancel(t.Context(), at, "operator:ann", "the signer does not allow it")
		must(t, err)
		if call.Ref != asked.ID.String() {
			t.Errorf("cancelled: got the call of %s, want that of payout %s", call.Ref, asked.ID)
		}
	}
	failed := p.until(t, asked.ID, payout.Failed)
	if failed.Reason != "the transaction was cancelled" {
		t.Errorf("got the reason %q, want that it was cancelled", failed.Reason)
	}
	if got := p.said[len(p.said)-1]; got != "give back" {
		t.Errorf("the books: got %q, want that the money is given back", got)
	}
	if _, err := calls.Cancel(t.Context(), at, "operator:ann", "again"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("a call that has ended: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	at.Nonce = 9
	if _, err := calls.Cancel(t.Context(), at, "operator:ann", "none"); !fault.Is(err, sending.CallNotFound) {
		t.Errorf("no call: got the error %v, want %s", err, sending.CallNotFound)
	}
}
