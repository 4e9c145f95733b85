package store_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// void has hub-1 say that attempts of requests are void, and returns what was
// logged.
func (e *env) void(t testing.TB, attempt int32, requests ...ids.RequestID) string {
	t.Helper()
	var log bytes.Buffer
	voids := orphan.Voids{Store: e.store, Log: slog.New(slog.NewTextHandler(&log, nil))}
	var all []orphan.Void
	for _, r := range requests {
		all = append(all, orphan.Void{Request: r, Attempt: attempt, Hub: "hub-1", Provider: providerID})
	}
	if err := voids.Keep(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

func (e *env) voids(t testing.TB) int {
	t.Helper()
	return scan[int](t, e, `SELECT count(*) FROM void_attempt`)
}

// The fraud: the caller vanished before content, the gateway died with it, and
// the provider hands a genuine proof with invented counts to another hub.
func TestAReceiptOfAVoidAttemptIsNotPaidWhicheverCameFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		tell func(*env, hold.Reservation)
		gone bool // the hold was given back before the receipt came
	}{
		"the void came first": {func(e *env, c hold.Reservation) {
			e.void(t, 2, c.Request)
			e.hand(t, refusedAs(orphan.NothingServed), signed(c, 9), signed(c, 9))
		}, false},
		"the receipt came first": {func(e *env, c hold.Reservation) {
			e.hand(t, stored, signed(c, 9))
			e.void(t, 2, c.Request)
			e.void(t, 2, c.Request)
			e.hand(t, refusedAs(orphan.NothingServed), signed(c, 9))
		}, false},
		"both at once": {func(e *env, c hold.Reservation) {
			keeper := orphan.Keeper{Store: e.store, Log: slog.New(slog.DiscardHandler)}
			var both sync.WaitGroup
			both.Go(func() { e.void(t, 2, c.Request) })
			both.Go(func() {
				if _, err := keeper.Keep(t.Context(), []orphan.WorkReceipt{signed(c, 9)}); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
		}, false},
		"the void came first, and both were late": {func(e *env, c hold.Reservation) {
			e.void(t, 2, c.Request)
			e.hand(t, refusedAs(orphan.NothingServed), signed(c, 9))
		}, true},
		"the receipt came first, and both were late": {func(e *env, c hold.Reservation) {
			e.hand(t, stored, signed(c, 9))
			e.void(t, 2, c.Request)
		}, true},
		"the gateway had not committed when it was last heard": {func(e *env, c hold.Reservation) {
			e.renew(t, hold.Renewal{Request: c.Request})
			e.hand(t, stored, signed(c, 9))
			e.void(t, 2, c.Request)
		}, false},
		"the gateway had committed and relayed nothing when it was last heard": {func(e *env, c hold.Reservation) {
			e.renew(t, running(c.Request, 0))
			e.hand(t, stored, signed(c, 9))
			e.void(t, 2, c.Request)
			e.hand(t, refusedAs(orphan.NothingServed), signed(c, 9))
		}, false},
		"a later attempt is void": {func(e *env, c hold.Reservation) {
			e.hand(t, stored, signed(c, 9))
			e.void(t, 3, c.Request)
			e.hand(t, refusedAs(orphan.NothingServed), signed(c, 9))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			if tc.gone {
				e.overdue(t)
				e.expire(t)
			}
			tc.tell(e, reservation)
			if n := e.voids(t); n != 1 {
				t.Errorf("void attempts kept: got %d, want 1", n)
			}
			e.wait(t)
			e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
			if all := e.review(t); len(all) != 0 {
				t.Errorf("published: got %d, want 0, in %+v", len(all), all)
			}
			if n := scan[int](t, e, `SELECT count(*) FROM orphan_review WHERE next_at IS NOT NULL`); n != 0 {
				t.Errorf("reviews due for ever: got %d, want 0", n)
			}
			e.expire(t)
			e.wantWallet(t, c, 100*cent, 0)
			e.wantPaid(t, 0, 0)
			e.sound(t)
		})
	}
}

func TestAGatewaysWordThatContentWasRelayedIsWorthMoreThanAVoid(t *testing.T) {
	for name, tc := range map[string]struct {
		tell   func(*env, hold.Reservation)
		want   int64
		source usage.EvidenceSource
	}{
		"its last word, after the void": {func(e *env, c hold.Reservation) {
			e.void(t, 2, c.Request)
			e.conclude(t, servedWord(c.Request, 4))
		}, 4, usage.Gateway},
		"its last word, before the void": {func(e *env, c hold.Reservation) {
			e.conclude(t, servedWord(c.Request, 4))
			e.void(t, 2, c.Request)
		}, 4, usage.Gateway},
		"its last renewal, with the void": {func(e *env, c hold.Reservation) {
			e.renew(t, running(c.Request, 4))
			e.void(t, 2, c.Request)
		}, 4, usage.Gateway},
		"with a receipt of less": {func(e *env, c hold.Reservation) {
			e.hand(t, stored, signed(c, 3))
			e.void(t, 2, c.Request)
			e.conclude(t, servedWord(c.Request, 4))
		}, 3, usage.Gateway},
		"a word that names nobody, and a receipt after the void": {func(e *env, c hold.Reservation) {
			e.void(t, 2, c.Request)
			e.conclude(t, unnamed(c.Request, 4))
			e.hand(t, stored, signed(c, 9))
		}, 4, usage.WorkReceipt},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			tc.tell(e, reservation)
			if n := e.voids(t); n != 1 {
				t.Errorf("void attempts kept: got %d, want 1", n)
			}
			e.wait(t)
			all := e.review(t)
			switch {
			case len(all) != 1:
				t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
			case all[0].Event.Billable.Completion != tc.want:
				t.Fatalf("published: all[0].Event.Billable.Completion: got %d, want %d", all[0].Event.Billable.Completion, tc.want)
			case all[0].Event.EvidenceSource != tc.source:
				t.Fatalf("published: all[0].Event.EvidenceSource: got %q, want %q", all[0].Event.EvidenceSource, tc.source)
			}
			e.settle(t, usage.Settled, delivery(all[0]))
			e.wantPaid(t, money.NanoUSD(tc.want)*payout, 0)
			e.sound(t)
		})
	}
}

