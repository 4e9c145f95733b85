package hold

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/price"
)

// gate is a Decider whose batches wait to be let through.
type gate struct {
	mu      sync.Mutex
	batches []int
	open    chan error
}

func (g *gate) Admit(ctx context.Context, reservations []Reservation) ([]Decision, error) {
	g.mu.Lock()
	g.batches = append(g.batches, len(reservations))
	g.mu.Unlock()
	select {
	case err := <-g.open:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	decisions := make([]Decision, len(reservations))
	for i := range reservations {
		decisions[i] = Decision{Outcome: Admitted, Admission: Admission{Held: reservations[i].Amount}}
	}
	return decisions, nil
}

func testAdmitter(g *gate, batch, queue int) *Admitter {
	prices := &price.Book{}
	prices.Replace(map[string]price.Model{
		"m":    {ID: "m", Class: limit.LLM, Rates: money.Rates{Output: 1000, PayoutOutput: 1000}},
		"dear": {ID: "dear", Class: limit.LLM, Rates: money.Rates{Output: money.MaxRate, PayoutOutput: 1}},
		"free": {ID: "free", Class: limit.LLM},
		"bought": {ID: "bought", Class: limit.LLM, Gateway: true,
			Rates: money.Rates{Output: 1000, PayoutOutput: 1000}},
		"image": {ID: "image", Class: limit.Image, Rates: money.Rates{Unit: money.Image, Output: 40_000_000_000,
			PayoutOutput: 1}},
		"audio": {ID: "audio", Class: limit.Audio, Rates: money.Rates{Unit: money.AudioMinute, Input: 6_000_000_000,
			PayoutInput: 1}},
	})
	cfg := Config{Batch: batch, Queue: queue, Writers: 1, Timeout: 5 * time.Second}
	return NewAdmitter(cfg, Deps{Prices: prices, Store: g, Observe: func(Outcome, int) {}})
}

func TestWhatArrivesDuringACommitSharesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan error)}
		a := testAdmitter(g, 8, 100)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { a.Run(ctx) })
		synctest.Wait()
		ask := func(n int64) {
			all.Go(func() {
				got, err := a.Admit(t.Context(), AdmitRequest{Model: "m", MaxCompletionTokens: n})
				if err != nil {
					t.Errorf("got the error %v, want none", err)
				} else if got.Held != money.NanoUSD(n) {
					t.Errorf("Held: got %v, want %v", got.Held, money.NanoUSD(n))
				}
			})
		}
		ask(1)
		synctest.Wait() // the first batch is under way
		for n := range int64(20) {
			ask(n)
		}
		synctest.Wait()
		for range 4 {
			g.open <- nil
			synctest.Wait()
		}
		switch want := []int{1, 8, 8, 4}; {
		case len(g.batches) != 4:
			t.Errorf("len(g.batches): got %d, want 4, in %v", len(g.batches), g.batches)
		case g.batches[1] != want[1]:
			t.Errorf("g.batches[1]: got %d, want %d", g.batches[1], want[1])
		case g.batches[3] != want[3]:
			t.Errorf("g.batches[3]: got %d, want %d", g.batches[3], want[3])
		}
		stop()
		all.Wait()
	})
}

// Two batches with reservations of one key would only wait for one another.
func TestTheClaimsOfAKeyAreNeverInTwoBatchesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan error)}
		a := testAdmitter(g, 8, 100)
		a.batch = newBatcher(Config{Batch: 8, Queue: 100, Writers: 2, Timeout: 5 * time.Second}, g, func(Outcome, int) {})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { a.Run(ctx) })
		synctest.Wait()
		ask := func(key byte) {
			all.Go(func() {
				if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m", Key: ids.KeyID{15: key}}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for _, key := range []byte{2, 2, 2, 4, 7, 7} {
			ask(key)
		}
		if len(g.batches) != 2 {
			t.Errorf("%d batches are under way and %d reservations wait: len(g.batches): got %d, want 2", len(g.batches),
				a.Waiting(), len(g.batches))
		} else if a.Waiting() != 4 {
			t.Errorf("%d batches are under way and %d reservations wait: a.Waiting(): got %d, want 4", len(g.batches),
				a.Waiting(), a.Waiting())
		}
		for range 4 {
			g.open <- nil
			synctest.Wait()
		}
		stop()
		all.Wait()
	})
}

func TestFullQueueIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan error)}
		a := testAdmitter(g, 1, 3)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { a.Run(ctx) })
		synctest.Wait()
		for range 4 { // one in the batch under way, three in the queue
			all.Go(func() { _, _ = a.Admit(t.Context(), AdmitRequest{Model: "m"}) })
			synctest.Wait()
		}
		if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); !fault.Is(err, fault.AdmissionUnavailable) {
			t.Errorf("with a full queue: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
		}
		stop()
		g.open <- nil
		all.Wait()
	})
}

func TestStoppingEndsTheBatchAndRefusesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan error)}
		a := testAdmitter(g, 1, 10)
		if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); !fault.Is(err, fault.AdmissionUnavailable) {
			t.Errorf("before Run: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { a.Run(ctx) })
		synctest.Wait()
		all.Go(func() {
			if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); err != nil {
				t.Errorf("the batch under way: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); !fault.Is(err, fault.AdmissionUnavailable) {
				t.Errorf("who waits: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
			}
		})
		synctest.Wait()
		stop()
		synctest.Wait()
		g.open <- nil
		all.Wait()
		if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); !fault.Is(err, fault.AdmissionUnavailable) {
			t.Errorf("after Run: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
		}
	})
}

func TestCallersWhoLeftAreNotAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan error)}
		a := testAdmitter(g, 10, 10)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { a.Run(ctx) })
		synctest.Wait()
		all.Go(func() { _, _ = a.Admit(t.Context(), AdmitRequest{Model: "m"}) })
		synctest.Wait()
		impatient, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := a.Admit(impatient, AdmitRequest{Model: "m"}); !errors.Is(err, context.Canceled) {
				t.Errorf("who left: got the error %v, want %v", err, context.Canceled)
			}
		})
		all.Go(func() { _, _ = a.Admit(t.Context(), AdmitRequest{Model: "m"}) })
		synctest.Wait()
		leave()
		synctest.Wait()
		g.open <- nil
		g.open <- nil
		synctest.Wait()
		if len(g.batches) != 2 {
			t.Errorf("len(g.batches): got %d, want 2, in %v", len(g.batches), g.batches)
		} else if g.batches[1] != 1 {
			t.Errorf("g.batches[1]: got %d, want 1", g.batches[1])
		}
		stop()
		all.Wait()
	})
}

func TestAStoreThatHangsIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testAdmitter(&gate{open: make(chan error)}, 10, 10)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { a.Run(ctx) })
		synctest.Wait()
		if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); !fault.Is(err, fault.AdmissionUnavailable) {
			t.Errorf("after the timeout: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
		}
		stop()
		all.Wait()
	})
}

func TestClaimsNeverWrap(t *testing.T) {
	a := testAdmitter(nil, 1, 1)
	for _, tc := range []struct {
		request AdmitRequest
		want    fault.Reason
	}{
		{AdmitRequest{Model: "dear", MaxCompletionTokens: MaxTokens}, fault.InsufficientCredits},
		{AdmitRequest{Model: "m", MaxCompletionTokens: MaxTokens + 1}, fault.InvalidValue},
		{AdmitRequest{Model: "m", PromptTokens: -1}, fault.InvalidValue},
		{AdmitRequest{Model: "m", Images: -1}, fault.InvalidValue},
		{AdmitRequest{Model: "m", Images: MaxImages + 1}, fault.InvalidValue},
		{AdmitRequest{Model: "none"}, fault.ModelNotFound},
	} {
		if _, err := a.reserve(tc.request); !fault.Is(err, tc.want) {
			t.Errorf("%+v: got %v, want %s", tc.request, err, tc.want)
		}
	}
}

