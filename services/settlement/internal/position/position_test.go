package position_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/collateral"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
)

func rules(on chain.ID, minimum uint64) position.Rules {
	return position.Rules{Chain: on, Minimum: chain.NewAmount(minimum), Dust: chain.NewAmount(10),
		Asset: chain.Asset{Chain: on, Kind: chain.USDC, Decimals: 6}}
}

func event(kind contract.Kind, amount uint64) position.Event {
	return position.Event{Event: contract.Event{Kind: kind, Amount: chain.NewAmount(amount), Until: time.Unix(100, 0)}}
}

func TestAPositionFollowsItsEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free, escrow uint64
		event        position.Event
		// wantFree and wantEscrow are what follows; follows is false for an event that cannot.
		wantFree, wantEscrow uint64
		follows              bool
	}{
		"a deposit":                         {5, 1, event(contract.Deposited, 7), 12, 1, true},
		"all of it is paid back":            {5, 0, event(contract.Refunded, 5), 0, 0, true},
		"less than all is paid back":        {5, 0, event(contract.Refunded, 4), 0, 0, false},
		"more than all is paid back":        {5, 0, event(contract.Refunded, 6), 0, 0, false},
		"it is paid back beside escrow":     {5, 1, event(contract.Refunded, 5), 0, 0, false},
		"a penalty sets some aside":         {5, 1, event(contract.SlashProposed, 5), 0, 6, true},
		"a penalty sets more aside":         {5, 1, event(contract.SlashProposed, 6), 0, 0, false},
		"an appeal":                         {5, 1, event(contract.SlashAppealed, 0), 5, 1, true},
		"a penalty takes what is set aside": {5, 3, event(contract.SlashExecuted, 2), 5, 1, true},
		"a penalty takes more than that":    {5, 3, event(contract.SlashExecuted, 4), 0, 0, false},
		"a penalty is reversed":             {5, 3, event(contract.SlashReversed, 3), 8, 0, true},
		"more than was set aside comes back": {5, 3, event(contract.SlashReversed, 4), 0, 0,
			false},
		"a penalty lapses":       {5, 3, event(contract.SlashLapsed, 1), 6, 2, true},
		"an event of no meaning": {5, 3, event("unknown", 1), 0, 0, false},
	} {
		was := position.Position{Free: chain.NewAmount(c.free), Escrow: chain.NewAmount(c.escrow)}
		got, err := was.After(c.event, rules(chain.Base, 20))
		if follows := err == nil; follows != c.follows {
			t.Errorf("%s: got the error %v, want it to follow: %t", name, err, c.follows)
		}
		if got.Free != chain.NewAmount(c.wantFree) {
			t.Errorf("%s: got %s free, want %d", name, got.Free, c.wantFree)
		}
		if got.Escrow != chain.NewAmount(c.wantEscrow) {
			t.Errorf("%s: got %s in escrow, want %d", name, got.Escrow, c.wantEscrow)
		}
	}
}

func TestRequestsStandUntilTheyAreOffOrPaid(t *testing.T) {
	t.Parallel()
	p := position.Position{Free: chain.NewAmount(50)}
	for _, c := range []struct {
		kind         contract.Kind
		refund, exit bool
	}{
		{contract.RefundRequested, true, false}, {contract.ExitRequested, true, true},
		{contract.RefundCancelled, false, true}, {contract.RefundRequested, true, true},
		{contract.ExitCancelled, true, false}, {contract.ExitRequested, true, true}, {contract.Refunded, false, false},
	} {
		var err error
		if p, err = p.After(event(c.kind, 50), rules(chain.Base, 20)); err != nil {
			t.Fatal(err)
		}
		if p.RefundAt.IsZero() == c.refund {
			t.Errorf("after %s: a refund is due at %v, want one: %t", c.kind, p.RefundAt, c.refund)
		}
		if p.ExitAt.IsZero() == c.exit {
			t.Errorf("after %s: an exit is due at %v, want one: %t", c.kind, p.ExitAt, c.exit)
		}
	}
}

