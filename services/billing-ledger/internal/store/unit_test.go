package store_test

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/seal"
	"svc.internal/services/billing-ledger/internal/usage"
)

// An image costs four cents here, a minute of audio six tenths of one.
var (
	imageRates = money.Rates{Unit: money.Image, Output: 40_000_000_000, PayoutOutput: 36_000_000_000}
	audioRates = money.Rates{Unit: money.AudioMinute, Input: 6_000_000_000, PayoutInput: 5_400_000_000}
)

// images asks for n of them.
func (e *env) images(t testing.TB, c consumer, n int64) hold.Reservation {
	t.Helper()
	reservation := e.reservation(t, c, n)
	reservation.Model, reservation.Class, reservation.Tier, reservation.Rates, reservation.Images = "acme/painter",
		limit.Image, plan.Standard, imageRates, int32(n)
	reservation.Amount = money.NanoUSD(n) * 4 * cent
	return reservation
}

// audio asks for so much of it.
func (e *env) audio(t testing.TB, c consumer, d time.Duration) hold.Reservation {
	t.Helper()
	reservation := e.reservation(t, c, 0)
	reservation.Model, reservation.Class, reservation.Tier, reservation.Rates, reservation.PromptTokens = "acme/scribe",
		limit.Audio, plan.Standard, audioRates, d.Milliseconds()
	amount, err := audioRates.Charge(money.Tokens{Prompt: d.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	reservation.Amount = amount
	return reservation
}

// delivered is the usage of a claim with these counts.
func (e *env) delivered(t testing.TB, c hold.Reservation, counts money.Tokens) usage.Delivery {
	t.Helper()
	d := e.served(t, c, 0)
	d.Event.Billable = counts
	sum := d.Event.Hash()
	d.Payload = sum[:]
	return d
}

func TestImagesAndAudioAreHeldAndChargedInTheirUnit(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	pictures, speech := e.images(t, c, 3), e.audio(t, c, 90_500*time.Millisecond)
	for _, v := range e.admit(t, pictures, speech, pictures) {
		if v.Outcome != hold.Admitted && v.Outcome != hold.Repeated {
			t.Fatalf("admission is %s", v.Outcome)
		}
		if v.Admission.Rates != imageRates && v.Admission.Rates != audioRates {
			t.Errorf("told of the rates %+v", v.Admission.Rates)
		}
	}
	if again := e.admitOne(t, speech, hold.Repeated); again.Rates != audioRates {
		t.Errorf("asked again, told of the rates: got %+v, want %+v", again.Rates, audioRates)
	}
	e.wantWallet(t, c, money.USD, 12*cent+9_050_000)
	e.settle(t, usage.Settled, e.delivered(t, pictures, money.Tokens{Completion: 2}),
		e.delivered(t, speech, money.Tokens{Prompt: 90_500}))
	e.wantWallet(t, c, money.USD-8*cent-9_050_000, 0)
	if paid := scan[int64](t, e, `SELECT sum(payout)::bigint FROM usage_settlement`); paid != 72_000_000+8_145_000 {
		t.Errorf("providers earn: got %d, want 72_000_000+8_145_000", paid)
	}
	r, err := e.store.Receipt(t.Context(), speech.Request, c.account)
	switch {
	case err != nil:
		t.Errorf("receipt: got the error %v, want none", err)
	case r.Rates != audioRates:
		t.Errorf("receipt: r.Rates: got %+v, want %+v", r.Rates, audioRates)
	case r.Usage.Billable != (money.Tokens{Prompt: 90_500}):
		t.Errorf("receipt: r.Usage.Billable: got %+v, want %+v", r.Usage.Billable, money.Tokens{Prompt: 90_500})
	}
	e.sound(t)
}

func TestUsageInAnotherUnitIsQuarantined(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	pictures, speech := e.images(t, c, 3), e.audio(t, c, time.Minute)
	e.admit(t, pictures, speech)
	perToken := e.delivered(t, pictures, money.Tokens{Completion: 3})
	perToken.Event.Rates.Unit = money.Token
	e.settle(t, usage.PriceMismatch, perToken)
	e.settle(t, usage.AboveHold, e.delivered(t, pictures, money.Tokens{Completion: 4}),
		e.delivered(t, speech, money.Tokens{Prompt: 60_001}))
	e.wantWallet(t, c, money.USD, 12*cent+6_000_000)
	e.sound(t)
}

func TestAReviewPublishesInTheUnitOfTheHold(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	pictures, speech := e.images(t, c, 3), e.audio(t, c, time.Minute)
	e.admit(t, pictures, speech)
	e.renew(t, running(pictures.Request, 2), running(speech.Request, 2))
	e.overdue(t)
	for _, p := range e.review(t) {
		want := map[money.Rates]money.Tokens{imageRates: {Completion: 2}, audioRates: {}}
		if counts, ok := want[p.Event.Rates]; !ok {
			t.Error("want[p.Event.Rates]: got none, want one")
		} else if p.Event.Billable != counts {
			t.Errorf("published: p.Event.Billable: got %+v, want %+v", p.Event.Billable, counts)
		} else if found := p.Event.Validate(); found != nil {
			t.Errorf("published: p.Event.Validate(): got the error %v, want none", found)
		}
		e.settle(t, usage.Settled, delivery(p))
	}
	e.wantWallet(t, c, money.USD-8*cent, 0)
	e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
	for _, p := range e.review(t) {
		if p.Event.Rates != imageRates && p.Event.Rates != audioRates {
			t.Errorf("published again with the rates %+v", p.Event.Rates)
		}
	}
	e.sound(t)
}

// transcribed is a gateway's word of a transcript, or of as much as came of it.
func transcribed(r ids.RequestID, metered *money.Tokens) hold.RequestReport {
	w := servedWord(r, 0)
	w.RelayedBytes, w.Metered = 700, metered
	if metered == nil {
		w.Outcome = "failed"
	}
	return w
}

// A transcript has no tokens that are counted. So while its hub is away for longer than
// a lease, the evidence that the transcript was served is that the hub had metered it.
func TestAServedTranscriptionIsHeldUntilItIsSettled(t *testing.T) {
	const heard = 59_500
	for name, settle := range map[string]func(t *testing.T, e *env, c hold.Reservation){
		"by its hub, late": func(t *testing.T, e *env, c hold.Reservation) {
			e.settle(t, usage.Settled, e.delivered(t, c, money.Tokens{Prompt: heard}))
		},
		"by a review": func(t *testing.T, e *env, _ hold.Reservation) {
			e.overdue(t)
			all := e.review(t)
			if len(all) != 1 {
				t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
			} else if all[0].Event.Billable != (money.Tokens{Prompt: heard}) {
				t.Fatalf("published: all[0].Event.Billable: got %+v, want %+v", all[0].Event.Billable, money.Tokens{Prompt: heard})
			} else if all[0].Event.Ending != "completed" {
				t.Fatalf(`published: all[0].Event.Ending: got %q, want "completed"`, all[0].Event.Ending)
			} else if all[0].Event.Rates != audioRates {
				t.Fatalf("published: all[0].Event.Rates: got %+v, want %+v", all[0].Event.Rates, audioRates)
			} else if got := all[0].Event.Validate(); got != nil {
				t.Fatalf("published: all[0].Event.Validate(): got the error %v, want none", got)
			}
			e.settle(t, usage.Settled, delivery(all[0]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, money.USD)
			speech := e.audio(t, c, time.Minute)
			e.admit(t, speech)
			e.conclude(t, transcribed(speech.Request, &money.Tokens{Prompt: heard}))
			e.exec(t, `UPDATE hold SET expires_at = now() WHERE state = 'open'`)
			if n := e.expire(t); n != 0 {
				t.Errorf("expired though it served: got %d, want 0", n)
			}
			if all := e.review(t); len(all) != 0 {
				t.Errorf("reviewed before its hub has had its time: got %d, want 0, in %+v", len(all), all)
			}
			if got := e.left(t, speech.Request); !about(got, terms.Orphan) {
				t.Errorf("it has %v left", got)
			}
			settle(t, e, speech)
			e.wantWallet(t, c, money.USD-5_950_000, 0)
			e.sound(t)
		})
	}
}

func TestATranscriptionThatBrokeOffIsFree(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, e *env, c hold.Reservation){
		"its hub is gone": func(t *testing.T, e *env, _ hold.Reservation) {
			e.overdue(t)
			if n := e.expire(t); n != 1 {
				t.Errorf("expired: got %d, want 1", n)
			}
		},
		"its hub comes back": func(t *testing.T, e *env, c hold.Reservation) {
			e.settle(t, usage.Settled, e.delivered(t, c, money.Tokens{Prompt: 60_000}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, money.USD)
			speech := e.audio(t, c, time.Minute)
			e.admit(t, speech)
			e.conclude(t, transcribed(speech.Request, nil))
			end(t, e, speech)
			e.wantWallet(t, c, money.USD, 0)
			e.sound(t)
		})
	}
}

// A receipt counts tokens; of images they would be pictures.
func TestAReceiptOfWhatIsNotPricedByTokensIsRefused(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	pictures, speech, text := e.images(t, c, 3), e.audio(t, c, time.Minute), e.reservation(t, c, 3)
	e.admit(t, pictures, speech, text)
	e.hand(t, refusedAs(orphan.NothingServed), signed(pictures, 3), signed(speech, 3))
	e.hand(t, stored, signed(text, 3))
	e.wait(t)
	if all := e.review(t); len(all) != 1 {
		t.Errorf("published: len(all): got %d, want 1, in %+v", len(all), all)
	} else if all[0].Event.Request != text.Request {
		t.Errorf("published: all[0].Event.Request: got %v, want %v", all[0].Event.Request, text.Request)
	}
}

func TestPlansCountTokensOfTokenModelsAndImagesOfImageModels(t *testing.T) {
	e := setup(t, unlimited)
	l := roomy
	l.images = 4
	c := e.subscriber(t, money.USD, l)
	text, pictures, more := e.standard(t, c, 10), e.images(t, c, 3), e.images(t, c, 2)
	if a := e.admitOne(t, text, hold.Admitted); a.Billing != hold.Plan {
		t.Errorf("tokens are billed: got %q, want %q", a.Billing, hold.Plan)
	}
	if a := e.admitOne(t, pictures, hold.Admitted); a.Billing != hold.Plan {
		t.Errorf("images are billed: got %q, want %q", a.Billing, hold.Plan)
	}
	e.wantUsed(t, c, 2, 3, 10)
	if a := e.admitOne(t, more, hold.Admitted); a.Billing != hold.PayAsYouGo {
		t.Errorf("more images than a day has are billed: a.Billing: got %q, want %q", a.Billing, hold.PayAsYouGo)
	} else if a.Held != 8*cent {
		t.Errorf("more images than a day has are billed: a.Held: got %v, want %v", a.Held, 8*cent)
	}
	e.settle(t, usage.Settled, e.served(t, text, 4), e.delivered(t, pictures, money.Tokens{Completion: 2}),
		e.delivered(t, more, money.Tokens{Completion: 2}))
	e.wantUsed(t, c, 2, 3, 4)
	e.wantWallet(t, c, money.USD-8*cent, 0)
	e.sound(t)
}

func TestAPlanCoversOnlyWhatItCounts(t *testing.T) {
	e := setup(t, unlimited)
	tokens := e.subscriber(t, money.USD, roomy)
	inMoney := roomy
	inMoney.cents = 50
	priced := e.subscriber(t, money.USD, inMoney)
	if a := e.admitOne(t, e.audio(t, tokens, time.Minute), hold.Admitted); a.Billing != hold.PayAsYouGo {
		t.Errorf("audio under an allowance of tokens is billed: got %q, want %q", a.Billing, hold.PayAsYouGo)
	}
	if a := e.admitOne(t, e.audio(t, priced, time.Minute), hold.Admitted); a.Billing != hold.Plan {
		t.Errorf("audio under an allowance in money is billed: got %q, want %q", a.Billing, hold.Plan)
	}
	if used := e.used(t, priced, plan.ListPrice, "month"); used != 6_000_000 {
		t.Errorf("a minute of audio uses: got %d, want 6_000_000", used)
	}
	premium := e.images(t, tokens, 1)
	premium.Tier = plan.Premium
	if a := e.admitOne(t, premium, hold.Admitted); a.Billing != hold.PayAsYouGo {
		t.Errorf("images of a premium model are billed: got %q, want %q", a.Billing, hold.PayAsYouGo)
	}
	e.exec(t, `UPDATE plan_limit SET enabled = false WHERE kind = 'images'`)
	if a := e.admitOne(t, e.images(t, tokens, 1), hold.Admitted); a.Billing != hold.PayAsYouGo {
		t.Errorf("images that nothing limits are billed: got %q, want %q", a.Billing, hold.PayAsYouGo)
	}
	if a := e.admitOne(t, e.images(t, priced, 1), hold.Admitted); a.Billing != hold.Plan {
		t.Errorf("images under an allowance in money are billed: got %q, want %q", a.Billing, hold.Plan)
	}
	e.sound(t)
}

func TestVerifyRecomputesInTheUnit(t *testing.T) {
	for _, tc := range []struct{ invariant, names, plant string }{
		{audit.AmountsRecomputed, "rates",
			`ALTER TABLE usage_settlement DROP CONSTRAINT usage_counts_images; UPDATE usage_settlement
				SET unit = 0 WHERE unit = 1`},
		{audit.AmountsRecomputed, "list price",
			`UPDATE usage_settlement SET list_price = list_price + 1, charged = charged + 1 WHERE unit = 2`},
		{audit.AmountsRecomputed, "payout", `UPDATE usage_settlement SET payout = payout - 1 WHERE unit = 2`},
		{audit.AmountsRecomputed, "list price",
			`UPDATE usage_settlement SET list_price = list_price + 1, charged = charged + 1 WHERE unit = 1 AND source = 'payg'`},
		{audit.AmountsRecomputed, "list price",
			`UPDATE usage_settlement SET unit = 0 WHERE unit = 2; UPDATE hold SET unit = 0 WHERE unit = 2`},
		{"plan counters are what the plans covered", "images",
			`UPDATE plan_counter SET used = used - 1 WHERE kind = 'images'`},
		{"plan counters are what the plans covered", "tokens",
			`UPDATE hold SET unit = 0 WHERE plan_id IS NOT NULL; UPDATE usage_settlement SET unit = 0 WHERE source = 'plan'`},
	} {
		t.Run(tc.plant, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, money.USD)
			pictures, speech := e.images(t, c, 3), e.audio(t, c, 90_500*time.Millisecond)
			e.admit(t, pictures, speech)
			e.settle(t, usage.Settled, e.delivered(t, pictures, money.Tokens{Completion: 3}),
				e.delivered(t, speech, money.Tokens{Prompt: 90_500}))
			covered := e.images(t, e.subscriber(t, 0, roomy), 2)
			e.admitOne(t, covered, hold.Admitted)
			e.settle(t, usage.Settled, e.delivered(t, covered, money.Tokens{Completion: 2}))
			e.sound(t)
			e.exec(t, tc.plant)
			report, err := audit.Run(t.Context(), e.store)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range report.Invariants {
				if i.Name == tc.invariant && i.Drift > 0 && strings.Contains(strings.Join(i.Examples, " "), tc.names) {
					return
				}
			}
			t.Errorf("nothing of %q in %+v", tc.invariant, report.Invariants)
		})
	}
}

