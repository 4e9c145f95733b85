package slice

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

// stuck is a Keeper that does not answer turns of one account until their time is over.
type stuck struct {
	Keeper
	of ids.AccountID
}

func (s stuck) Turn(ctx context.Context, owner Owner, turns []Turn) ([]State, error) {
	for _, t := range turns {
		if t.Account == s.of {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return s.Keeper.Turn(ctx, owner, turns)
}

func TestAWalletThatSomebodyLocksCostsTheOthersNoTrust(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 10_000
		b.open(t)
		for range 10 { // until the slice has places for two seconds
			b.admit(t, 1)
			b.admit(t, 1)
			b.admit(t, 1)
			pass(t, Every)
		}
		locked := b.world.addWallet(2, money.USD, 100, 6000, 1).id
		b.deps.Keeper = stuck{b.spy, locked}
		for range busy {
			r := b.request(10)
			r.Key = ids.KeyID{14: 2, 15: 1}
			b.Saw(r, hold.Decision{Outcome: hold.Admitted,
				Admission: hold.Admission{Account: locked, Billing: hold.PayAsYouGo}})
		}
		refused := 0
		for range 10 * int(time.Second/Every) {
			if _, _, ok := b.Admit(t.Context(), b.request(1)); !ok {
				refused++
			}
			pass(t, Every)
		}
		if refused > 0 {
			t.Errorf("requests of the other account that are in doubt: got %d, want 0", refused)
		}
		b.deps.Keeper = b.spy
	})
}