// A void does not undo a settled request, whoever settled it. When a receipt of the
// void attempt, or of an attempt before it, has settled the request, the log says that
// the consumer may be owed a refund.
func TestAVoidThatComesWhenTheRequestIsSettledMovesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		settle func(*env, hold.Reservation)
		void   int32
		loud   bool
	}{
		"by the receipt": {func(e *env, c hold.Reservation) {
			e.hand(t, stored, signed(c, 4))
			e.wait(t)
			for _, p := range e.review(t) {
				e.settle(t, usage.Settled, delivery(p))
			}
		}, 2, true},
		"by the receipt of an attempt before it": {func(e *env, c hold.Reservation) {
			e.hand(t, stored, signed(c, 4))
			e.wait(t)
			for _, p := range e.review(t) {
				e.settle(t, usage.Settled, delivery(p))
			}
		}, 3, true},
		"by the receipt of an attempt after it": {func(e *env, c hold.Reservation) {
			e.hand(t, stored, signed(c, 4))
			e.wait(t)
			for _, p := range e.review(t) {
				e.settle(t, usage.Settled, delivery(p))
			}
		}, 1, false},
		"by a hub": {func(e *env, c hold.Reservation) {
			d := e.served(t, c, 4)
			d.Event.Attempt, d.Event.Provider = 2, providerID
			e.settle(t, usage.Settled, d)
		}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			tc.settle(e, reservation)
			if log := e.void(t, tc.void, reservation.Request); strings.Contains(log, "may be owed a refund") != tc.loud {
				t.Errorf("the log: got %t, want %t", strings.Contains(log, "may be owed a refund"), tc.loud)
			}
			e.hand(t, settled, signed(reservation, 4))
			e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
			for _, p := range e.review(t) { // settlement hears of it again, as ever
				e.settle(t, usage.Duplicate, delivery(p))
			}
			e.wantWallet(t, c, 96*cent, 0)
			e.wantPaid(t, 4*payout, 0)
			e.sound(t)
		})
	}
}

