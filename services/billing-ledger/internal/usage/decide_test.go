package usage

import (
	"crypto/sha256"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

var (
	testRequest = ids.RequestID{1}
	testAccount = ids.AccountID{2}
	testKey     = ids.KeyID{3}
)

func snapshot(h Hold, w Wallet) Snapshot {
	return Snapshot{
		Holds: map[ids.RequestID]Hold{testRequest: h}, Wallets: map[ids.AccountID]Wallet{h.Account: w},
		Settled: map[ids.RequestID]First{},
	}
}

func randomRates(r *rand.Rand) money.Rates {
	rates := money.Rates{Unit: money.Unit(r.IntN(3)), Input: money.PicoUSD(r.Int64N(1 << 20)),
		Output: money.PicoUSD(r.Int64N(1 << 20))}
	if !rates.Unit.CountsPrompt() {
		rates.Input = 0
	}
	if !rates.Unit.CountsCompletion() {
		rates.Output = 0
	}
	rates.PayoutInput = money.PicoUSD(r.Int64N(int64(rates.Input) + 1))
	rates.PayoutOutput = money.PicoUSD(r.Int64N(int64(rates.Output) + 1))
	return rates
}

// TestSettledMoneyAddsUp walks random holds, wallets and usage.
func TestSettledMoneyAddsUp(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		rates := randomRates(r)
		bound := money.Tokens{Prompt: r.Int64N(1 << 12), Completion: r.Int64N(1 << 12)}
		ceiling := money.Tokens{Prompt: bound.Prompt + promptSlack, Completion: bound.Completion}
		switch rates.Unit {
		case money.Image:
			bound.Prompt, ceiling.Prompt = 0, 0
		case money.AudioMinute:
			bound.Completion, ceiling = 0, money.Tokens{Prompt: bound.Prompt}
		case money.Token:
		}
		amount, err := rates.Charge(bound)
		if err != nil {
			t.Fatal(err)
		}
		others := money.NanoUSD(r.Int64N(1 << 30))
		w := Wallet{Held: amount + others, Posted: amount + others + money.NanoUSD(r.Int64N(1<<22))}
		h := Hold{
			Account: testAccount, Key: testKey, Model: "m", Billing: hold.PayAsYouGo, Amount: amount,
			Prompt: bound.Prompt, MaxCompletion: bound.Completion, Rates: rates, State: hold.Open,
		}
		e := Event{Request: testRequest, Model: "m", Rates: rates,
			Billable: money.Tokens{Prompt: r.Int64N(ceiling.Prompt + 1), Completion: r.Int64N(ceiling.Completion + 1)}}
		blind := Decide(Snapshot{Holds: snapshot(h, w).Holds}, []Event{e, e})
		fx := Decide(snapshot(h, w), []Event{e, e})
		if blind.NeedsWallets != (fx.Lines[0].ListPrice > amount) {
			t.Fatalf("seed %d: a list price of %d on a hold of %d needs wallets: %v, with them %v: blind.NeedsWallets: got %t, "+
				"want %t", seed, fx.Lines[0].ListPrice, amount, blind.NeedsWallets, fx.NeedsWallets, blind.NeedsWallets,
				fx.Lines[0].ListPrice > amount)
		}
		if fx.NeedsWallets {
			t.Fatalf("seed %d: a list price of %d on a hold of %d needs wallets: %v, with them %v: fx.NeedsWallets: got true, "+
				"want false", seed, fx.Lines[0].ListPrice, amount, blind.NeedsWallets, fx.NeedsWallets)
		}
		if !blind.NeedsWallets && !reflect.DeepEqual(blind, fx) {
			t.Fatalf("seed %d: without wallets %+v, with them %+v", seed, blind, fx)
		}
		switch {
		case fx.Results[0] != Settled:
			t.Fatalf("seed %d: results: fx.Results[0]: got %q, want %q", seed, fx.Results[0], Settled)
		case fx.Results[1] != Duplicate:
			t.Fatalf("seed %d: results: fx.Results[1]: got %q, want %q", seed, fx.Results[1], Duplicate)
		case len(fx.Lines) != 1:
			t.Fatalf("seed %d: len(fx.Lines): got %d, want 1", seed, len(fx.Lines))
		}
		l, change := fx.Lines[0], fx.Wallets[testAccount]
		posted, held := w.Posted-change.Charged, w.Held-change.Released
		switch {
		case l.Payout < 0 || l.Payout > l.ListPrice:
			t.Fatalf("seed %d: payout %d of list price %d", seed, l.Payout, l.ListPrice)
		case l.Charged < 0 || l.Shortfall < 0 || l.Charged+l.Shortfall != l.ListPrice:
			t.Fatalf("seed %d: charged %d and short %d of %d", seed, l.Charged, l.Shortfall, l.ListPrice)
		case posted < held || held != others:
			t.Fatalf("seed %d: wallet left with %d posted and %d held for other holds of %d", seed, posted, held, others)
		case l.Shortfall > 0 && posted != held:
			t.Fatalf("seed %d: short %d with %d still available", seed, l.Shortfall, posted-held)
		}
	}
}

