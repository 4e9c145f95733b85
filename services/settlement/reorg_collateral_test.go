package settlement

import (
	"context"
	"slices"
	"strings"
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

// staked is a position behind the payee, on a chain where deposits arrive too.
type staked struct {
	*depositing
	follower position.Follower
}

func newStaked(t *testing.T) *staked {
	t.Helper()
	p := newPayingOn(t, startByHand(t, chain.Base))
	s := &staked{depositing: newDepositing(t, p)}
	s.fund(t)
	s.watch(t)
	cfg := DefaultConfig()
	cfg.Chains = chain.Configs{p.reader.Config()}
	terms, err := cfg.terms()
	must(t, err)
	positions := store.Positions{Store: p.store, Terms: terms}
	s.follower = position.Follower{Terms: terms, Store: positions, Ledger: custody{},
		Events: store.ChainEvents{Positions: positions, BlockAt: func(
			ctx context.Context, _ chain.ID, number uint64,
		) (chain.Block, error) {
			return p.reader.BlockAt(ctx, number)
		}}}
	return s
}

// stake puts an amount behind the payee, in a final block, and returns the block before.
func (s *staked) stake(t *testing.T, amount chain.Amount) (before uint64) {
	t.Helper()
	at, err := chain.ParseAddress(devchain.Collateral)
	must(t, err)
	must(t, s.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.USD,
		Data: contract.Approve(at, amount)}))
	must(t, s.chain.Mine(t.Context(), 3))
	s.watch(t)
	before, err = s.reader.Head(t.Context())
	must(t, err)
	must(t, s.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: devchain.Collateral,
		Data: contract.Deposit(contract.Subject(payee), amount)}))
	must(t, s.chain.Mine(t.Context(), 3))
	s.watch(t)
	return before
}

// follow has positions follow the chain, and the books hear of it.
func (s *staked) follow(t *testing.T) position.Applied {
	t.Helper()
	applied, err := s.follower.Follow(t.Context(), chain.Base)
	must(t, err)
	must(t, s.follower.Post(t.Context(), chain.Base))
	return applied
}

// wantDrift checks which invariants of the rows do not hold.
func (s *staked) wantDrift(t *testing.T, when string, want ...string) {
	t.Helper()
	report, err := Verify(t.Context(), s.pool)
	must(t, err)
	var drifts []string
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			drifts = append(drifts, i.Name)
		}
	}
	if !slices.Equal(drifts, want) {
		t.Errorf("%s: what verification finds: got %q, want %q", when, drifts, want)
	}
}

func TestCollateralThatAChangedHistoryTookAwayCountsNoLonger(t *testing.T) {
	t.Parallel()
	s := newStaked(t)
	before := s.stake(t, chain.NewAmount(20_000_000))
	if got := s.follow(t).Events; got != 1 {
		t.Errorf("the deposit: got %d events, want 1", got)
	}
	s.wantBooks(t)
	head, err := s.reader.Head(t.Context())
	must(t, err)
	reorg(t, s.chain, int(head-before))
	if !s.watch(t) {
		t.Fatal("a final block has changed: got no halt, want one")
	}
	halt, _, err := store.Watch{Store: s.store}.OpenHalt(t.Context(), chain.Base)
	must(t, err)
	_, err = s.lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "the network says so")
	must(t, err)
	s.wantDrift(t, "lifted", "events that count are on their chain")
	s.watch(t)
	s.watch(t)
	applied := s.follow(t)
	if got := len(applied.Restated); got != 1 {
		t.Fatalf("read again: got %d positions made anew, want 1", got)
	}
	if got := applied.Restated[0].Is.Total(); !got.IsZero() {
		t.Errorf("read again: got a position of %s, want none", got)
	}
	s.wantDrift(t, "read again")
	for _, i := range s.verified(t).Invariants {
		if name := strings.TrimPrefix(i.Name, "chain 8453: "); i.Drift > 0 && slices.Contains([]string{
			"positions are the contract's", "events are on the chain"}, name) {
			t.Errorf("read again: %s: got a drift of %d, want none", name, i.Drift)
		}
	}
}