// TestDaysKeepTheVersionTheyWereSealedWith makes the first day one of before
// there were units.
func TestDaysKeepTheVersionTheyWereSealedWith(t *testing.T) {
	e, _, days := history(t)
	for _, d := range days {
		if d.Version != seal.Version {
			t.Errorf("d.Version: got %d, want %d", d.Version, seal.Version)
		}
	}
	first, err := e.store.DigestOf(t.Context(), days[0].Day, 1)
	if err != nil {
		t.Fatal(err)
	}
	if first.Digest == days[0].Digest {
		t.Fatalf("version 1: first.Digest: got %v, want any but %v", first.Digest, days[0].Digest)
	}
	if first.Counts != days[0].Counts {
		t.Fatalf("days[0].Counts: got %+v, want %+v", days[0].Counts, first.Counts)
	}
	old := seal.Chain(first, seal.Root{})
	second := seal.Chain(days[1], old.Root)
	e.exec(t, `UPDATE seal SET version = 1, digest = $2, root = $3 WHERE day = $1`, old.Day, old.Digest[:], old.Root[:])
	e.exec(t, `UPDATE seal SET previous = $2, root = $3 WHERE day = $1`, second.Day, old.Root[:], second.Root[:])
	e.sound(t)
	t.Run("a row is added in another unit", func(t *testing.T) {
		e.exec(t, `UPDATE usage_settlement SET settled_at = settled_at - interval '2 days', unit = 2, output_rate = 0,
			payout_output_rate = 0, completion_tokens = 0
			WHERE settled_at > now() - interval '1 day'`)
		e.wantDrift(t, "every sealed day is as it was sealed", "sealed with", "1 rows are not in tokens")
		e.exec(t, `DELETE FROM usage_settlement WHERE unit = 2`)
	})
	t.Run("a row has another unit", func(t *testing.T) {
		e.exec(t, `ALTER TABLE usage_settlement DROP CONSTRAINT usage_counts_images, DROP CONSTRAINT usage_counts_audio`)
		e.exec(t, `UPDATE usage_settlement SET unit = 1 WHERE source = 'payg'`)
		e.wantDrift(t, "every sealed day is as it was sealed", "1 rows are not in tokens")
	})
}

// wantDrift wants verify to find drift of an invariant with such examples.
func (e *env) wantDrift(t *testing.T, invariant string, names ...string) {
	t.Helper()
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !named(report, invariant, name) {
			t.Errorf("nothing of %q in %+v", name, report.Invariants)
		}
	}
}
