package store_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// review looks after what is over and returns what is published.
func (e *env) review(t testing.TB) []orphan.Publication {
	t.Helper()
	var out []orphan.Publication
	r := orphan.Reviewer{Store: e.store, Log: slog.New(slog.DiscardHandler), Publish: func(_ context.Context,
		all []orphan.Publication) error {
		out = append(out, all...)
		return nil
	}}
	for _, step := range []func(context.Context, int) (int, error){r.Open, r.Settled} {
		if _, err := step(t.Context(), 500); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (e *env) expire(t testing.TB) int {
	t.Helper()
	n, err := e.store.ExpireHolds(t.Context(), ever, 500)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func delivery(p orphan.Publication) usage.Delivery {
	sum := p.Event.Hash()
	return usage.Delivery{Event: p.Event, Payload: sum[:]}
}

var providerID = ids.ProviderID{0x01, 0x8f, 0, 0, 0, 0, 0x70, 0, 0x80, 15: 0xaa}

func running(r ids.RequestID, tokens int64) hold.Renewal {
	return hold.Renewal{Request: r, CommittedAttempt: 2, Hub: "hub-1", Provider: providerID, RelayedTokens: tokens,
		RelayedBytes: 100 * tokens}
}

// servedWord is a gateway's word of so many tokens.
func servedWord(r ids.RequestID, tokens int64) hold.RequestReport {
	return hold.RequestReport{Request: r, Outcome: "completed", CommittedAttempt: 2, RelayedTokens: tokens,
		RelayedBytes: 100 * tokens,
		RouteMode:    "auto", Attempts: []hold.Attempt{
			{Attempt: 1, ProviderID: ids.ProviderID{1}.String(), HubID: "hub-9"}, {Attempt: 2, ProviderID: providerID.String(),
				HubID: "hub-1"},
		}}
}

func (e *env) renew(t testing.TB, all ...hold.Renewal) {
	t.Helper()
	if _, _, err := e.store.Renew(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func (e *env) conclude(t testing.TB, all ...hold.RequestReport) {
	t.Helper()
	if n, _, err := e.store.Conclude(t.Context(), all); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if n != 0 {
		t.Fatalf("released: got %d, want 0", n)
	}
}

// left is how long an open hold has.
func (e *env) left(t testing.TB, r ids.RequestID) time.Duration {
	t.Helper()
	return time.Duration(scan[float64](t, e,
		`SELECT extract(epoch FROM expires_at - now())::float8 FROM hold WHERE request_id = $1`,
		[16]byte(r)) * float64(time.Second))
}

func about(d, want time.Duration) bool { return d > want-30*time.Second && d <= want+time.Second }

func TestARenewalTellsOfHoldsThatWereGivenBack(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	open, settled, released, expired := e.reservation(t, c, 10), e.reservation(t, c, 10), e.reservation(t, c, 10),
		e.reservation(t, c, 10)
	e.admit(t, settled, released, expired)
	e.settle(t, usage.Settled, e.served(t, settled, 1))
	e.release(t, released.Request)
	e.overdue(t)
	if n, err := e.store.ExpireHolds(t.Context(), ever, 10); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if n != 1 {
		t.Fatalf("expired: got %d, want 1", n)
	}
	e.admit(t, open)
	var all []hold.Renewal
	for _, r := range []ids.RequestID{open.Request, settled.Request, released.Request, expired.Request, request(t)} {
		all = append(all, running(r, 1))
	}
	lapsed, _, err := e.store.Renew(t.Context(), all)
	switch {
	case err != nil:
		t.Errorf("%v came too late: got the error %v, want none", lapsed, err)
	case len(lapsed) != 2:
		t.Errorf("%v came too late (%v): len(lapsed): got %d, want 2", lapsed, err, len(lapsed))
	case !slices.Contains(lapsed, released.Request):
		t.Errorf("%v came too late (%v): lapsed: got %v, want %v in it", lapsed, err, lapsed, released.Request)
	case !slices.Contains(lapsed, expired.Request):
		t.Errorf("%v came too late (%v): lapsed: got %v, want %v in it", lapsed, err, lapsed, expired.Request)
	}
}

func TestARenewalKeepsAHoldAndItsLargestCount(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	young, old, closed := e.reservation(t, c, 10), e.reservation(t, c, 10), e.reservation(t, c, 10)
	e.admit(t, young, old, closed)
	e.release(t, closed.Request)
	e.overdue(t)
	e.renew(t, hold.Renewal{Request: young.Request}, running(old.Request, 7), running(closed.Request, 1),
		running(request(t), 1))
	if got := e.left(t, young.Request); got > 0 { // admitted an hour ago in effect, which is the most
		t.Errorf("a hold of an hour: got %v, want 0", got)
	}
	e.exec(t, `UPDATE hold SET admitted_at = now() - interval '50 seconds', expires_at = now() WHERE state = 'open'`)
	e.renew(t, hold.Renewal{Request: young.Request}, running(old.Request, 5), hold.Renewal{Request: closed.Request})
	for _, r := range []ids.RequestID{young.Request, old.Request} {
		if got := e.left(t, r); !about(got, terms.Lease) {
			t.Errorf("a running request has %v left", got)
		}
	}
	// A batch that comes late takes nothing back, and another attempt is not believed.
	other := running(old.Request, 9)
	other.CommittedAttempt = 1
	e.renew(t, hold.Renewal{Request: old.Request})
	e.renew(t, other)
	if got := scan[int64](t, e,
		`SELECT relayed_tokens FROM renewal WHERE request_id = $1 AND committed_attempt = 2 AND relayed_bytes = 700`,
		[16]byte(old.Request)); got != 7 {
		t.Errorf("got %d tokens kept, want 7", got)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM renewal`); n != 2 {
		t.Errorf("got %d renewals kept, want those of the two open holds", n)
	}
	if n := e.expire(t); n != 0 {
		t.Errorf("renewed holds expired: got %d, want 0", n)
	}
	refusedSQL(t, e, "may not change any more", `UPDATE renewal SET relayed_tokens = 6 WHERE request_id = $1`,
		[16]byte(old.Request))
	refusedSQL(t, e, "may not change any more", `UPDATE renewal SET provider_id = gen_random_uuid() WHERE request_id = $1`,
		[16]byte(old.Request))
	e.sound(t)
}

func TestTheLastWordOfSomethingServedGivesTheHubItsTime(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	told, renewed := e.reservation(t, c, 10), e.reservation(t, c, 10)
	e.admit(t, told, renewed)
	e.overdue(t)
	e.conclude(t, servedWord(told.Request, 4))
	e.renew(t, running(renewed.Request, 4))
	e.exec(t, `UPDATE hold SET expires_at = now() WHERE state = 'open'`)
	if n := e.expire(t); n != 0 {
		t.Errorf("expired in spite of the evidence: got %d, want 0", n)
	}
	if all := e.review(t); len(all) != 0 {
		t.Errorf("reviewed before its time: got %d, want 0, in %v", len(all), all)
	}
	for _, r := range []ids.RequestID{told.Request, renewed.Request} {
		if got := e.left(t, r); !about(got, terms.Orphan) {
			t.Errorf("a served request has %v left", got)
		}
	}
}

func TestWithoutEvidenceAHoldIsGivenBack(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	nothing, uncommitted, empty, nobody := e.reservation(t, c, 10), e.reservation(t, c, 10), e.reservation(t, c, 10),
		e.reservation(t, c, 10)
	e.admit(t, nothing, uncommitted, empty, nobody)
	e.renew(t, hold.Renewal{Request: uncommitted.Request})
	e.conclude(t, servedWord(empty.Request, 0))
	lost := servedWord(nobody.Request, 3)
	lost.Attempts = lost.Attempts[:1]
	e.conclude(t, lost)
	e.overdue(t)
	if n := e.expire(t); n != 4 {
		t.Errorf("got %d expired, want 4", n)
	}
	if all := e.review(t); len(all) != 0 {
		t.Errorf("reviewed: got %d, want 0, in %v", len(all), all)
	}
	e.wantWallet(t, c, 100*cent, 0)
	e.sound(t)
}

func TestReviewSettlesOnceFromTheGatewaysCount(t *testing.T) {
	for name, tell := range map[string]func(*env, ids.RequestID){
		"report":  func(e *env, r ids.RequestID) { e.conclude(t, servedWord(r, 4)) },
		"renewal": func(e *env, r ids.RequestID) { e.renew(t, running(r, 4)) },
		"both, and the report has the last word": func(e *env, r ids.RequestID) {
			e.renew(t, running(r, 3))
			e.conclude(t, servedWord(r, 4))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			tell(e, reservation.Request)
			e.overdue(t)
			if n := e.expire(t); n != 0 {
				t.Fatalf("expired in spite of the evidence: got %d, want 0", n)
			}
			all := e.review(t)
			if len(all) != 1 {
				t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
			}
			if all[0].Number != 1 {
				t.Fatalf("published: all[0].Number: got %d, want 1", all[0].Number)
			}
			ev := all[0].Event
			switch {
			case ev.Provider != providerID:
				t.Errorf("published: ev.Provider: got %v, want %v", ev.Provider, providerID)
			case ev.Attempt != 2:
				t.Errorf("published: ev.Attempt: got %d, want 2", ev.Attempt)
			case ev.Hub != "hub-1":
				t.Errorf(`published: ev.Hub: got %q, want "hub-1"`, ev.Hub)
			case ev.EvidenceSource != usage.Gateway:
				t.Errorf("published: ev.EvidenceSource: got %q, want %q", ev.EvidenceSource, usage.Gateway)
			case ev.Ending != "platform_lost":
				t.Errorf(`published: ev.Ending: got %q, want "platform_lost"`, ev.Ending)
			case ev.Billable != (money.Tokens{Completion: 4}):
				t.Errorf("published: ev.Billable: got %+v, want %+v", ev.Billable, money.Tokens{Completion: 4})
			case ev.Settled:
				t.Error("published: ev.Settled: got true, want false")
			}
			if again := e.review(t); len(again) != 0 {
				t.Errorf("published again at once: got %d, want 0, in %+v", len(again), again)
			}
			if got := e.left(t, reservation.Request); !about(got, time.Minute) {
				t.Errorf("the hold has %v left", got)
			}
			e.settle(t, usage.Settled, delivery(all[0]))
			e.settle(t, usage.Duplicate, delivery(all[0]), e.served(t, reservation, 9))
			e.wantWallet(t, c, 96*cent, 0)
			e.sound(t)
		})
	}
}

// The gaps are walked by putting each due time into the past.
func TestASettledReviewIsPublishedAsItWasSettledABoundedNumberOfTimes(t *testing.T) {
	for _, hubFirst := range []bool{false, true} {
		e := setup(t, unlimited)
		c := e.consumer(t, 100*cent)
		reservation := e.reservation(t, c, 10)
		e.admit(t, reservation)
		e.renew(t, running(reservation.Request, 4))
		e.overdue(t)
		gateways := delivery(e.review(t)[0])
		hubs := e.served(t, reservation, 6)
		first, later, source := gateways, hubs, usage.Gateway
		if hubFirst {
			first, later, source = hubs, gateways, usage.Hub
		}
		e.settle(t, usage.Settled, first)
		e.settle(t, usage.Duplicate, later)
		published := 1
		for range orphan.MaxPublications + 2 {
			e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
			for _, p := range e.review(t) {
				published++
				if p.Number != published {
					t.Errorf("p.Number: got %d, want %d", p.Number, published)
				} else if !p.Event.Settled {
					t.Error("p.Event.Settled: got false, want true")
				} else if p.Event.EvidenceSource != source {
					t.Errorf("p.Event.EvidenceSource: got %q, want %q", p.Event.EvidenceSource, source)
				} else if got, want := p.Event.Hash(), first.Event.Hash(); got != want {
					t.Errorf("p.Event.Hash(): got %v, want %v", got, want)
				}
				e.settle(t, usage.Duplicate, delivery(p))
			}
		}
		if published != orphan.MaxPublications {
			t.Errorf("got %d publications, want %d", published, orphan.MaxPublications)
		}
		e.sound(t)
	}
}

func TestAReviewThatSettlesNothingComesToAnEnd(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	reservation := e.reservation(t, c, 10)
	e.admit(t, reservation)
	e.renew(t, running(reservation.Request, 4))
	var over time.Duration
	for n := 1; n <= orphan.MaxPublications; n++ {
		e.overdue(t)
		e.exec(t, `UPDATE hold SET expires_at = now() WHERE state = 'open'`)
		if all := e.review(t); len(all) != 1 {
			t.Fatalf("publication: len(all): got %d, want 1, in %+v", len(all), all)
		} else if all[0].Number != n {
			t.Fatalf("all[0].Number: got %d, want %d", all[0].Number, n)
		}
		over += orphan.Gap(n)
	}
	if over < 24*time.Hour || over > 26*time.Hour {
		t.Errorf("published over: got %v, want about a day", over)
	}
	e.exec(t, `UPDATE hold SET expires_at = now() WHERE state = 'open'`)
	if all := e.review(t); len(all) != 0 {
		t.Errorf("published once more: got %d, want 0, in %+v", len(all), all)
	}
	e.wantWallet(t, c, 100*cent, 0)
	// The hub's usage comes after all: the platform pays.
	e.settle(t, usage.Orphaned, e.served(t, reservation, 4))
	e.wantWallet(t, c, 100*cent, 0)
	e.sound(t)
}

// A hub that comes back after its death bills no more than the gateway saw
// arrive, and settlement hears of it at the next look.
func TestAHubThatComesBackIsHeldToWhatTheGatewayRelayed(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	reservation := e.reservation(t, c, 10)
	e.admit(t, reservation)
	report := servedWord(reservation.Request, 4)
	report.Outcome = "failed"
	e.conclude(t, report)
	hubs := e.served(t, reservation, 6)
	e.settle(t, usage.Settled, hubs)
	e.settle(t, usage.Duplicate, hubs)
	if got := scan[int64](t, e, `SELECT completion_tokens FROM usage_settlement
		WHERE prompt_tokens = 0 AND evidence_source = 'gateway'`); got != 4 {
		t.Errorf("got %d tokens settled, want the 4 that came", got)
	}
	all := e.review(t)
	switch {
	case len(all) != 1:
		t.Fatalf("settlement hears: len(all): got %d, want 1, in %+v", len(all), all)
	case !all[0].Event.Settled:
		t.Fatal("settlement hears: all[0].Event.Settled: got false, want true")
	case all[0].Event.EvidenceSource != usage.Gateway:
		t.Fatalf("settlement hears: all[0].Event.EvidenceSource: got %q, want %q", all[0].Event.EvidenceSource, usage.Gateway)
	case all[0].Event.Billable != (money.Tokens{Completion: 4}):
		t.Fatalf("settlement hears: all[0].Event.Billable: got %+v, want %+v", all[0].Event.Billable,
			money.Tokens{Completion: 4})
	}
	e.settle(t, usage.Duplicate, delivery(all[0]))
	e.sound(t)
}
