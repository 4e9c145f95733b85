package store_test

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

func (e *env) agreements() *enterprise.Agreements {
	return &enterprise.Agreements{Store: store.Agreements{Store: e.store}}
}

func (e *env) agree(t testing.TB, c consumer, terms enterprise.Terms) {
	t.Helper()
	terms.Note = "agreed"
	if err := e.agreements().Set(t.Context(), c.account, terms); err != nil {
		t.Fatal(err)
	}
}

// same wants one thing to be another.
func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func ofLLM(c enterprise.Category) map[limit.Class]enterprise.Category {
	return map[limit.Class]enterprise.Category{limit.LLM: c}
}

// usual is what accounts without terms have.
var usual = limit.Defaults{
	LLMPerMinute: 200, MultimodalPerMinute: 200, EmbeddingPerMinute: 500, ZeroPricedPerMinute: 10, ImagePerMinute: 60,
	AudioPerMinute: 60, Concurrent: 1000,
}

// raceTerms has three keys of an account ask on three replicas, and returns how many requests were
// admitted. All others are refused for the reason.
func (e *env) raceTerms(t *testing.T, keys []consumer, requests int, reason fault.Reason) int64 {
	t.Helper()
	var admitters []*hold.Admitter
	for _, pool := range e.pools(t, 3, nil) {
		a, stop := admitterOn(t, store.New(pool, usual, terms), e.price, 2)
		defer stop()
		admitters = append(admitters, a)
	}
	var admitted atomic.Int64
	var callers sync.WaitGroup
	for i := range requests {
		order := hold.AdmitRequest{Request: request(t), Key: keys[i%len(keys)].key, Model: "acme/large",
			MaxCompletionTokens: 1}
		callers.Go(func() {
			switch _, err := admitters[i/len(keys)%3].Admit(t.Context(), order); {
			case err == nil:
				admitted.Add(1)
			case !fault.Is(err, reason):
				t.Error(err)
			}
		})
	}
	callers.Wait()
	return admitted.Load()
}

func TestTermsAreMetExactlyByRacingKeysOnThreeReplicas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		terms  enterprise.Terms
		want   int64
		reason fault.Reason
	}{
		"rate of the account": {enterprise.Terms{RequestsPerMinute: 17}, 17, fault.RateLimitExceeded},
		"rate of a category": {enterprise.Terms{Categories: ofLLM(enterprise.Category{RequestsPerMinute: 19})}, 19,
			fault.RateLimitExceeded},
		"the stricter of both": {enterprise.Terms{RequestsPerMinute: 30,
			Categories: ofLLM(enterprise.Category{RequestsPerMinute: 13})}, 13, fault.RateLimitExceeded},
		"places of a category": {enterprise.Terms{Categories: ofLLM(enterprise.Category{ConcurrentRequests: 11})}, 11,
			fault.ConcurrencyLimitExceeded},
		"tokens of a day": {enterprise.Terms{Categories: ofLLM(enterprise.Category{TokensPerDay: 23})}, 23,
			fault.RateLimitExceeded},
		"without a term": {enterprise.Terms{Priority: true}, 60, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, usual)
			keys := e.keysOf(t, 3, 100*money.USD)
			e.agree(t, keys[0], tc.terms)
			other := e.consumer(t, money.USD)
			if got := e.raceTerms(t, keys, 60, tc.reason); got != tc.want {
				t.Errorf("admitted: got %d, want %d", got, tc.want)
			}
			// Nobody else is bounded or raised by them.
			e.admitOne(t, e.reservation(t, other, 1), hold.Admitted)
			e.sound(t)
		})
	}
}

// A term for a category takes the place of the default of each key, also where it is higher.
func TestATermRaisesTheRateOfItsAccountAlone(t *testing.T) {
	t.Parallel()
	few := usual
	few.LLMPerMinute, few.MultimodalPerMinute = 2, 2
	e := setup(t, few)
	raised, other := e.consumer(t, 100*money.USD), e.consumer(t, money.USD)
	e.agree(t, raised, enterprise.Terms{Categories: ofLLM(enterprise.Category{RequestsPerMinute: 5})})
	for _, tc := range []struct {
		c     consumer
		class limit.Class
		want  int
	}{{raised, limit.LLM, 5}, {raised, limit.Multimodal, 2}, {other, limit.LLM, 2}} {
		for i := range tc.want + 1 {
			r := e.reservation(t, tc.c, 1)
			r.Class = tc.class
			left, err := e.store.ReadRate(t.Context(), tc.c.key, tc.class)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "limit", left.Limit, int32(tc.want))
			same(t, "left of it", left.Remaining, int32(tc.want-i))
			want := hold.Admitted
			if i == tc.want {
				want = hold.RateLimited
			}
			if got := e.admit(t, r)[0]; got.Outcome != want {
				t.Errorf("class %d: request %d: got %s, want %s", tc.class, i+1, got.Outcome, want)
			}
		}
	}
	e.agree(t, raised, enterprise.Terms{Categories: ofLLM(enterprise.Category{RequestsPerMinute: limit.Unlimited})})
	for range 20 {
		if got := e.admitOne(t, e.reservation(t, raised, 1), hold.Admitted); got.Rate.Limit != 0 {
			t.Errorf("limit: got %d, want none", got.Rate.Limit)
		}
	}
	e.sound(t)
}