// The store decides again on the same book when wallets were missing.
func TestDecidingLeavesTheSnapshotAsItIs(t *testing.T) {
	h := Hold{Account: testAccount, Model: "m", Amount: 5, MaxCompletion: 10,
		Rates: money.Rates{Output: 1000, PayoutOutput: 1000}, State: hold.Open, Billing: hold.PayAsYouGo}
	b := snapshot(h, Wallet{Posted: 8, Held: 5})
	e := Event{Request: testRequest, Model: "m", Rates: h.Rates, Billable: money.Tokens{Completion: 10}}
	first, second := Decide(b, []Event{e}), Decide(b, []Event{e})
	if !reflect.DeepEqual(first, second) {
		t.Errorf("second: got %+v, want %+v", second, first)
	} else if first.Lines[0].Charged != 8 {
		t.Errorf("first.Lines[0].Charged: got %v, want 8", first.Lines[0].Charged)
	}
	if !reflect.DeepEqual(b, snapshot(h, Wallet{Posted: 8, Held: 5})) {
		t.Errorf("the book became %+v", b)
	}
}

func TestEachContradictionHasItsResult(t *testing.T) {
	base := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: hold.PayAsYouGo, Amount: 50, MaxCompletion: 10,
		Rates: money.Rates{Output: 5000, PayoutOutput: 4000}, State: hold.Open}
	for name, tc := range map[string]struct {
		hold  func(*Hold)
		event func(*Event)
		want  Result
	}{
		"as admitted":     {want: Settled},
		"other price":     {event: func(e *Event) { e.Price = ids.PriceVersionID{9} }, want: PriceMismatch},
		"other rates":     {event: func(e *Event) { e.Rates.Output++ }, want: PriceMismatch},
		"other model":     {event: func(e *Event) { e.Model = "x" }, want: PriceMismatch},
		"too much answer": {event: func(e *Event) { e.Billable.Completion = 11 }, want: AboveHold},
		"too much prompt": {event: func(e *Event) { e.Billable.Prompt = promptSlack + 1 }, want: AboveHold},
		"price overflows": {event: func(e *Event) { e.Billable.Prompt = math.MaxInt64 },
			hold: func(h *Hold) { h.Rates.Input = money.MaxRate; h.Rates.PayoutInput = 1 }, want: PriceMismatch},
		"unknown":            {event: func(e *Event) { e.Request = ids.RequestID{9} }, want: UnknownRequest},
		"released":           {hold: func(h *Hold) { h.State = hold.Released }, want: Orphaned},
		"expired":            {hold: func(h *Hold) { h.State = hold.Expired }, want: Orphaned},
		"line was taken out": {hold: func(h *Hold) { h.State = hold.Settled }, want: Duplicate},
	} {
		t.Run(name, func(t *testing.T) {
			h := base
			e := Event{Request: testRequest, Model: "m", Rates: h.Rates, Billable: money.Tokens{Completion: 10}}
			if tc.hold != nil {
				tc.hold(&h)
			}
			if tc.event != nil {
				tc.event(&e)
			}
			fx := Decide(snapshot(h, Wallet{Posted: 50, Held: 50}), []Event{e})
			if fx.Results[0] != tc.want {
				t.Fatalf("result: got %s, want %s", fx.Results[0], tc.want)
			}
			if moved := len(fx.Wallets) + len(fx.Closed) + len(fx.Ended); (moved > 0) != (tc.want == Settled) {
				t.Errorf("result %s moves: moved > 0: got %t, want %t", tc.want, moved > 0, tc.want == Settled)
			}
			if lines := len(fx.Lines); (lines > 0) != (tc.want == Settled || tc.want == Orphaned) {
				t.Errorf("result %s: lines > 0: got %t, want %t", tc.want, lines > 0, tc.want == Settled || tc.want == Orphaned)
			}
		})
	}
}