// Whatever comes, nothing arises or is lost between two events, and the books have all that is not dust.
func TestAPositionHasWhatCameInLessWhatLeft(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(14, 7)) // the histories are the same every time
	kinds := []contract.Kind{contract.Deposited, contract.Deposited, contract.SlashProposed, contract.SlashExecuted,
		contract.SlashReversed, contract.SlashLapsed, contract.Refunded, contract.ExitRequested}
	for range 500 {
		var p position.Position
		var held uint64
		for range 30 {
			kind, amount := kinds[r.IntN(len(kinds))], 1+r.Uint64N(20)
			if kind == contract.Refunded {
				amount = held
			}
			next, err := p.After(event(kind, amount), rules(chain.Base, 20))
			if err != nil {
				continue // the contract would have refused it
			}
			switch p = next; kind {
			case contract.Deposited:
				held += amount
			case contract.SlashExecuted, contract.Refunded:
				held -= amount
			default:
			}
			if p.Total() != chain.NewAmount(held) {
				t.Fatalf("after %s of %d: got %s in all, want %d", kind, amount, p.Total(), held)
			}
			if want := held >= 10; p.Counted != want {
				t.Fatalf("%d, where 10 is no dust: got counted %t, want %t", held, p.Counted, want)
			}
			var booked int64
			if p.Counted {
				booked = int64(held)
			}
			if p.Booked != booked {
				t.Fatalf("%d: the books have %d, want all that is not dust, %d", held, p.Booked, booked)
			}
		}
	}
}

func TestMoreThanTheBooksCanCountIsNoPosition(t *testing.T) {
	t.Parallel()
	far, err := chain.ParseAmount("9223372036854775808") // 2^63
	if err != nil {
		t.Fatal(err)
	}
	e := position.Event{Event: contract.Event{Kind: contract.Deposited, Amount: far}}
	if p, err := (position.Position{}).After(e, rules(chain.Base, 20)); err == nil {
		t.Errorf("got %+v, want an error", p)
	}
}

func stands(on chain.ID, free, escrow uint64, leaves bool) position.Position {
	p := position.Position{Chain: on, Free: chain.NewAmount(free), Escrow: chain.NewAmount(escrow)}
	if leaves {
		p.ExitAt = time.Unix(100, 0)
	}
	return p
}

// On 8453 a minimum is 20, and on 254 it is 100.
var terms = position.Terms{Chains: []position.Rules{rules(chain.Base, 20), rules(chain.SVC, 100)},
	Card: position.CardRules{Available: true, Minimum: 20 * money.USD}}

func TestCollateralIsConfirmedOnOneChainByItselfOrByCard(t *testing.T) {
	t.Parallel()
	card := func(free money.NanoUSD) position.Holdings { return position.Holdings{Card: position.Card{Free: free}} }
	on := func(all ...position.Position) position.Holdings { return position.Holdings{Positions: all} }
	for name, c := range map[string]struct {
		holdings position.Holdings
		source   collateral.Source
		paid     chain.ID
	}{
		"nothing":               {on(), "", 0},
		"the minimum":           {on(stands(chain.Base, 20, 0, false)), collateral.FromContract, chain.Base},
		"less than the minimum": {on(stands(chain.Base, 19, 0, false)), "", 0},
		"escrow does not count": {on(stands(chain.Base, 19, 5, false)), "", 0},
		"two positions on one chain": {on(stands(chain.Base, 10, 0, false), stands(chain.Base, 10, 0, false)),
			collateral.FromContract, chain.Base},
		"two halves on two chains":      {on(stands(chain.Base, 19, 0, false), stands(chain.SVC, 99, 0, false)), "", 0},
		"a chain without terms":         {on(stands(chain.Ethereum, 1_000, 0, false)), "", 0},
		"the minimum by card":           {card(20 * money.USD), collateral.FromCard, chain.Base},
		"less than the minimum by card": {card(20*money.USD - 1), "", 0},
		"the larger multiple pays": {on(stands(chain.Base, 30, 0, false), stands(chain.SVC, 200, 0, false)),
			collateral.FromContract, chain.SVC},
		"of equal multiples the first": {on(stands(chain.SVC, 200, 0, false), stands(chain.Base, 40, 0, false)),
			collateral.FromContract, chain.Base},
		"a chain pays rather than a card": {position.Holdings{Card: position.Card{Free: 90 * money.USD},
			Positions: []position.Position{stands(chain.SVC, 100, 0, false)}}, collateral.FromContract, chain.SVC},
		"the choice pays": {position.Holdings{Choice: chain.Base, Positions: []position.Position{
			stands(chain.Base, 30, 0, false), stands(chain.SVC, 900, 0, false)}}, collateral.FromContract, chain.Base},
		"a choice where nothing stands does not": {position.Holdings{Choice: chain.Base, Positions: []position.Position{
			stands(chain.SVC, 100, 0, false)}}, collateral.FromContract, chain.SVC},
	} {
		got := terms.Assess(c.holdings)
		if want := c.source != ""; got.Confirmed != want {
			t.Errorf("%s: got confirmed %t, want %t", name, got.Confirmed, want)
		}
		if got.Source != c.source {
			t.Errorf("%s: got the source %q, want %q", name, got.Source, c.source)
		}
		if got.Settlement != c.paid {
			t.Errorf("%s: got the settlement chain %s, want %s", name, got.Settlement, c.paid)
		}
	}
}