// What a review has published is not taken back from the stream. A void that
// comes before it is settled has it settled at nothing, and settlement, which
// may have noted earnings by then, hears so.
func TestAVoidBetweenReviewAndSettlingCostsNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		void int32
		gone bool // the hold was given back before the usage came
		want usage.Result
	}{
		"the hold is open":          {2, false, usage.Settled},
		"a later attempt is void":   {3, false, usage.Settled},
		"the hold is over by then":  {2, true, usage.Orphaned},
		"the receipt had been late": {2, true, usage.Orphaned},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			if name == "the receipt had been late" {
				e.overdue(t)
				e.expire(t)
			}
			e.hand(t, stored, signed(reservation, 4))
			e.wait(t)
			e.exec(t, `UPDATE orphan_review SET next_at = now()`)
			all := e.review(t)
			if len(all) != 1 {
				t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
			}
			if all[0].Event.Billable != (money.Tokens{Completion: 4}) {
				t.Fatalf("published: all[0].Event.Billable: got %+v, want %+v", all[0].Event.Billable, money.Tokens{Completion: 4})
			}
			e.void(t, tc.void, reservation.Request)
			if tc.gone {
				e.wait(t)
				e.exec(t, `UPDATE orphan_review SET next_at = now()`)
				if again := e.review(t); len(again) != 0 {
					t.Errorf("published again: got %d, want 0, in %+v", len(again), again)
				}
				e.expire(t)
			}
			e.settle(t, tc.want, delivery(all[0]))
			e.settle(t, usage.Duplicate, delivery(all[0]))
			e.wantWallet(t, c, 100*cent, 0)
			e.wantPaid(t, 0, 0)
			rulings := e.review(t)
			switch {
			case len(rulings) != 1:
				t.Fatalf("settlement hears: len(rulings): got %d, want 1, in %+v", len(rulings), rulings)
			case !rulings[0].Event.Settled:
				t.Fatal("settlement hears: rulings[0].Event.Settled: got false, want true")
			case rulings[0].Event.EvidenceSource == usage.WorkReceipt:
				t.Fatalf("settlement hears: rulings[0].Event.EvidenceSource: got %q, want any but %q",
					rulings[0].Event.EvidenceSource, usage.WorkReceipt)
			case rulings[0].Event.Provider != providerID:
				t.Fatalf("settlement hears: rulings[0].Event.Provider: got %v, want %v", rulings[0].Event.Provider, providerID)
			case rulings[0].Event.Billable != (money.Tokens{}):
				t.Fatalf("settlement hears: rulings[0].Event.Billable: got %+v, want %+v", rulings[0].Event.Billable,
					money.Tokens{})
			}
			e.settle(t, usage.Duplicate, delivery(rulings[0]))
			if log := e.void(t, tc.void, reservation.Request); log != "" {
				t.Errorf(`the log: got %q, want ""`, log)
			}
			e.sound(t)
		})
	}
}