func TestPlacesAndTokensOfACategoryFollowTheirRequests(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 100*money.USD)
	e.agree(t, c, enterprise.Terms{Categories: ofLLM(enterprise.Category{ConcurrentRequests: 2, TokensPerDay: 10})})
	first, second := e.reservation(t, c, 4), e.reservation(t, c, 4)
	e.admitOne(t, first, hold.Admitted)
	e.admitOne(t, second, hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 1), hold.CategoryTooManyOpen)
	image := e.reservation(t, c, 1)
	image.Class = limit.Image
	e.admitOne(t, image, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, first, 1))
	e.admitOne(t, e.reservation(t, c, 6), hold.CategoryTokensShort)
	e.release(t, second.Request)
	third := e.reservation(t, c, 9)
	e.admitOne(t, third, hold.Admitted)
	v := e.admit(t, e.reservation(t, c, 1))[0]
	same(t, "outcome", v.Outcome, hold.CategoryTokensShort)
	wait := v.Admission.Rate.Retry
	over := time.Now().UTC().Add(wait).Add(time.Second).Truncate(time.Minute)
	same(t, "the minute of the day when the wait is over", over.Hour()*60+over.Minute(), 0)
	// Settling may pass the cap.
	d := e.served(t, third, 9)
	d.Event.Billable.Prompt = 7
	e.settle(t, usage.Settled, d)
	if got := scan[int64](t, e, `SELECT used FROM category_tokens`); got != 17 {
		t.Errorf("tokens: got %d, want 17", got)
	}
	if got := scan[int64](t, e, `SELECT open FROM category_gate`); got != 0 {
		t.Errorf("places: got %d, want 0", got)
	}
	e.sound(t)
	for drift, sql := range map[string]string{
		"places in a category are its open holds without a report": `UPDATE category_gate SET open = 1`,
		"tokens of a category are what its requests used":          `UPDATE category_tokens SET used = used - 1`,
		"no admission passed the tokens of a category": `ALTER TABLE category_tokens DROP CONSTRAINT category_tokens_cap;
			UPDATE category_tokens SET excess = 0`,
	} {
		e.breakIt(t, sql)
		e.wantDriftOf(t, drift)
	}
}

// breakIt changes what is stored behind the service's back.
func (e *env) breakIt(t testing.TB, sql string) {
	t.Helper()
	for part := range strings.SplitSeq(sql, ";") {
		e.exec(t, part)
	}
}

// wantDriftOf wants verify to find this invariant broken.
func (e *env) wantDriftOf(t testing.TB, name string) {
	t.Helper()
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Name == name {
			if i.Drift == 0 {
				t.Errorf("%s: got no drift, want one", name)
			}
			return
		}
	}
	t.Errorf("got no invariant %q, want one", name)
}

// A discount lowers the charge alone. The hold is for what the request can cost with it, so credit
// for that is enough.
func TestADiscountLowersTheChargeAndThePlatformBearsIt(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 4*cent)
	whole := e.reservation(t, c, 4)
	e.admitOne(t, whole, hold.Admitted)
	e.release(t, whole.Request)
	e.agree(t, c, enterprise.Terms{Discount: 3333})
	odd := e.reservation(t, c, 3)
	odd.Rates = money.Rates{Input: 333, Output: 10_000_000_333, PayoutInput: 200, PayoutOutput: 9_000_000_000}
	odd.Amount, _ = odd.Rates.Charge(money.Tokens{Completion: 3})
	admission := e.admitOne(t, odd, hold.Admitted)
	list := odd.Amount
	same(t, "held", admission.Held, list-money.Discount(3333).Of(list))
	same(t, "discount", admission.Discount, 3333)
	// Terms that change meanwhile do not reach it.
	e.agree(t, c, enterprise.Terms{Discount: 1})
	again := e.admitOne(t, odd, hold.Repeated)
	same(t, "discount of a repeat", again.Discount, 3333)
	same(t, "held for a repeat", again.Held, admission.Held)
	e.settle(t, usage.Settled, e.served(t, odd, 3))
	off := money.Discount(3333).Of(list)
	e.wantWallet(t, c, 4*cent-(list-off), 0)
	payout, _ := odd.Rates.Payout(money.Tokens{Completion: 3})
	for kind, want := range map[string]money.NanoUSD{"e:discount": -off, "l:provider:accrued": payout,
		"r:usage_margin": list - payout, "l:consumer:available": -(list - off)} {
		got := scan[int64](t, e, `SELECT sum(amount)::bigint FROM usage_leg WHERE account_kind = $1`, kind)
		if got != int64(want) {
			t.Errorf("%s: got %d, want %d", kind, got, int64(want))
		}
	}
	r, err := e.store.Receipt(t.Context(), odd.Request, c.account)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "charge on the receipt", r.Usage.Charged, list-off)
	same(t, "discount on the receipt", r.Usage.Discount, off)
	e.sound(t)
	e.exec(t, `UPDATE hold SET discount = 3332 WHERE request_id = $1`, [16]byte(odd.Request))
	e.wantDriftOf(t, audit.AmountsRecomputed)
}