func TestImagesAndAudioAreBoundByTheirHold(t *testing.T) {
	image := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: hold.PayAsYouGo, Amount: 120_000_000,
		MaxCompletion: 3,
		Rates:         money.Rates{Unit: money.Image, Output: 40_000_000_000, PayoutOutput: 36_000_000_000}, State: hold.Open}
	audio := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: hold.PayAsYouGo, Amount: 9_050_000,
		Prompt: 90_500,
		Rates:  money.Rates{Unit: money.AudioMinute, Input: 6_000_000_000, PayoutInput: 5_400_000_000}, State: hold.Open}
	perToken := image.Rates
	perToken.Unit = money.Token
	for name, tc := range map[string]struct {
		hold            Hold
		rates           money.Rates
		counts          money.Tokens
		want            Result
		charged, payout money.NanoUSD
	}{
		"all images":            {image, image.Rates, money.Tokens{Completion: 3}, Settled, 120_000_000, 108_000_000},
		"an image less":         {image, image.Rates, money.Tokens{Completion: 2}, Settled, 80_000_000, 72_000_000},
		"an image more":         {image, image.Rates, money.Tokens{Completion: 4}, AboveHold, 0, 0},
		"images and a prompt":   {image, image.Rates, money.Tokens{Prompt: 1, Completion: 3}, AboveHold, 0, 0},
		"images priced per 1M":  {image, perToken, money.Tokens{Completion: 3}, PriceMismatch, 0, 0},
		"all audio":             {audio, audio.Rates, money.Tokens{Prompt: 90_500}, Settled, 9_050_000, 8_145_000},
		"nothing of it":         {audio, audio.Rates, money.Tokens{}, Settled, 0, 0},
		"a millisecond more":    {audio, audio.Rates, money.Tokens{Prompt: 90_501}, AboveHold, 0, 0},
		"audio and a token":     {audio, audio.Rates, money.Tokens{Prompt: 90_500, Completion: 1}, AboveHold, 0, 0},
		"audio priced as image": {audio, image.Rates, money.Tokens{Prompt: 90_500}, PriceMismatch, 0, 0},
	} {
		e := Event{Request: testRequest, Model: "m", Rates: tc.rates, Billable: tc.counts}
		fx := Decide(snapshot(tc.hold, Wallet{Posted: tc.hold.Amount, Held: tc.hold.Amount}), []Event{e})
		if fx.Results[0] != tc.want {
			t.Errorf("%s: fx.Results[0]: got %q, want %q", name, fx.Results[0], tc.want)
			continue
		}
		if (len(fx.Lines) == 1) != (tc.want == Settled) {
			t.Errorf("%s: len(fx.Lines) == 1: got %t, want %t", name, len(fx.Lines) == 1, tc.want == Settled)
			continue
		}
		if tc.want == Settled && fx.Lines[0].Charged != tc.charged {
			t.Errorf("%s: charged: got %d, want %d, where tc.want == Settled", name, fx.Lines[0].Charged, tc.charged)
		} else if tc.want == Settled && fx.Lines[0].Payout != tc.payout {
			t.Errorf("%s: fx.Lines[0].Payout: got %d, want %d, where tc.want == Settled", name, fx.Lines[0].Payout, tc.payout)
		}
	}
}