// What a review has published stands in spite of a void when a gateway has said
// meanwhile that it relayed content of that attempt, and of that alone.
func TestAGatewaysWordSavesPublishedUsageFromAVoid(t *testing.T) {
	other := func(r ids.RequestID) hold.Renewal {
		word := running(r, 9)
		word.CommittedAttempt = 1
		return word
	}
	for name, tc := range map[string]struct {
		tell func(*env, ids.RequestID)
		want int64
	}{
		"its last word":             {func(e *env, r ids.RequestID) { e.conclude(t, servedWord(r, 9)) }, 4},
		"its last renewal":          {func(e *env, r ids.RequestID) { e.renew(t, running(r, 9)) }, 4},
		"a word of nothing relayed": {func(e *env, r ids.RequestID) { e.conclude(t, servedWord(r, 0)) }, 0},
		"a renewal, and then the word": {func(e *env, r ids.RequestID) {
			e.renew(t, running(r, 1))
			e.conclude(t, servedWord(r, 0))
		}, 0},
		"a renewal of another attempt":   {func(e *env, r ids.RequestID) { e.renew(t, other(r)) }, 0},
		"a renewal before anything came": {func(e *env, r ids.RequestID) { e.renew(t, running(r, 0)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			e.hand(t, stored, signed(reservation, 4))
			e.wait(t)
			all := e.review(t)
			if len(all) != 1 {
				t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
			}
			if all[0].Event.EvidenceSource != usage.WorkReceipt {
				t.Fatalf("published: all[0].Event.EvidenceSource: got %q, want %q", all[0].Event.EvidenceSource, usage.WorkReceipt)
			}
			tc.tell(e, reservation.Request)
			e.void(t, 2, reservation.Request)
			e.settle(t, usage.Settled, delivery(all[0]))
			e.wantWallet(t, c, 100*cent-money.NanoUSD(tc.want)*cent, 0)
			e.wantPaid(t, money.NanoUSD(tc.want)*payout, 0)
			e.sound(t)
		})
	}
}

func TestAnEarlierVoidDoesNotHarmALaterAttempt(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	reservation := e.reservation(t, c, 10)
	e.admit(t, reservation)
	e.void(t, 1, reservation.Request)
	e.hand(t, stored, signed(reservation, 4))
	e.wait(t)
	all := e.review(t)
	if len(all) != 1 {
		t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
	}
	if all[0].Event.Attempt != 2 {
		t.Fatalf("published: all[0].Event.Attempt: got %d, want 2", all[0].Event.Attempt)
	}
	e.settle(t, usage.Settled, delivery(all[0]))
	e.wantPaid(t, 4*payout, 0)
	e.sound(t)
}

func TestVoidsAreKeptOnceForAWeekAndOnlyOfKnownRequests(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	var claims []hold.Reservation
	var requests []ids.RequestID
	for range 4 {
		reservation := e.reservation(t, c, 1)
		claims, requests = append(claims, reservation), append(requests, reservation.Request)
	}
	e.admit(t, claims...)
	e.void(t, 1, request(t))
	if n := e.voids(t); n != 0 {
		t.Errorf("of unknown requests kept: got %d, want 0", n)
	}
	e.void(t, 1, requests[:3]...)
	e.void(t, 1, requests[:3]...)
	if n := e.voids(t); n != 3 {
		t.Errorf("got %d kept, want 3", n)
	}
	e.exec(t, `UPDATE void_attempt SET received_at = now() - interval '6 days 23 hours'`)
	e.void(t, 1, requests[3])
	if n := e.voids(t); n != 4 {
		t.Errorf("got %d kept within a week, want 4", n)
	}
	e.exec(t, `UPDATE void_attempt SET received_at = now() - interval '7 days' WHERE request_id <> $1`,
		[16]byte(requests[3]))
	e.void(t, 2, requests[3])
	if n := e.voids(t); n != 5 {
		t.Errorf("got %d kept while their holds are open, want 5", n)
	}
	e.release(t, requests[:3]...)
	e.void(t, 3, requests[3]) // one comes, two go
	if n := e.voids(t); n != 4 {
		t.Errorf("got %d kept, want 4", n)
	}
	e.void(t, 4, requests[3])
	if n := e.voids(t); n != 4 {
		t.Errorf("got %d kept, want 4", n)
	}
}