func TestNoDiscountMakesARequestFreeOrNegative(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 10*money.USD)
	for _, d := range []money.Discount{-1, 9001, 10_000, 20_000} {
		err := e.agreements().Set(t.Context(), c.account, enterprise.Terms{Discount: d, Note: "n"})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("a discount of %d: got the error %v, want the reason %v", d, err, fault.InvalidValue)
		}
	}
	e.agree(t, c, enterprise.Terms{Discount: enterprise.MaxDiscount})
	for _, price := range []int64{1, 9, 10, 11, 1000, 1_000_001} {
		r := e.reservation(t, c, 1)
		r.Rates = money.Rates{Output: money.PicoUSD(price * 1000), PayoutOutput: money.PicoUSD(price * 1000)}
		r.Amount = money.NanoUSD(price)
		held := e.admitOne(t, r, hold.Admitted).Held
		same(t, "held", held, money.NanoUSD(price-price*9000/10_000))
		if held <= 0 {
			t.Errorf("a price of %d: %d are held, want more than nothing", price, held)
		}
		e.settle(t, usage.Settled, e.served(t, r, 1))
		if charged := scan[int64](t, e, `SELECT charged FROM usage_settlement WHERE request_id = $1`,
			[16]byte(r.Request)); charged != int64(held) {
			t.Errorf("a price of %d: got %d charged, want the %d held", price, charged, held)
		}
	}
	// What costs nothing has no discount, and neither has what a plan covers.
	zero := e.free(t, c)
	e.admitOne(t, zero, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, zero, 1))
	planned := e.onPlan(t, c, roomy)
	covered := e.standard(t, planned, 2)
	e.admitOne(t, covered, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, covered, 2))
	if n := scan[int64](t, e, `SELECT count(*) FROM usage_settlement WHERE discount <> 0 AND source <> 'payg'`); n != 0 {
		t.Errorf("discounts of what credit does not pay: got %d, want 0", n)
	}
	e.sound(t)
}

func TestTermsAreKeptWithTheirNoteAndNobodyElseHasThem(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c, other := e.consumer(t, 0), e.consumer(t, 0)
	want := enterprise.Terms{RequestsPerMinute: 100, Discount: 1500, Priority: true, Note: "contract 7",
		Categories: map[limit.Class]enterprise.Category{
			limit.LLM:   {RequestsPerMinute: limit.Unlimited, ConcurrentRequests: 40, TokensPerDay: 1_000_000},
			limit.Image: {RequestsPerMinute: 5},
		}}
	for range 2 {
		if err := e.agreements().Set(t.Context(), c.account, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := e.agreements().Get(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("terms: got %+v, want %+v", got, want)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM operator_action WHERE action = 'set_terms' AND subject = $1
		AND detail ->> 'note' = 'contract 7'`, c.account); n != 1 {
		t.Errorf("audit entries: got %d, want 1", n)
	}
	none, err := e.agreements().Get(t.Context(), other.account)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(none, enterprise.Terms{}) {
		t.Errorf("another account: got %+v, want no terms", none)
	}
	k, err := e.keys.Authenticate(t.Context(), c.digest)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the key's priority", k.Priority, true)
	for _, id := range []ids.AccountID{{}, ids.AccountID(request(t))} {
		if err := e.agreements().Set(t.Context(), id, want); !fault.Is(err, fault.AccountNotFound) {
			t.Errorf("terms of nobody: got the error %v, want the reason %v", err, fault.AccountNotFound)
		}
		if _, err := e.agreements().Get(t.Context(), id); !fault.Is(err, fault.AccountNotFound) {
			t.Errorf("reading terms of nobody: got the error %v, want the reason %v", err, fault.AccountNotFound)
		}
	}
}
