package settlement

import (
	"context"
	"testing"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/reserve"
	"svc.internal/services/settlement/internal/store"
)

// tokens are the books' tokens of a test.
type tokens map[string]int64

// read reads the reserves of a chain against books.
func (p *paying) read(t *testing.T, booked tokens) map[string]reserve.Reading {
	t.Helper()
	looker := reserve.Looker{Rows: store.Reserves{Store: p.store}, Node: p.reader, Config: p.reader.Config()}
	readings, err := looker.Tokens(t.Context(), func(context.Context) (map[string]int64, error) { return booked, nil })
	must(t, err)
	out := map[string]reserve.Reading{}
	for _, r := range readings {
		out[string(r.Subject)] = r
	}
	return out
}

// endCall has the transaction of a payout end, without telling the payout or the books.
func (p *paying) endCall(t *testing.T, now payout.Payout) {
	t.Helper()
	for now.State != payout.Submitted {
		_, err := p.pipeline.Pass(t.Context(), now.Chain)
		must(t, err)
		now, err = p.keeper.Advance(t.Context(), now.ID)
		must(t, err)
	}
	for {
		must(t, p.chain.Mine(t.Context(), 4))
		_, err := p.pipeline.Pass(t.Context(), now.Chain)
		must(t, err)
		status, _, err := store.Sending{Store: p.store}.Call(t.Context(), payout.Purpose, now.ID.String())
		must(t, err)
		if status.End != nil {
			return
		}
	}
}

// A payout that the chain has and the books do not, with its gas, is no shortfall: to the last unit.
func TestWhatLeavesBeforeTheBooksKnowIsNoShortfall(t *testing.T) {
	t.Parallel()
	for _, id := range []chain.ID{chain.Base, chain.SVC} {
		t.Run(id.String(), func(t *testing.T) {
			t.Parallel()
			p := newPaying(t, id)
			asked := p.ask(t)
			booked := tokens{} // what wallet and treasury hold, to the unit
			for name, r := range p.read(t, nil) {
				asset, _ := p.reader.Config().Asset(chain.Coin)
				if name != asset.Name() {
					asset, _ = p.reader.Config().Asset(chain.USDC)
				}
				booked[name], _, _ = r.Held.Units(asset.Decimals)
			}
			p.endCall(t, asked)
			paid := id.Token(id.PaysOut())
			under := p.read(t, booked)
			for _, r := range under {
				if r.Short() {
					t.Errorf("under way: got %s, want no shortfall", r)
				}
			}
			if r := under[paid]; r.Held != r.Owed {
				t.Errorf("under way: got %s, want that it is even", r)
			}
			booked[paid]++
			if r := p.read(t, booked)[paid]; !r.Short() {
				t.Errorf("a unit more: got %s, want a shortfall", r)
			}
		})
	}
}

func TestReservesAreConfiguredWithinTheirBounds(t *testing.T) {
	t.Parallel()
	for text, fits := range map[string]bool{
		"SVC_SETTLEMENT_RESERVES_INTERVAL=1h": true, "SVC_SETTLEMENT_RESERVES_INTERVAL=10ms": false,
		"SVC_SETTLEMENT_RESERVES_INTERVAL=25h": false, "SVC_SETTLEMENT_RESERVES_OWN_FUNDS_USD=1000000000": true,
		"SVC_SETTLEMENT_RESERVES_OWN_FUNDS_USD=-1": false, "SVC_SETTLEMENT_RESERVES_OWN_FUNDS_USD=1000000001": false,
	} {
		cfg := DefaultConfig()
		if err := config.Read(&cfg, "", []string{text}); (err == nil) != fits {
			t.Errorf("%s: got the error %v, want none: %t", text, err, fits)
		}
	}
}
