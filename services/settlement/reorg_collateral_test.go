package settlement

import (
	"context"
	"slices"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/store"
)

// custody is the books of collateral in a contract, which take everything.
type custody struct{}

// CustodyMoved implements position.Ledger.
func (custody) CustodyMoved(context.Context, position.Movement, string) (ids.EntryID, error) {
	return ids.EntryID{0: 3}, nil
}

// Nothing undoes a position: whoever lifts the halt hears of it from every verification, until a person has settled it.
func TestCollateralThatAChangedHistoryTookAwayIsADrift(t *testing.T) {
	t.Parallel()
	p := newPayingOn(t, startByHand(t, chain.Base))
	d := newDepositing(t, p)
	d.fund(t)
	d.watch(t)
	cfg := DefaultConfig()
	cfg.Chains = chain.Configs{p.reader.Config()}
	terms, err := cfg.terms()
	must(t, err)
	positions := store.Positions{Store: p.store, Terms: terms}
	follower := position.Follower{Terms: terms, Store: positions, Ledger: custody{},
		Events: store.ChainEvents{Positions: positions, BlockAt: func(
			ctx context.Context, _ chain.ID, number uint64,
		) (chain.Block, error) {
			return p.reader.BlockAt(ctx, number)
		}}}
	at, err := chain.ParseAddress(devchain.Collateral)
	must(t, err)
	amount := chain.NewAmount(20_000_000)
	must(t, p.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.USD,
		Data: contract.Approve(at, amount)}))
	must(t, p.chain.Mine(t.Context(), 3))
	d.watch(t)
	before, err := p.reader.Head(t.Context())
	must(t, err)
	must(t, p.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.Collateral,
		Data: contract.Deposit(contract.Subject(payee), amount)}))
	must(t, p.chain.Mine(t.Context(), 3))
	d.watch(t)
	if applied, err := follower.Follow(t.Context(), chain.Base); err != nil {
		t.Errorf("the deposit: got the error %v, want none", err)
	} else if applied.Events != 1 {
		t.Errorf("the deposit: got %d events, want 1", applied.Events)
	}
	must(t, follower.Post(t.Context(), chain.Base))
	d.wantBooks(t)

	head, err := p.reader.Head(t.Context())
	must(t, err)
	reorg(t, p.chain, int(head-before))
	if !d.watch(t) {
		t.Fatal("a final block has changed: got no halt, want one")
	}
	halt, _, err := store.Watch{Store: p.store}.OpenHalt(t.Context(), chain.Base)
	must(t, err)
	_, err = d.lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "the network says so")
	must(t, err)
	report, err := Verify(t.Context(), d.pool)
	must(t, err)
	var drifts []string
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			drifts = append(drifts, i.Name)
		}
	}
	if want := []string{"events that count are on their chain"}; !slices.Equal(drifts, want) {
		t.Errorf("what verification finds: got %q, want %q", drifts, want)
	}
}
