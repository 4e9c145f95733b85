package adopt_test

import (
	"testing"

	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
)

func TestACancelOffersTwiceTheFeesWithinTheBoundAndNoTipAboveThem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ highest, tip, bound, wantHighest, wantTip uint64 }{
		{highest: 20, tip: 3, bound: 100, wantHighest: 40, wantTip: 6},
		{highest: 60, tip: 3, bound: 100, wantHighest: 100, wantTip: 6},
		{highest: 60, tip: 55, bound: 100, wantHighest: 100, wantTip: 100},
		{highest: 100, tip: 90, bound: 100, wantHighest: 100, wantTip: 100},
	} {
		suggested := chain.Fees{Max: chain.NewAmount(tc.highest), Tip: chain.NewAmount(tc.tip)}
		want := chain.Fees{Max: chain.NewAmount(tc.wantHighest), Tip: chain.NewAmount(tc.wantTip)}
		if got := adopt.Doubled(suggested, chain.NewAmount(tc.bound)); got != want {
			t.Errorf("twice %d and %d, at most %d: got %+v, want %+v", tc.highest, tc.tip, tc.bound, got, want)
		}
	}
}

// No word can name a transaction that no block has, so to ask for one would end nothing.
func TestANonceThatNoBlockHasIsCancelledWhereTwoPayoutsFit(t *testing.T) {
	t.Parallel()
	nonce := paid(0, home(1), usd99, unmined)
	f := facts(list(nonce), lost(1, 1, adopt.InFlight), lost(2, 1, adopt.InFlight))
	if got, want := said(adopt.Decide(f, adopt.Words{})), "unknown cancel; 1 wait; 2 wait"; got != want {
		t.Errorf("signed, in no block: got %q, want %q", got, want)
	}
	f.Nonces = list(paid(0, home(1), usd99, cancelled))
	if got, want := said(adopt.Decide(f, adopt.Words{})), "cancel record; 1 give_back; 2 give_back"; got != want {
		t.Errorf("a final block has the cancel: got %q, want %q", got, want)
	}
}
