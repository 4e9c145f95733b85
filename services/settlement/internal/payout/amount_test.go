package payout_test

import (
	"context"
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// flight are books that have one payout in flight.
type flight struct {
	payout.Ledger
	gross money.NanoUSD
}

func (f flight) Balances(context.Context, ids.ProviderID) (payable, inFlight money.NanoUSD, err error) {
	return 0, f.gross, nil
}

// rich is a wallet that covers everything.
type rich struct{}

func (rich) Holds(context.Context, chain.ID, chain.Address) (chain.Amount, error) {
	return chain.ParseAmount("1000000000000000000000000000000000000000")
}

// rate is a price.
type rate money.NanoUSD

func (r rate) Quote(context.Context, chain.ID) (sending.Quote, error) {
	return sending.Quote{Rate: money.NanoUSD(r), Source: "test"}, nil
}

// catcher keeps the request, and sends nothing.
type catcher struct{ request *sending.Request }

var errCaught = errors.New("nothing is sent")

func (catcher) Check(context.Context, chain.ID, sending.Key) (chain.Address, uint64, error) {
	return chain.Address{1}, 0, nil
}

func (c catcher) Prepare(_ context.Context, r sending.Request) (sending.Prepared, error) {
	*c.request = r
	return sending.Prepared{}, errCaught
}

func (s *one) InFlight(context.Context, chain.ID) (chain.Amount, error) { return chain.Amount{}, nil }

// sent is what a payout that is approved asks to be sent.
func sent(t *testing.T, on chain.ID, gross, price money.NanoUSD) (r sending.Request, ok bool) {
	t.Helper()
	s := &one{p: payout.Payout{Draft: payout.Draft{Chain: on, Gross: gross, Fee: payout.Fee, Address: chain.Address{7}},
		State: payout.Approved, Revision: 3, Reserved: ids.EntryID{1}}}
	assets := map[chain.ID]chain.Asset{
		chain.Base: {Chain: chain.Base, Kind: chain.USDC, Decimals: 6, Contract: chain.Address{9}},
		chain.SVC:  {Chain: chain.SVC, Kind: chain.Coin, Decimals: 18},
	}
	k := payout.NewKeeper(payout.Config{Assets: assets}, payout.Deps{Store: s, Screener: clean{},
		Ledger: flight{gross: gross}, Quotes: rate(price), Wallet: rich{}, Sender: catcher{&r}})
	if _, err := k.Advance(t.Context(), s.p.ID); err != nil {
		t.Fatal(err)
	}
	return r, r.Purpose != ""
}

func TestADollarPayoutSendsItsNetAmountToItsAddress(t *testing.T) {
	t.Parallel()
	r, ok := sent(t, chain.Base, 10*money.USD+1_000, 0)
	if !ok {
		t.Fatal("nothing was to be sent")
	}
	if want := sending.Transfer(chain.Address{7}, chain.NewAmount(9_000_001)); !slices.Equal(r.Data, want) {
		t.Errorf("data: got %x, want the transfer of 9.000001 dollars, %x", r.Data, want)
	}
	if token := (chain.Address{9}); r.To != token {
		t.Errorf("got a call of %s, want one of the token, %s", r.To, token)
	}
	if !r.Value.IsZero() {
		t.Errorf("got a call with %s wei, want none", r.Value)
	}
}

// Coins for net at a rate are rounded down to a unit of the books: one unit more would be worth more than net.
func TestCoinsAreWorthTheNetAmountAndNoUnitMore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2)) // the histories are the same every time
	unit, _ := chain.AmountOfUnits(1, 18)
	for range 2_000 {
		gross := money.NanoUSD(10_000_000_000+r.Int64N(999_000_000_000)) / 1_000 * 1_000
		price := money.NanoUSD(1 + r.Int64N(int64(1)<<(10+r.IntN(40))))
		request, ok := sent(t, chain.SVC, gross, price)
		if !ok {
			continue // more units than the books can count
		}
		units, dust, _ := request.Value.Units(18)
		if !dust.IsZero() {
			t.Fatalf("%s wei are no whole units of %s", request.Value, unit)
		}
		net := new(big.Int).Mul(big.NewInt(int64(gross-payout.Fee)), big.NewInt(1_000_000_000))
		worth := func(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(price))) }
		if worth(units).Cmp(net) > 0 {
			t.Fatalf("$%s at %d: %d units are worth more", gross-payout.Fee, price, units)
		}
		if worth(units+1).Cmp(net) <= 0 {
			t.Fatalf("$%s at %d: %d units are worth less than they could", gross-payout.Fee, price, units)
		}
	}
}

func TestWithoutAPriceNoCoinIsSent(t *testing.T) {
	t.Parallel()
	for _, price := range []money.NanoUSD{0, -1} {
		if r, ok := sent(t, chain.SVC, 10*money.USD, price); ok {
			t.Errorf("at a rate of %d: got %s wei to send, want nothing", price, r.Value)
		}
	}
}

// refusing is a store that nothing reaches.
type refusing struct{ payout.Store }

func (refusing) Known(context.Context, payout.Operation) (payout.Payout, bool, error) {
	return payout.Payout{}, false, errCaught
}

func TestAPayoutIsWithinItsBounds(t *testing.T) {
	t.Parallel()
	for gross, want := range map[money.NanoUSD]fault.Reason{
		10*money.USD - 1_000: fault.BelowMinimum, 0: fault.BelowMinimum, -10 * money.USD: fault.BelowMinimum,
		10*money.USD + 1: fault.InvalidValue, 1_000_000*money.USD + 1_000: fault.InvalidValue,
		10 * money.USD: "", 1_000_000 * money.USD: "", 10*money.USD + 1_000: "",
	} {
		k := payout.NewKeeper(payout.Config{}, payout.Deps{Store: refusing{}})
		_, err := k.Request(t.Context(), payout.Operation{}, gross, 0)
		if want == "" && !errors.Is(err, errCaught) {
			t.Errorf("%d nano-dollars: got the error %v, want %v: it comes to the store", gross, err, errCaught)
		}
		if want != "" && !fault.Is(err, want) {
			t.Errorf("%d nano-dollars: got the error %v, want %q", gross, err, want)
		}
	}
}

func TestStatesOfPayoutsEndWhereNothingFollows(t *testing.T) {
	t.Parallel()
	reached := map[payout.State]bool{payout.Requested: true}
	for _, s := range payout.States() {
		leads := false
		for _, c := range payout.Causes() {
			for _, to := range s.After(c) {
				leads, reached[to] = true, true
			}
		}
		if s.Final() == leads {
			t.Errorf("%s: got final %t, want %t", s, s.Final(), !leads)
		}
	}
	for _, s := range payout.States() {
		if !reached[s] {
			t.Errorf("nothing leads to %s", s)
		}
	}
	for _, s := range []payout.State{payout.Signing, payout.Submitted} {
		for _, c := range []payout.Cause{payout.Cancel, payout.End, payout.Reject, payout.Refuse} {
			if got := s.After(c); len(got) > 0 {
				t.Errorf("%s takes %s to %v, want that only a receipt ends it", s, c, got)
			}
		}
	}
}
