package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
)

const collateralOf20 = 20 * usd

func TestAPaidCheckoutIsCollateralOnceHoweverManyLook(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.ask(t)
	d.processor.pay(c.SessionID)
	var all sync.WaitGroup
	for range 4 {
		replica := d.replica(d.cards)
		all.Go(func() {
			for range 3 {
				err := replica.LookAt(t.Context(), "sandbox", card.Object{Kind: card.SessionObject, ID: c.SessionID})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	d.wantCollateral(t, collateralOf20)
	posted := scan[int64](t, d.env, `SELECT count(*) FROM entry WHERE kind IN ('collateral_card', 'card_cost')`)
	if got := posted; got != 2 {
		t.Errorf("entries: got %d, want 2", got)
	}
	if got := d.read(t, c.ID).State; got != card.Paid {
		t.Errorf("state: got %s, want %s", got, card.Paid)
	}
	d.wantAlarms(t)
	d.sound(t)
}

func TestWhatEventsLoseIsFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	polled, listed := d.ask(t), d.ask(t)
	d.processor.pay(polled.SessionID)
	d.worker.Look(t.Context()) // nothing is due: the session was made just now
	d.wantCollateral(t, 0)
	d.due(t)
	d.worker.Look(t.Context())
	d.wantCollateral(t, collateralOf20)

	// The second is no longer looked at, and has a dispute too.
	d.exec(t, `UPDATE checkout SET due_at = NULL`)
	d.processor.pay(listed.SessionID)
	back := d.processor.dispute(listed.SessionID, 500)
	d.processor.listed = []card.Object{{Kind: card.SessionObject, ID: polled.SessionID}, back,
		{Kind: card.SessionObject, ID: listed.SessionID}}
	d.due(t)
	d.worker.Look(t.Context())
	d.wantCollateral(t, collateralOf20+15*usd)
	before := d.processor.fetches
	d.due(t)
	d.worker.Look(t.Context())
	if d.processor.fetches != before {
		t.Errorf("what is known was fetched again: got %d fetches, want %d", d.processor.fetches, before)
	}
	d.wantAlarms(t)
	d.sound(t)
}

func TestAnEventIsAReasonToLookAndNothingElse(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	keys, err := card.NewKeys("the secret of these webhooks")
	if err != nil {
		t.Fatal(err)
	}
	at := clock.NewManual(time.Unix(1_800_000_000, 0))
	receiver := &card.Receiver{Processor: "sandbox", Store: d.cards, Keys: keys, Clock: at, Wake: d.worker.Wake}
	c := d.ask(t)
	event := func(id, kind, object string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"type":%q,"data":{"object":{"id":%q,"payment_status":"paid"}}}`, id, kind, object)
	}
	send := func(body []byte) {
		t.Helper()
		if err := receiver.Receive(t.Context(), body, keys.Sign(body, at.Now())); err != nil {
			t.Fatal(err)
		}
	}
	// It says that it was paid, and the session does not.
	send(event("evt_1", "checkout.session.completed", c.SessionID))
	d.worker.Look(t.Context())
	d.wantCollateral(t, 0)
	// The dispute comes before the payment, doubled.
	d.processor.pay(c.SessionID)
	back := d.processor.dispute(c.SessionID, 2000)
	for range 2 {
		send(event("evt_3", "charge.dispute.created", back.ID))
		d.worker.Look(t.Context())
	}
	send(event("evt_2", "checkout.session.completed", c.SessionID))
	send(event("evt_4", "customer.created", "cus_1"))
	d.worker.Look(t.Context())
	d.wantCollateral(t, 0)
	if got, want := d.changes(t), []card.ChangeKind{card.ChangePaid, card.ChangeReversed}; !slices.Equal(got, want) {
		t.Errorf("changes: got %v, want %v", got, want)
	}
	if got := scan[int64](t, d.env, `SELECT count(*) FROM processor_event WHERE due_at IS NOT NULL`); got != 0 {
		t.Errorf("events that are not handled: got %d, want 0", got)
	}
	d.wantAlarms(t)
	// The same event with another object.
	send(event("evt_1", "checkout.session.completed", "cs_other"))
	d.wantAlarms(t, card.AlarmEventDiffers)
	d.sound(t)
}

func TestAnEventThatIsNotOursIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	keys, err := card.NewKeys("the secret of these webhooks")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	receiver := &card.Receiver{Processor: "sandbox", Store: d.cards, Keys: keys,
		Clock: clock.NewManual(now), Wake: d.worker.Wake}
	body := []byte(`{"id":"evt_1","type":"checkout.session.completed","data":{"object":{"id":"cs_1"}}}`)
	for name, tc := range map[string]struct {
		body   []byte
		header string
		want   fault.Reason
	}{
		"unsigned":     {body, "", fault.InvalidSignature},
		"forged":       {body, "t=1800000000,v1=" + fmt.Sprintf("%064d", 0), fault.InvalidSignature},
		"old":          {body, keys.Sign(body, now.Add(-6*time.Minute)), fault.InvalidSignature},
		"another body": {append(body, ' '), keys.Sign(body, now), fault.InvalidSignature},
		"no event":     {[]byte("x"), keys.Sign([]byte("x"), now), fault.InvalidValue},
		"huge":         {make([]byte, card.MaxEvent+1), "", fault.RequestTooLarge},
	} {
		if err := receiver.Receive(t.Context(), tc.body, tc.header); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
	if got := scan[int64](t, d.env, `SELECT count(*) FROM processor_event`); got != 0 {
		t.Errorf("events: got %d, want 0", got)
	}
}

func TestASessionThatSaysOtherwiseIsAnAlarmAndNoCollateral(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*card.Session){
		"another amount":   func(s *card.Session) { s.Total, s.Charge.Total = 500, 500 },
		"a smaller charge": func(s *card.Session) { s.Charge.Total = 1 },
		"another currency": func(s *card.Session) { s.Currency = "jpy" },
		"another purpose":  func(s *card.Session) { s.Purpose = "topup" },
		"another provider": func(s *card.Session) { s.Provider = newProvider(t).String() },
		"an account":       func(s *card.Session) { s.Account = newProvider(t).String() },
		"real money":       func(s *card.Session) { s.Livemode = true },
		"another session":  func(s *card.Session) { s.ID = "cs_other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			c := d.ask(t)
			d.processor.pay(c.SessionID)
			d.processor.rewrite(c.SessionID, change)
			for range 2 {
				d.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
			}
			d.wantCollateral(t, 0)
			d.wantAlarms(t, card.AlarmDiffers)
			d.due(t)
			d.worker.Look(t.Context())
			if got := d.read(t, c.ID).State; got != card.Created {
				t.Errorf("state: got %s, want %s", got, card.Created)
			}
			d.sound(t)
		})
	}
}

func TestAnObjectOfNobodyIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	d.processor.sessions["cs_foreign"] = card.Session{ID: "cs_foreign", Checkout: newCheckoutID(t).String(),
		State: card.SessionPaid}
	d.look(t, card.Object{Kind: card.SessionObject, ID: "cs_foreign"})
	d.look(t, card.Object{Kind: card.SessionObject, ID: "cs_nobody"})
	for id, r := range map[string]card.Return{
		"dp_foreign": {Checkout: "x", Amount: 1, Currency: "usd"},
		"dp_payment": {Checkout: c.ID.String(), PaymentID: "pi_foreign", Amount: 1, Currency: "usd"},
		"dp_more":    {Checkout: c.ID.String(), PaymentID: "pi_" + c.SessionID, Amount: 2001, Currency: "usd"},
		"dp_yen":     {Checkout: c.ID.String(), PaymentID: "pi_" + c.SessionID, Amount: 1, Currency: "jpy"},
		"dp_nothing": {Checkout: c.ID.String(), PaymentID: "pi_" + c.SessionID, Currency: "usd"},
	} {
		r.Object, r.State = card.Object{Kind: card.DisputeObject, ID: id}, card.ReturnMade
		d.processor.returns[id] = r
		d.look(t, r.Object)
	}
	d.wantCollateral(t, collateralOf20)
	got := column[string](t, d.env, `SELECT reason || ' ' || object FROM card_alarm ORDER BY 1`)
	want := []string{"differs dp_nothing", "differs dp_yen", "exceeds dp_more", "foreign cs_foreign", "foreign dp_foreign",
		"foreign dp_payment", "missing cs_nobody"}
	if !slices.Equal(got, want) {
		t.Errorf("alarms: got %q, want %q", got, want)
	}
	d.sound(t)
}

func TestAnExpiredCheckoutThatIsPaidIsCreditedWithAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.ask(t)
	session := card.Object{Kind: card.SessionObject, ID: c.SessionID}
	d.processor.rewrite(c.SessionID, func(s *card.Session) { s.State = card.SessionExpired })
	for range 2 {
		d.look(t, session)
	}
	if got := d.read(t, c.ID).State; got != card.Expired {
		t.Fatalf("state: got %s, want %s", got, card.Expired)
	}
	d.processor.pay(c.SessionID)
	for range 2 {
		d.look(t, session)
	}
	d.wantCollateral(t, collateralOf20)
	d.wantAlarms(t, card.AlarmPaidLate)
	if got, want := d.changes(t), []card.ChangeKind{card.ChangeExpired, card.ChangePaid}; !slices.Equal(got, want) {
		t.Errorf("changes: got %v, want %v", got, want)
	}
	// A session that expires after it was paid changes nothing.
	d.processor.rewrite(c.SessionID, func(s *card.Session) { s.State = card.SessionExpired })
	d.look(t, session)
	if got := d.read(t, c.ID).State; got != card.Paid {
		t.Errorf("state at the end: got %s, want %s", got, card.Paid)
	}
	d.sound(t)
}

func TestASecondPaymentOfACheckoutIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	d.processor.rewrite(c.SessionID, func(s *card.Session) { s.Charge.PaymentID, s.Charge.CostID = "pi_2", "bt_2" })
	d.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
	d.wantCollateral(t, collateralOf20)
	d.wantAlarms(t, card.AlarmPaidTwice)
	d.sound(t)
}

func TestACheckoutIsTheSameForEverAndBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.ask(t)
	again := card.Checkout{ID: first.ID, Provider: d.provider, Amount: 2000, ReturnURL: first.ReturnURL}
	got, err := d.checkouts.OpenCollateral(t.Context(), again)
	if err != nil {
		t.Errorf("a repeat: got the error %v, want none", err)
	}
	if got.SessionID != first.SessionID {
		t.Errorf("a repeat: got the session %q, want %q", got.SessionID, first.SessionID)
	}
	for name, change := range map[string]func(*card.Checkout){
		"another provider": func(c *card.Checkout) { c.Provider = newProvider(t) },
		"another amount":   func(c *card.Checkout) { c.Amount = 2001 },
		"another address":  func(c *card.Checkout) { c.ReturnURL = "https://other.example/" },
	} {
		other := again
		change(&other)
		if _, err := d.checkouts.OpenCollateral(t.Context(), other); !fault.Is(err, fault.IdempotencyKeyReused) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.IdempotencyKeyReused)
		}
	}
	for name, change := range map[string]func(*card.Checkout){
		"no id":        func(c *card.Checkout) { c.ID = card.CheckoutID{} },
		"no provider":  func(c *card.Checkout) { c.Provider = [16]byte{} },
		"too little":   func(c *card.Checkout) { c.Amount = card.MinAmount - 1 },
		"too much":     func(c *card.Checkout) { c.Amount = card.MaxAmount + 1 },
		"a script":     func(c *card.Checkout) { c.ReturnURL = "javascript:alert(1)" },
		"no address":   func(c *card.Checkout) { c.ReturnURL = "" },
		"credentials":  func(c *card.Checkout) { c.ReturnURL = "https://a:b@market.example/" },
		"long address": func(c *card.Checkout) { c.ReturnURL = "https://market.example/" + fmt.Sprintf("%01024d", 0) },
	} {
		other := again
		other.ID = newCheckoutID(t)
		change(&other)
		if _, err := d.checkouts.OpenCollateral(t.Context(), other); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.InvalidValue)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range 2 * card.MaxOpen {
		id := newCheckoutID(t)
		all.Go(func() {
			other := again
			other.ID = id
			_, err := d.checkouts.OpenCollateral(t.Context(), other)
			mu.Lock()
			defer mu.Unlock()
			if fault.Is(err, fault.RateLimitExceeded) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if want := card.MaxOpen + 1; refused != want {
		t.Errorf("refused: got %d, want %d", refused, want)
	}
	d.sound(t)
}

func TestAProcessorThatIsDownLosesNoCheckout(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.processor.down = errBroken
	asked := card.Checkout{ID: newCheckoutID(t), Provider: d.provider, Amount: 2000, ReturnURL: "https://market.example/"}
	if _, err := d.checkouts.OpenCollateral(t.Context(), asked); !fault.Is(err, fault.ProcessorUnavailable) {
		t.Fatalf("got the error %v, want the reason %s", err, fault.ProcessorUnavailable)
	}
	d.worker.Look(t.Context())
	d.processor.down = nil
	d.due(t)
	d.worker.Look(t.Context())
	if c := d.read(t, asked.ID); c.SessionID == "" {
		t.Error("session: got none, want the one that the next look asked for")
	}
	// Without a session it expires, because nobody knows its page.
	d.processor.down = errBroken
	asked.ID = newCheckoutID(t)
	if _, err := d.checkouts.OpenCollateral(t.Context(), asked); err == nil {
		t.Fatal("got no error, want one")
	}
	d.exec(t, `UPDATE checkout SET expires_at = now() WHERE session_id IS NULL`)
	d.due(t)
	d.worker.Look(t.Context())
	if got := d.read(t, asked.ID).State; got != card.Expired {
		t.Errorf("state: got %s, want %s", got, card.Expired)
	}
	d.sound(t)
}

func TestNobodyPostsCollateralForWhichNoCardWasCharged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.paid(t)
	for name, entry := range map[string]func() (ledger.Entry, error){
		"of no session": func() (ledger.Entry, error) {
			return ledger.CardCollateral(newFact(t), d.provider, collateralOf20)
		},
		"of another provider": func() (ledger.Entry, error) {
			open := ledger.Fact{ID: entryID(t), BusinessID: d.ask(t).SessionID}
			return ledger.CardCollateral(open, newProvider(t), collateralOf20)
		},
		"of an open session": func() (ledger.Entry, error) {
			open := ledger.Fact{ID: entryID(t), BusinessID: d.ask(t).SessionID}
			return ledger.CardCollateral(open, d.provider, collateralOf20)
		},
		"taken back by nobody": func() (ledger.Entry, error) {
			return ledger.CardCollateralReversal(newFact(t), d.provider, usd, collateralOf20)
		},
	} {
		if _, err := d.store.Post(t.Context(), must(t)(entry())); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	paid := ledger.Fact{ID: entryID(t), BusinessID: c.SessionID}
	again := must(t)(ledger.CardCollateral(paid, d.provider, 2*collateralOf20))
	if _, err := d.store.Post(t.Context(), again); !errors.Is(err, ledger.ErrReused) {
		t.Errorf("more of a paid session: got the error %v, want %v", err, ledger.ErrReused)
	}
	d.wantCollateral(t, collateralOf20)
	d.sound(t)
}

func TestVerifyFindsWhatIsWrongWithCardPayments(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]string{
		"collateral by card is what cards were charged for it":   `DELETE FROM card_payment`,
		"what went back of card payments is taken back":          `UPDATE card_reversal SET cents = cents + 1`,
		"of no card payment more went back than was paid":        `UPDATE card_refund SET cents = 2000`,
		"what the card processor kept of a payment is posted":    `UPDATE card_payment SET cost_cents = cost_cents + 1`,
		"whatever happened to collateral by card is listed once": `DELETE FROM card_change WHERE number = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			c := d.paid(t)
			d.look(t, d.processor.dispute(c.SessionID, 500))
			if _, err := d.refunds.Ask(t.Context(), card.Refund{ID: newRefundID(t), Checkout: c.ID, Amount: 100}); err != nil {
				t.Fatal(err)
			}
			d.sound(t)
			d.exec(t, tamper)
			found := map[string]bool{}
			for _, i := range d.audited(t).Invariants {
				found[i.Name] = i.Drift > 0
			}
			if !found[name] {
				t.Errorf("after %s: got no drift of it, want some", tamper)
			}
		})
	}
}

func TestChangesAreListedInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var sessions []string
	for range card.MaxOpen {
		c := d.ask(t)
		d.processor.pay(c.SessionID)
		sessions = append(sessions, c.SessionID)
	}
	var payers sync.WaitGroup
	for _, s := range sessions {
		payers.Go(func() { d.look(t, card.Object{Kind: card.SessionObject, ID: s}) })
	}
	// A reader that goes on behind the last number sees each of them once.
	var after int64
	for seen := 0; seen < len(sessions); {
		list, err := d.cards.Changes(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Number != after+1 {
				t.Fatalf("number: got %d, want %d", c.Number, after+1)
			}
			after = c.Number
			seen++
		}
	}
	payers.Wait()
	payments, err := d.cards.Payments(t.Context(), d.provider, 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(payments) != len(sessions) {
		t.Errorf("payments: got %d, want %d", len(payments), len(sessions))
	}
	d.sound(t)
}