func TestABrokenAnswerIsChargedByItsImagesAndNotAtAllForAudio(t *testing.T) {
	image := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: hold.PayAsYouGo, Amount: 120, MaxCompletion: 3,
		Rates: money.Rates{Unit: money.Image, Output: 40_000, PayoutOutput: 36_000}, State: hold.Open}
	audio := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: hold.PayAsYouGo, Amount: 100, Prompt: 60_000,
		Rates: money.Rates{Unit: money.AudioMinute, Input: 100_000, PayoutInput: 90_000}, State: hold.Open}
	for name, tc := range map[string]struct {
		hold   Hold
		counts money.Tokens
		want   money.Tokens
	}{
		"two of three images": {image, money.Tokens{Completion: 3}, money.Tokens{Completion: 2}},
		"audio":               {audio, money.Tokens{Prompt: 60_000}, money.Tokens{}},
	} {
		b := snapshot(tc.hold, Wallet{Posted: 120, Held: 120})
		b.Truncated = map[ids.RequestID]Relayed{testRequest: {Tokens: 2, Bytes: 9_000}}
		e := Event{Request: testRequest, Model: "m", Rates: tc.hold.Rates, EvidenceSource: Hub, Ending: "completed",
			Billable: tc.counts}
		if fx := Decide(b, []Event{e}); fx.Results[0] != Settled {
			t.Errorf("%s: fx.Results[0]: got %q, want %q", name, fx.Results[0], Settled)
		} else if fx.Lines[0].Event.Billable != tc.want {
			t.Errorf("%s: fx.Lines[0].Event.Billable: got %+v, want %+v", name, fx.Lines[0].Event.Billable, tc.want)
		}
	}
}

func TestOverflowOfABillIsQuarantined(t *testing.T) {
	rates := money.Rates{Input: money.MaxRate, PayoutInput: 1}
	h := Hold{Account: testAccount, Model: "m", Rates: rates, State: hold.Open, Billing: hold.PayAsYouGo}
	e := Event{Request: testRequest, Model: "m", Rates: rates, Billable: money.Tokens{Prompt: math.MaxInt64}}
	if fx := Decide(snapshot(h, Wallet{}), []Event{e}); fx.Results[0] != AboveHold {
		t.Errorf("fx.Results[0]: got %q, want %q", fx.Results[0], AboveHold)
	} else if len(fx.Lines) != 0 {
		t.Errorf("len(fx.Lines): got %d, want 0", len(fx.Lines))
	}
}

func TestHashTellsEveryFieldApart(t *testing.T) {
	base := Event{Request: testRequest, Attempt: 1, Hub: "a", Model: "bc", Ending: "completed"}
	seen := map[[sha256.Size]byte]string{base.Hash(): "base"}
	for name, change := range map[string]func(*Event){
		"request": func(e *Event) { e.Request[15]++ }, "attempt": func(e *Event) { e.Attempt++ },
		"text moved": func(e *Event) { e.Hub, e.Model = "ab", "c" }, "provider": func(e *Event) { e.Provider[0]++ },
		"epoch": func(e *Event) { e.Epoch++ }, "price": func(e *Event) { e.Price[0]++ },
		"rates":        func(e *Event) { e.Rates.Input++ },
		"unit":         func(e *Event) { e.Rates.Unit = money.Image },
		"other unit":   func(e *Event) { e.Rates.Unit = money.AudioMinute },
		"payout rates": func(e *Event) { e.Rates.PayoutInput++ }, "prompt": func(e *Event) { e.Billable.Prompt++ },
		"completion": func(e *Event) { e.Billable.Completion++ }, "claimed": func(e *Event) { e.Claimed.Completion++ },
		"recounted": func(e *Event) { e.RecountedCompletion++ }, "bytes": func(e *Event) { e.DeliveredBytes++ },
		"estimate": func(e *Event) { e.EstimatedPrompt++ }, "ending": func(e *Event) { e.Ending = "truncated" },
		"claim state": func(e *Event) { e.ClaimState = "valid" }, "route": func(e *Event) { e.RouteMode = "auto" },
		"requested": func(e *Event) { e.RequestedProvider = "p" }, "fallback": func(e *Event) { e.FallbackReason = "f" },
		"evidence source": func(e *Event) { e.EvidenceSource = Gateway },
		"first content":   func(e *Event) { e.FirstContentMS++ },
		"dispatched":      func(e *Event) { e.DispatchedAt = e.DispatchedAt.AddDate(2000, 0, 0) },
		"ended":           func(e *Event) { e.EndedAt = e.EndedAt.AddDate(2000, 0, 0) },
	} {
		e := base
		change(&e)
		if same, ok := seen[e.Hash()]; ok {
			t.Errorf("%s has the hash of %s", name, same)
		}
		seen[e.Hash()] = name
	}
}