func TestACauseHoldsWhileWhatStandsRestsOnWhatLeaves(t *testing.T) {
	t.Parallel()
	whole := 20 * money.USD
	for name, c := range map[string]struct {
		holdings position.Holdings
		want     []collateral.Cause
	}{
		"nothing leaves": {position.Holdings{Positions: []position.Position{stands(chain.Base, 20, 0, false)}}, nil},
		"the depositor leaves": {position.Holdings{Positions: []position.Position{stands(chain.Base, 20, 0, true)}},
			[]collateral.Cause{collateral.Exit}},
		"a stranger leaves": {position.Holdings{Positions: []position.Position{stands(chain.Base, 20, 0, false),
			stands(chain.Base, 900, 0, true)}}, nil},
		"the depositor leaves and a card stays": {position.Holdings{Card: position.Card{Free: money.NanoUSD(whole)},
			Positions: []position.Position{stands(chain.Base, 20, 0, true)}}, nil},
		"one leaves of whom nothing is confirmed": {position.Holdings{Positions: []position.Position{
			stands(chain.Base, 19, 0, true)}}, nil},
		"a refund": {position.Holdings{Refunding: true}, []collateral.Cause{collateral.Refund}},
		"a payment went back": {position.Holdings{Card: position.Card{Reversed: true}},
			[]collateral.Cause{collateral.CardReversed}},
		"it went back and something is owed": {position.Holdings{Card: position.Card{Reversed: true, Owed: 1},
			Positions: []position.Position{stands(chain.Base, 20, 0, false)}}, []collateral.Cause{collateral.CardReversed}},
		"it went back and the books were not read": {position.Holdings{Card: position.Card{Reversed: true, Stale: true},
			Positions: []position.Position{stands(chain.Base, 20, 0, false)}}, []collateral.Cause{collateral.CardReversed}},
		"it went back and is made good": {position.Holdings{Card: position.Card{Reversed: true},
			Positions: []position.Position{stands(chain.Base, 20, 0, false)}}, nil},
		"debts alone suspend nobody": {position.Holdings{Card: position.Card{Owed: 1},
			Positions: []position.Position{stands(chain.Base, 20, 0, false)}}, nil},
	} {
		got := terms.Assess(c.holdings)
		if !slices.Equal(got.Causes, c.want) {
			t.Errorf("%s: got %v, want %v", name, got.Causes, c.want)
		}
		if want := slices.Contains(c.want, collateral.CardReversed); got.Reversed != want {
			t.Errorf("%s: got reversed %t, want %t", name, got.Reversed, want)
		}
	}
}
