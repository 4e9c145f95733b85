package store_test

import (
	"crypto/rand"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/price"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Hostile test 56.
func TestThePinnedPriceSettlesWhateverTheCatalogSaysMeanwhile(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	prices := pricesOf(e.price)
	a := hold.NewAdmitter(hold.Config{Batch: 1, Queue: 10, Writers: 1, Timeout: 90 * time.Second},
		hold.Deps{Prices: prices, Store: e.store, Observe: func(hold.Outcome, int) {}})
	defer runAdmitter(t, a)()
	admitRequest := func() hold.AdmitRequest {
		return hold.AdmitRequest{Request: request(t), Key: c.key, Model: "acme/large", MaxCompletionTokens: 10}
	}
	before := admitRequest()
	first, err := a.Admit(t.Context(), before)
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case first.Price != e.price:
		t.Fatalf("e.price: got %v, want %v", e.price, first.Price)
	case first.Held != 10*cent:
		t.Fatalf("first.Held: got %v, want %v", first.Held, 10*cent)
	}

	dearer, err := ids.NewPriceVersion(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rates := money.Rates{Output: 2 * centRates.Output, PayoutOutput: centRates.PayoutOutput}
	prices.Replace(map[string]price.Model{"acme/large": {ID: "acme/large", Class: limit.LLM, Version: dearer,
		Rates: rates}})
	switch again, err := a.Admit(t.Context(), before); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case again.Price != e.price:
		t.Errorf("repeated: again.Price: got %v, want %v", again.Price, e.price)
	case again.Rates != centRates:
		t.Errorf("repeated: again.Rates: got %+v, want %+v", again.Rates, centRates)
	case again.Held != 10*cent:
		t.Errorf("repeated: again.Held: got %v, want %v", again.Held, 10*cent)
	}
	after := admitRequest()
	second, err := a.Admit(t.Context(), after)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case second.Price != dearer:
		t.Errorf("second.Price: got %v, want %v", second.Price, dearer)
	case second.Held != 20*cent:
		t.Errorf("second.Held: got %v, want %v", second.Held, 20*cent)
	}

	prices.Replace(map[string]price.Model{})
	if _, err := a.Admit(t.Context(), admitRequest()); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("a model that is gone: got the error %v, want the reason %v", err, fault.ModelNotFound)
	}
	reservation := hold.Reservation{AdmitRequest: before, Price: e.price, Rates: centRates}
	atTheNewPrice := e.served(t, reservation, 4)
	atTheNewPrice.Event.Price, atTheNewPrice.Event.Rates = dearer, rates
	e.settle(t, usage.PriceMismatch, atTheNewPrice)
	e.settle(t, usage.Settled, e.served(t, reservation, 4))
	e.wantWallet(t, c, money.USD-4*cent, 20*cent)
	e.settle(t, usage.Settled, e.served(t, hold.Reservation{AdmitRequest: after, Price: dearer, Rates: rates}, 4))
	e.wantWallet(t, c, money.USD-12*cent, 0)
	e.sound(t)
}