// The platform broke the answer off: what came is charged, the prompt is not.
func TestABrokenAnswerIsSettledByWhatCame(t *testing.T) {
	h := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: hold.PayAsYouGo, Amount: 100, MaxCompletion: 10,
		Rates: money.Rates{Input: 1000, PayoutInput: 900, Output: 5000, PayoutOutput: 4000}, State: hold.Open}
	hubs := Event{Request: testRequest, Model: "m", Rates: h.Rates, EvidenceSource: Hub, Ending: "completed",
		Billable: money.Tokens{Prompt: 7, Completion: 6}}
	for name, tc := range map[string]struct {
		relayed *Relayed
		event   func(*Event)
		want    money.Tokens
		less    bool
	}{
		"no word of a failure":      {want: money.Tokens{Prompt: 7, Completion: 6}},
		"less came":                 {relayed: &Relayed{4, 400}, want: money.Tokens{Completion: 4}, less: true},
		"all came but the end":      {relayed: &Relayed{6, 600}, want: money.Tokens{Completion: 6}, less: true},
		"counted and never written": {relayed: &Relayed{6, 0}, less: true},
		"the hub tells no more": {relayed: &Relayed{6, 600}, event: func(e *Event) { e.Billable.Prompt = 0 },
			want: money.Tokens{Completion: 6}},
		"the hub tells less": {relayed: &Relayed{6, 600}, event: func(e *Event) { e.Billable = money.Tokens{} }},
		"the hub died and noted less": {relayed: &Relayed{6, 600}, less: true, want: money.Tokens{Completion: 6},
			event: func(e *Event) { e.Ending, e.Billable = "platform_lost", money.Tokens{Completion: 2} }},
		"the hub died and noted more": {relayed: &Relayed{3, 600}, less: true, want: money.Tokens{Completion: 3},
			event: func(e *Event) { e.Ending, e.Billable = "platform_lost", money.Tokens{Completion: 5} }},
		"the hub died, more came than is held": {relayed: &Relayed{99, 600}, less: true, want: money.Tokens{Completion: 10},
			event: func(e *Event) { e.Ending, e.Billable = "platform_lost", money.Tokens{Completion: 5} }},
		"the gateway's count was heard": {relayed: &Relayed{4, 400}, event: func(e *Event) { e.EvidenceSource = Gateway },
			want: money.Tokens{Prompt: 7, Completion: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := hubs, snapshot(h, Wallet{Posted: 100, Held: 100})
			if tc.event != nil {
				tc.event(&e)
			}
			if tc.relayed != nil {
				b.Truncated = map[ids.RequestID]Relayed{testRequest: *tc.relayed}
			}
			fx := Decide(b, []Event{e, e})
			switch {
			case fx.Results[0] != Settled:
				t.Fatalf("fx.Results[0]: got %q, want %q", fx.Results[0], Settled)
			case fx.Results[1] != Duplicate:
				t.Fatalf("fx.Results[1]: got %q, want %q", fx.Results[1], Duplicate)
			case len(fx.Lines) != 1:
				t.Fatalf("len(fx.Lines): got %d, want 1", len(fx.Lines))
			}
			l := fx.Lines[0]
			if l.Event.Billable != tc.want {
				t.Errorf("settled: l.Event.Billable: got %+v, want %+v", l.Event.Billable, tc.want)
			} else if (len(fx.Overruled) == 1) != tc.less {
				t.Errorf("len(fx.Overruled) == 1: got %t, want %t", len(fx.Overruled) == 1, tc.less)
			} else if wanted := l.Event.Hash(); l.Hash != wanted {
				t.Errorf("l.Hash: got %v, want %v", l.Hash, wanted)
			}
			if tc.less && l.Event.EvidenceSource != Gateway {
				t.Errorf("overruled: l.Event.EvidenceSource: got %q, want %q, where tc.less", l.Event.EvidenceSource, Gateway)
			} else if tc.less && l.Event.Ending != "platform_lost" {
				t.Errorf(`overruled: l.Event.Ending: got %q, want "platform_lost", where tc.less`, l.Event.Ending)
			}
		})
	}
}
