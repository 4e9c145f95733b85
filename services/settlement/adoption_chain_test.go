package settlement

import (
	"errors"
	"testing"

	"svc.internal/pkg/actor"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/sending"
)

// The providers of the story.
const (
	paidOne byte = iota + 1
	bumped
	cancelledOne
	penalized
	leaving
)

// prepare has a deposit credited, a penalty in escrow and a refund asked for, both due, and a payout that hangs.
func (w *whole) prepare(t *testing.T) (hangs payout.ID) {
	t.Helper()
	w.work(t) // the watcher begins
	w.deposit(t)
	w.work(t)
	w.workUntil(t, "the deposit is credited", `count(*) = 1 FROM transfer WHERE state = 'credited'`)
	w.workUntil(t, "collateral is there", `count(*) = 2 FROM position WHERE free > 0`)
	_, err := w.keeping.Open(t.Context(), penalty.Draft{ID: penalty.ID{0: 1, 6: 0x70, 8: 0x80, 15: 1},
		ProviderID: provider(penalized), ModelID: "acme/tiny-1b", Kind: penalty.Misrepresentation, ShareBasisPoints: 1_000,
		Summary: "another quantization", EvidenceHash: [32]byte{1}})
	must(t, err)
	_, err = w.refunds.Ask(t.Context(), refund.ID{0: 1, 6: 0x70, 8: 0x80, 15: 1}, provider(leaving))
	must(t, err)
	w.workUntil(t, "a part is in escrow", `count(*) = 1 FROM penalty_part WHERE state = 'escrowed'`)
	w.workUntil(t, "the refund is asked for", `count(*) = 1 FROM collateral_refund_part WHERE state = 'requested'`)
	tell(t, w.chain, "evm_setAutomine", false)
	hangs = w.want(t, bumped, 50)
	_, err = w.pipeline.Pass(t.Context(), w.cfg.ID)
	must(t, err)
	w.pass(t)
	return hangs
}

// pass lets eight days pass for penalties and refunds.
func (w *whole) pass(t *testing.T) {
	t.Helper()
	w.change(t, `
		UPDATE penalty SET opened_at = opened_at - interval '8 days', appeal_until = appeal_until - interval '8 days';
		UPDATE collateral_refund SET asked_at = asked_at - interval '8 days', due_at = due_at - interval '8 days'`)
	tell(t, w.chain, "evm_increaseTime", 8*24*3600)
}

// ended says that all of it has ended.
const ended = `(SELECT count(*) = 3 FROM payout WHERE state IN ('confirmed', 'failed'))
	AND (SELECT count(*) = 1 FROM sweep WHERE state = 'done')
	AND (SELECT count(*) = 1 FROM penalty_part WHERE state = 'executed' AND ended_entry IS NOT NULL)
	AND (SELECT count(*) = 1 FROM collateral_refund WHERE state = 'paid')`

// spend does all that is due: a payout is paid, one with higher fees, one is cancelled on the chain, and a sweep, a
// refund and a penalty are carried out.
func (w *whole) spend(t *testing.T, hangs payout.ID) (paid, gone payout.ID) {
	t.Helper()
	w.change(t, `UPDATE signed_tx SET signed_at = signed_at - interval '10 minutes'`)
	_, err := w.pipeline.Pass(t.Context(), w.cfg.ID)
	must(t, err)
	if got := len(w.paying.call(t, hangs).Signed); got != 2 {
		t.Fatalf("the payout that hung: got %d transactions, want 2", got)
	}
	gone = w.want(t, cancelledOne, 70)
	_, err = w.pipeline.Pass(t.Context(), w.cfg.ID)
	must(t, err)
	_, err = w.keeper.CancelOnChain(actor.WithOperator(t.Context(), "ann"), gone, "it hangs")
	must(t, err)
	_, err = w.pipeline.Pass(t.Context(), w.cfg.ID)
	must(t, err)
	must(t, w.chain.Mine(t.Context(), 1))
	tell(t, w.chain, "evm_setAutomine", true)
	paid = w.want(t, paidOne, 100)
	w.workUntil(t, "all has ended", ended)
	return paid, gone
}

