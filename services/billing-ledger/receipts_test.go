package billingledger_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

var receiptKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

// asks are a hub's questions about receipts, and the answers that it hears.
type asks struct {
	f       *fleet
	answers chan *eventsv1.WorkReceiptVerdict
	number  int
}

func (f *fleet) asks(t *testing.T) *asks {
	t.Helper()
	a := &asks{f: f, answers: make(chan *eventsv1.WorkReceiptVerdict, 64)}
	sub, err := f.bus.Subscribe(bus.SubjectWorkReceiptDone("hub-2"), "", func(_ context.Context, m bus.Message) {
		notice := &eventsv1.WorkReceiptNotice{}
		if err := proto.Unmarshal(m.Data, notice); err != nil {
			t.Error(err)
		}
		for _, v := range notice.GetVerdicts() {
			a.answers <- v
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Stop() })
	if err := f.bus.EnsureStream(t.Context(), bus.WorkReceiptStream); err != nil {
		t.Fatal(err)
	}
	return a
}

// question is what hub-2 asks about a request that hub-1 dispatched.
func question(t *testing.T, order *billingv1.AdmitRequest, tokens int64) *eventsv1.WorkReceiptEvent {
	t.Helper()
	request, err := ids.ParseRequest(order.GetRequestId())
	if err != nil {
		t.Fatal(err)
	}
	who, err := ids.ParseProvider(provider)
	if err != nil {
		t.Fatal(err)
	}
	r := workreceipt.Sign(receiptKey, workreceipt.Receipt{
		Request: request, Attempt: 2, Provider: who, Epoch: 3, Model: order.GetModelId(), SentTokens: tokens,
		SentBytes: 50 * tokens,
		EndedAt:   time.Now().Truncate(time.Millisecond), Proof: []byte("verified by the hub"),
	})
	return &eventsv1.WorkReceiptEvent{
		RequestId: order.GetRequestId(), Attempt: 2, HubId: "hub-2", DispatchedBy: "hub-1", PriceVersionId: price,
		ProviderId: provider,
		Epoch:      3, ModelId: order.GetModelId(), SentTokens: tokens, SentBytes: 50 * tokens,
		EndedAtMs: r.EndedAt.UnixMilli(),
		Proof:     r.Proof,
		PublicKey: receiptKey.Public().(ed25519.PublicKey), Signature: r.Signature[:],
	}
}

func (a *asks) send(t *testing.T, q *eventsv1.WorkReceiptEvent) *eventsv1.WorkReceiptVerdict {
	t.Helper()
	data, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	a.number++
	if _, err := a.f.bus.PublishStream(t.Context(), bus.SubjectWorkReceipt("hub-2"), string(rune('a'+a.number)),
		data, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case v := <-a.answers:
		return v
	case <-time.After(patience):
		t.Fatal("no answer came")
		return nil
	}
}

// The hub, its volume and the gateway are lost together.
func TestAReceiptAloneSettlesARequest(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	req := order(t, c)
	f.admit(t, req)
	a, q := f.asks(t), question(t, req, 100)
	for range 2 { // delivered twice
		switch v := a.send(t, q); {
		case v.GetOutcome() != eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_STORED:
			t.Fatalf("v.GetOutcome(): got %v, want %v", v.GetOutcome(), eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_STORED)
		case v.GetRequestId() != req.GetRequestId():
			t.Fatalf("v.GetRequestId(): got %q, want %q", v.GetRequestId(), req.GetRequestId())
		case v.GetAttempt() != 2:
			t.Fatalf("v.GetAttempt(): got %d, want 2", v.GetAttempt())
		}
	}
	f.pass(t, orphaned)
	until(t, func() bool { return f.status(t, c, req.GetRequestId()) == "settled" })
	if v := a.send(t, q); v.GetOutcome() != eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_SETTLED {
		t.Errorf("v.GetOutcome(): got %v, want %v", v.GetOutcome(), eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_SETTLED)
	}
	// 100 tokens at 2,000 nano-USD each.
	if got := f.balance(t, c); got != "0.9998 held 0.00" {
		t.Errorf(`the consumer: got %q, want "0.9998 held 0.00"`, got)
	}
	f.sound(t)
}

// Hostile test 42 behind the hub: what was altered on its way is refused.
func TestAQuestionThatWasAlteredIsRefused(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	req := order(t, c)
	f.admit(t, req)
	a := f.asks(t)
	for name, change := range map[string]func(*eventsv1.WorkReceiptEvent){
		"counts":       func(q *eventsv1.WorkReceiptEvent) { q.SentTokens++ },
		"provider":     func(q *eventsv1.WorkReceiptEvent) { q.ProviderId = req.GetRequestId() },
		"epoch":        func(q *eventsv1.WorkReceiptEvent) { q.Epoch++ },
		"attempt":      func(q *eventsv1.WorkReceiptEvent) { q.Attempt++ },
		"key":          func(q *eventsv1.WorkReceiptEvent) { q.PublicKey = make([]byte, 32) },
		"signature":    func(q *eventsv1.WorkReceiptEvent) { q.Signature[3]++ },
		"no signature": func(q *eventsv1.WorkReceiptEvent) { q.Signature = nil },
		"hub":          func(q *eventsv1.WorkReceiptEvent) { q.DispatchedBy = "Not A Hub" },
	} {
		q := question(t, req, 10)
		change(q)
		if v := a.send(t, q); v.GetOutcome() != eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED {
			t.Errorf("%s: v.GetOutcome(): got %v, want %v", name, v.GetOutcome(),
				eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED)
		} else if v.GetReason() != "invalid" {
			t.Errorf(`%s: v.GetReason(): got %q, want "invalid"`, name, v.GetReason())
		}
	}
	f.sound(t)
}

// The gateway died, and the hub to which the provider turns was never told of
// the attempt: the word of the hub that was is what stands against the receipt.
func TestAVoidAttemptIsNotPaidOnItsReceipt(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	req := order(t, c)
	f.admit(t, req)
	a := f.asks(t)
	void, err := proto.Marshal(&eventsv1.VoidEvent{RequestId: req.GetRequestId(), Attempt: 2, HubId: "hub-1",
		ProviderId: provider})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"once", "twice"} {
		if _, err := f.bus.PublishStream(t.Context(), bus.SubjectVoid("hub-1"), id, void, nil); err != nil {
			t.Fatal(err)
		}
	}
	if v := a.send(t, question(t, req, 100)); v.GetOutcome() != eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED {
		t.Fatalf("v.GetOutcome(): got %v, want %v", v.GetOutcome(), eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED)
	} else if v.GetReason() != "nothing_served" {
		t.Fatalf(`v.GetReason(): got %q, want "nothing_served"`, v.GetReason())
	}
	f.pass(t, lease)
	until(t, func() bool { return f.balance(t, c) == "1.00 held 0.00" })
	f.sound(t)
}