func TestAnOrderIsHeldInTheUnitOfItsModel(t *testing.T) {
	a := testAdmitter(&gate{}, 1, 1)
	for _, c := range []struct {
		request AdmitRequest
		want    AdmitRequest // the counts of it
		held    money.NanoUSD
	}{
		{AdmitRequest{Model: "image", PromptTokens: 500, MaxCompletionTokens: 3, Images: 9},
			AdmitRequest{MaxCompletionTokens: 3, Images: 3}, 120_000_000},
		{AdmitRequest{Model: "image"}, AdmitRequest{}, 0},
		{AdmitRequest{Model: "audio", PromptTokens: 90_500, MaxCompletionTokens: 4096},
			AdmitRequest{PromptTokens: 90_500}, 9_050_000},
		{AdmitRequest{Model: "m", PromptTokens: 7, MaxCompletionTokens: 5, Images: 2}, AdmitRequest{PromptTokens: 7,
			MaxCompletionTokens: 5, Images: 2}, 5},
	} {
		got, err := a.reserve(c.request)
		switch {
		case err != nil:
			t.Errorf("%+v is reserved: got the error %v, want none", c.request, err)
		case got.PromptTokens != c.want.PromptTokens:
			t.Errorf("%+v is reserved: PromptTokens: got %d, want %d", c.request, got.PromptTokens, c.want.PromptTokens)
		case got.MaxCompletionTokens != c.want.MaxCompletionTokens:
			t.Errorf("%+v is reserved: MaxCompletionTokens: got %d, want %d", c.request, got.MaxCompletionTokens,
				c.want.MaxCompletionTokens)
		case got.Images != c.want.Images:
			t.Errorf("%+v is reserved: Images: got %d, want %d", c.request, got.Images, c.want.Images)
		case got.Amount != c.held:
			t.Errorf("%+v is reserved: Amount: got %v, want %v", c.request, got.Amount, c.held)
		}
	}
	_, err := a.reserve(AdmitRequest{Model: "image", MaxCompletionTokens: MaxImages + 1})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("too many images: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

func TestAReservationOfAGatewayModelSaysSo(t *testing.T) {
	a := testAdmitter(&gate{}, 1, 1)
	for model, want := range map[string]bool{"m": false, "bought": true} {
		c, err := a.reserve(AdmitRequest{Model: model, MaxCompletionTokens: 1})
		if err != nil {
			t.Fatal(err)
		}
		if c.Gateway != want {
			t.Errorf("%s: got a gateway model %t, want %t", model, c.Gateway, want)
		}
	}
}

func TestZeroPricedModelsAreFreeUnlessPinned(t *testing.T) {
	a := testAdmitter(nil, 1, 1)
	for pinned, want := range map[bool]BillingType{false: Free, true: PayAsYouGo} {
		c, err := a.reserve(AdmitRequest{Model: "free", MaxCompletionTokens: MaxTokens, Pinned: pinned})
		switch {
		case err != nil:
			t.Errorf("pinned %v: got the error %v, want none", pinned, err)
		case c.Billing != want:
			t.Errorf("pinned %v: c.Billing: got %q, want %q", pinned, c.Billing, want)
		case c.Amount != 0:
			t.Errorf("pinned %v: c.Amount: got %v, want 0", pinned, c.Amount)
		case !c.ZeroPriced:
			t.Errorf("pinned %v: c.ZeroPriced: got false, want true", pinned)
		}
	}
}

func TestEveryRefusalHasItsFault(t *testing.T) {
	want := map[Outcome]fault.Reason{
		InvalidKey: fault.InvalidAPIKey, KeyRevoked: fault.KeyRevoked, KeyExpired: fault.KeyExpired,
		ModelNotAllowed: fault.ModelNotAllowed, AccountFrozen: fault.AccountFrozen, RateLimited: fault.RateLimitExceeded,
		LeftOften:   fault.RateLimitExceeded,
		TooManyOpen: fault.ConcurrencyLimitExceeded, CreditShort: fault.InsufficientCredits,
		Reused:          fault.IdempotencyKeyReused,
		PlanRateLimited: fault.RateLimitExceeded, PlanTooManyOpen: fault.ConcurrencyLimitExceeded,
		PlanShort: fault.PlanAllowanceExceeded, KeyBudgetShort: fault.InsufficientCredits,
		DayCapShort: fault.InsufficientCredits, MonthCapShort: fault.InsufficientCredits,
		CategoryTooManyOpen: fault.ConcurrencyLimitExceeded, CategoryTokensShort: fault.RateLimitExceeded,
	}
	for _, o := range Outcomes() {
		err := Decision{Outcome: o}.fault()
		if o == Admitted || o == Repeated {
			if err != nil {
				t.Errorf("%s: %v", o, err)
			}
			continue
		}
		if !fault.Is(err, want[o]) {
			t.Errorf("%s: got %v, want %s", o, err, want[o])
		}
		if f, _ := fault.As(err); f.Kind == fault.Exhausted && f.RetryAfter <= 0 {
			t.Errorf("%s does not say how long to wait", o)
		}
	}
	if err := (Decision{}).fault(); err == nil {
		t.Error("an outcome that does not exist admits")
	}
}

func TestEveryRefusalOfAGoodKeyTellsItsRate(t *testing.T) {
	rate := limit.Rate{Limit: 60, Remaining: 12, Reset: 48 * time.Second, Retry: time.Second}
	for _, o := range Outcomes() {
		f, ok := fault.As(Decision{Outcome: o, Admission: Admission{Rate: rate}}.fault())
		if o == Admitted || o == Repeated {
			continue
		}
		want := map[string]string{"limit": "60", "remaining": "12", "reset_ms": "48000"}
		named := map[Outcome]string{KeyBudgetShort: "key_budget", DayCapShort: "day_cap", MonthCapShort: "month_cap"}[o]
		if named != "" {
			want[LimitName] = named
		}
		if o == InvalidKey || o == KeyRevoked || o == KeyExpired {
			want = nil
		}
		if !ok {
			t.Errorf("%s tells: got no fault, want one", o)
		} else if !maps.Equal(f.Meta, want) {
			t.Errorf("%s tells: f.Meta: got %v, want %v", o, f.Meta, want)
		}
		f, _ = fault.As(Decision{Outcome: o}.fault())
		if delete(f.Meta, LimitName); len(f.Meta) != 0 {
			t.Errorf("%s without a limit tells: got %d, want 0, in %v", o, len(f.Meta), f.Meta)
		}
	}
}

func TestARefusalByABudgetSaysWhenItBeginsAnew(t *testing.T) {
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	f, ok := fault.As(Decision{Outcome: KeyBudgetShort, ResetsAt: at}.fault())
	if !ok {
		t.Fatal("got no fault, want one")
	}
	if got := f.Meta[ResetsAt]; got != "2027-01-01T00:00:00Z" {
		t.Errorf(`got %q, want "2027-01-01T00:00:00Z"`, got)
	}
}

func TestReportsAreCutToSize(t *testing.T) {
	w := RequestReport{
		Request: ids.RequestID{1}, CommittedAttempt: -1, RelayedTokens: -1, HTTPStatus: 1000, TotalMS: -1,
		ErrorCode: "\x00" + string(make([]byte, 70)) + "é", Attempts: make([]Attempt, 20),
	}
	w.Attempts[0].ProviderName = string([]byte{0xff}) + "name"
	w.Attempts[1].PassedOver = make([]PassedOver, 40)
	w.Attempts[1].PassedOver[0] = PassedOver{Reason: strings.Repeat("r", 100), Count: -1}
	b := w.bounded()
	switch {
	case b.CommittedAttempt != 0:
		t.Errorf("b.CommittedAttempt: got %d, want 0", b.CommittedAttempt)
	case b.RelayedTokens != 0:
		t.Errorf("b.RelayedTokens: got %d, want 0", b.RelayedTokens)
	case b.HTTPStatus != 0:
		t.Errorf("b.HTTPStatus: got %d, want 0", b.HTTPStatus)
	case b.TotalMS != 0:
		t.Errorf("b.TotalMS: got %d, want 0", b.TotalMS)
	case b.ErrorCode != "é":
		t.Errorf(`b.ErrorCode: got %q, want "é"`, b.ErrorCode)
	case len(b.Attempts) != maxAttempts:
		t.Errorf("len(b.Attempts): got %d, want %d, in %+v", len(b.Attempts), maxAttempts, b)
	case b.Attempts[0].ProviderName != "name":
		t.Errorf(`b.Attempts[0].ProviderName: got %q, want "name"`, b.Attempts[0].ProviderName)
	}
	reasons := b.Attempts[1].PassedOver
	if len(reasons) != maxReasons {
		t.Fatalf("reasons: got %d, want %d", len(reasons), maxReasons)
	}
	if want := (PassedOver{Reason: strings.Repeat("r", maxText)}); reasons[0] != want {
		t.Errorf("a long reason: got %+v, want %+v", reasons[0], want)
	}
	if s := cut("aé", 2); s != "a" {
		t.Errorf(`cut in the middle of a character leaves: got %q, want "a"`, s)
	}
}