func TestASetBackDatabaseAdoptsEveryKindOfTransactionOnce(t *testing.T) {
	t.Parallel()
	for _, id := range []chain.ID{chain.Base, chain.SVC} {
		t.Run(id.String(), func(t *testing.T) {
			t.Parallel()
			setBack(t, id)
		})
	}
}

// lostOn are the plans of the chains. The payout that hung comes last, because the database has its call.
var lostOn = map[chain.ID]string{
	chain.Base: "gas 0 sweep record; gas 1 collateral record; payout 1 cancel record; payout 2 payout record; " +
		"slasher 1 collateral record; payout 0 payout record; $70.00 failed follow; $100.00 confirmed follow; ",
	chain.SVC: "deposit/0 0 sweep record; gas 0 collateral record; payout 1 cancel record; payout 2 payout record; " +
		"slasher 1 collateral record; payout 0 payout record; $70.00 failed follow; $100.00 confirmed follow; ",
}

// setBack sets the database back to before all that was sent, and checks that it is adopted and not sent again.
func setBack(t *testing.T, id chain.ID) {
	t.Helper()
	w := newWhole(t, id)
	hangs := w.prepare(t)
	copied := w.keep(t)
	w.sweeps = true
	paid, gone := w.spend(t, hangs)
	must(t, w.pipeline.PostGas(t.Context(), w.desk, w.desk))
	spent := w.costs()
	has, counts, posted := w.has(t), w.counts(t), len(w.facts.posted)
	w.open(t, copied)
	w.sweeps = id == chain.Base
	w.work(t) // the process starts, works before anybody looks, and plans on one chain to sweep what was swept
	w.sweeps = true
	for _, key := range []sending.Key{sending.Payout, sending.Gas} {
		if _, _, err := w.pipeline.Check(t.Context(), w.cfg.ID, key); !errors.Is(err, sending.ErrHalted) {
			t.Fatalf("the key %s of the set back database: got the error %v, want %v", key, err, sending.ErrHalted)
		}
	}
	if got, want := lines(w.adopt(t, adopt.Words{})), lostOn[id]; got != want {
		t.Fatalf("the plan: got %s\nwant %s", got, want)
	}
	w.workUntil(t, "all has ended", ended)
	for range 3 {
		w.work(t)
	}
	must(t, w.pipeline.PostGas(t.Context(), w.desk, w.desk))
	if got := w.costs(); got != spent {
		t.Errorf("transactions whose cost is posted: got %d, want the %d of before", got, spent)
	}
	ends := map[payout.ID]payout.State{hangs: payout.Confirmed, paid: payout.Confirmed, gone: payout.Failed}
	for id, want := range ends {
		p, err := w.keeper.Advance(t.Context(), id)
		must(t, err)
		if p.State != want {
			t.Errorf("payout %s: got %s, want %s", id, p.State, want)
		}
	}
	if got := w.has(t); got != has {
		t.Errorf("what was received: got %s, want %s as before", got, has)
	}
	if got := w.counts(t); got != counts {
		t.Errorf("transactions: got %s, want %s as before", got, counts)
	}
	if got := len(w.facts.posted); got != posted {
		t.Errorf("facts of the books: got %d, want the %d of before", got, posted)
	}
	w.sound(t)
	w.goesOn(t)
	wantSound(t, "the chain", w.verified(t))
}

// goesOn checks that what comes to the swept address later is credited, because nothing of it counts as gone.
func (w *whole) goesOn(t *testing.T) {
	t.Helper()
	if w.cfg.ID == chain.SVC {
		must(t, w.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: w.deposits.String(), Value: coins(4)}))
	} else {
		must(t, w.chain.Mint(t.Context(), w.deposits, 2_000_000))
	}
	w.workUntil(t, "a later deposit is credited", `count(*) = 2 FROM transfer WHERE state = 'credited'`)
	if !w.is(t, `count(*) = 0 FROM sweep WHERE state <> 'done'`) {
		t.Error("sweeps: got an open one, want that they are done")
	}
}
