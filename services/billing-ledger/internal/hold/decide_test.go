package hold

import (
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
)

// unboundKey has no limits.
func unboundKey() *Key {
	k := &Key{}
	for i := range k.Limits {
		k.Limits[i] = limit.Unlimited
	}
	return k
}

func TestAnAccountDecidesEachRequestOnWhatTheEarlierOnesLeft(t *testing.T) {
	llm := Reservation{Class: limit.LLM, Amount: 4}
	free := Reservation{Class: limit.LLM, ZeroPriced: true}
	for name, tc := range map[string]struct {
		of   func(a *Account, k *Key)
		ask  []Reservation
		want []Outcome
	}{
		"credit": {func(a *Account, _ *Key) { a.Free = 9 }, []Reservation{llm, llm, llm},
			[]Outcome{Admitted, Admitted, CreditShort}},
		"places": {func(a *Account, _ *Key) { a.MaxOpen = a.Open + 1 }, []Reservation{llm, llm},
			[]Outcome{Admitted, TooManyOpen}},
		"rate": {func(_ *Account, k *Key) { k.Limits[0] = 1 }, []Reservation{llm, llm},
			[]Outcome{Admitted, RateLimited}},
		"shared rate": {func(_ *Account, k *Key) { k.Limits[3] = 1 }, []Reservation{free, free, llm},
			[]Outcome{Admitted, RateLimited, Admitted}},
		"left often": {func(a *Account, _ *Key) { a.LeftOften = time.Second }, []Reservation{free}, []Outcome{LeftOften}},
		"frozen":     {func(a *Account, _ *Key) { a.Frozen = true }, []Reservation{llm}, []Outcome{AccountFrozen}},
		"model": {func(_ *Account, k *Key) { k.Models = []string{"b"} }, []Reservation{llm},
			[]Outcome{ModelNotAllowed}},
		"revoked": {func(_ *Account, k *Key) { k.Refusal = KeyRevoked }, []Reservation{llm}, []Outcome{KeyRevoked}},
	} {
		a, k := &Account{Free: 1000, Open: 3, MaxOpen: 100}, unboundKey()
		tc.of(a, k)
		for i, r := range tc.ask {
			if got := a.Decide(k, r).Outcome; got != tc.want[i] {
				t.Errorf("%s: request %d: got %s, want %s", name, i, got, tc.want[i])
			}
		}
	}
}

func TestARefusedRequestCountsAgainstNothing(t *testing.T) {
	a, k := &Account{Free: 3, MaxOpen: 5, ZeroPriced: time.Second}, unboundKey()
	k.Limits[0] = 10
	before, keyBefore := *a, k.Ahead
	if got := a.Decide(k, Reservation{Class: limit.LLM, Amount: 4}).Outcome; got != CreditShort {
		t.Fatalf("outcome: got %s, want %s", got, CreditShort)
	}
	if *a != before {
		t.Errorf("account: got %+v, want %+v", *a, before)
	}
	if k.Ahead != keyBefore {
		t.Errorf("rates: got %v, want %v", k.Ahead, keyBefore)
	}
	if k.Admitted != 0 {
		t.Errorf("admitted: got %d, want 0", k.Admitted)
	}
}

func TestAnAdmittedRequestIsToldWhatIsLeftAfterIt(t *testing.T) {
	a, k := &Account{Free: money.USD, MaxOpen: 5}, unboundKey()
	k.Limits[0] = 10
	got := a.Decide(k, Reservation{Class: limit.LLM}).Admission.Rate
	if want := (limit.Rate{Limit: 10, Remaining: 9, Reset: 6 * time.Second}); got != want {
		t.Errorf("rate: got %+v, want %+v", got, want)
	}
}
