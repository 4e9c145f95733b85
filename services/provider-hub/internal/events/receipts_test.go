package events

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/journal"
	proofs "svc.internal/services/provider-hub/internal/proof"
	"svc.internal/services/provider-hub/internal/session"
)

// agent is a provider's session that keeps what it is told.
type agent struct {
	provider ids.ProviderID
	key      ed25519.PrivateKey
	acks     chan session.Acknowledged
	forged   int
}

func newAgent(provider byte) *agent {
	return &agent{
		provider: ids.ProviderID{provider}, key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{provider}, ed25519.SeedSize)),
		acks: make(chan session.Acknowledged, 64),
	}
}

func (a *agent) Identity() session.Identity {
	return session.Identity{ProviderID: a.provider, Epoch: 9}
}
func (a *agent) ReceiptKey() []byte { return a.key.Public().(ed25519.PublicKey) }
func (a *agent) Forged()            { a.forged++ }
func (a *agent) AckReceipts(all []session.Acknowledged) {
	for _, one := range all {
		a.acks <- one
	}
}

func (a *agent) acked(t *testing.T) session.Acknowledged {
	t.Helper()
	select {
	case one := <-a.acks:
		return one
	case <-time.After(time.Minute):
		t.Fatal("no acknowledgement came")
		return session.Acknowledged{}
	}
}

// window is a hub's desk for receipts, and what billing-ledger is asked.
type window struct {
	*fixture
	workReceipts *WorkReceipts
	questions    chan *eventsv1.WorkReceiptEvent
}

// rotatedOut is the secret before the current one.
var rotatedOut = proofs.Derive([]byte("the pepper before"))

func newWindow(t *testing.T) *window {
	t.Helper()
	f := setup(t)
	w := &window{fixture: f, questions: make(chan *eventsv1.WorkReceiptEvent, 64)}
	secrets := proofs.Secrets{Current: proofs.Derive([]byte("pepper")), Previous: &rotatedOut}
	w.workReceipts = f.receipts(secrets, discard)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() {
		if err := w.workReceipts.Run(ctx); err != nil {
			t.Error(err)
		}
		done <- struct{}{}
	}()
	go func() {
		err := f.bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.WorkReceiptStream, Durable: "billing"},
			func(_ context.Context, list []bus.Msg) error {
				for _, m := range list {
					q := &eventsv1.WorkReceiptEvent{}
					if err := proto.Unmarshal(m.Data, q); err != nil {
						t.Error(err)
					}
					w.questions <- q
				}
				return nil
			})
		if err != nil {
			t.Error(err)
		}
		done <- struct{}{}
	}()
	t.Cleanup(func() { cancel(); <-done; <-done })
	return w
}

// receipts answer the receipts of a fixture's usage.
func (f *fixture) receipts(secrets proofs.Secrets, log *slog.Logger) *WorkReceipts {
	return NewWorkReceipts("hub-a", WorkReceiptDeps{
		Bus: f.bus, Usage: f.usage, Waiting: f.waiting, Secrets: secrets, Clock: f.clock, Log: log,
	})
}

// attempt is an order of a's, dispatched by this fleet, with its receipt.
func (w *window) attempt(a *agent, n byte) (*dispatch.Order, workreceipt.Receipt) {
	o := &dispatch.Order{
		Request: ids.RequestID{1, 15: n}, Attempt: 2, Provider: a.provider, Epoch: 7, Model: "m",
		PriceVersion: "0190a8b0-0000-7000-8000-000000000001",
	}
	return o, workreceipt.Receipt{
		Request: o.Request, Attempt: o.Attempt, Provider: o.Provider, Epoch: o.Epoch, Model: o.Model,
		SentTokens: 5, SentBytes: 50, Complete: true, EndedAt: w.clock.Now(), Proof: w.workReceipts.Prove(o),
	}
}

// arrived is a receipt as a dialect reads it.
func arrived(s workreceipt.Signed) session.Receipt {
	read, err := frame.ReadReceipt(frame.Receipt(s))
	if err != nil {
		read.Request, read.Attempt = s.Request, s.Attempt
	}
	return session.Receipt{Signed: read, Malformed: err != nil, Named: true}
}

func (w *window) hand(a *agent, r workreceipt.Receipt) {
	w.workReceipts.receive(a, []session.Receipt{arrived(workreceipt.Sign(a.key, r))})
}

func (w *window) question(t *testing.T) *eventsv1.WorkReceiptEvent {
	t.Helper()
	select {
	case q := <-w.questions:
		return q
	case <-time.After(time.Minute):
		t.Fatal("billing-ledger is not asked")
		return nil
	}
}

// quiet tells that billing-ledger was asked nothing: it is asked in order, so
// one more question is the first to come.
func (w *window) quiet(t *testing.T) {
	t.Helper()
	a := newAgent(99)
	_, last := w.attempt(a, 99)
	w.hand(a, last)
	if q := w.question(t); q.GetProviderId() != a.provider.String() {
		t.Errorf("billing-ledger was asked about: got %q, want %q", q.GetProviderId(), a.provider.String())
	}
}

func (w *window) answer(t *testing.T, outcome eventsv1.WorkReceiptOutcome, reason string,
	q *eventsv1.WorkReceiptEvent) {
	t.Helper()
	data, err := proto.Marshal(&eventsv1.WorkReceiptNotice{Verdicts: []*eventsv1.WorkReceiptVerdict{
		{RequestId: "what nobody can read takes nothing from the others", Attempt: 1, Outcome: outcome},
		{RequestId: q.GetRequestId(), Attempt: q.GetAttempt(), Outcome: outcome, Reason: reason},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.bus.Publish(t.Context(), bus.SubjectWorkReceiptDone("hub-a"), data, nil); err != nil {
		t.Fatal(err)
	}
}

func TestAReceiptWaitsForTheJournalAndCostsNoMessage(t *testing.T) {
	w, a := newWindow(t), newAgent(1)
	o := w.serve(t)
	r := workreceipt.Receipt{
		Request: o.Request, Attempt: o.Attempt, Provider: o.Provider, Model: o.Model, SentTokens: 3, SentBytes: 9,
		EndedAt: w.clock.Now(), Proof: []byte("nobody looks at it"),
	}
	w.hand(a, r)
	w.quiet(t) // it is judged, and waits
	if len(a.acks) != 0 {
		t.Errorf("acknowledged before it is settled: got %d, want 0", len(a.acks))
	}
	if err := w.usage.Settled([]ids.RequestID{o.Request}); err != nil {
		t.Fatal(err)
	}
	if got := a.acked(t); got.Key != r.Key() {
		t.Errorf("acknowledged: Key: got %+v, want %+v", got.Key, r.Key())
	} else if got.Refused != "" {
		t.Errorf(`acknowledged: Refused: got %q, want ""`, got.Refused)
	}
	// Sent again, because the acknowledgement was lost.
	w.hand(a, r)
	if got := a.acked(t); got.Key != r.Key() {
		t.Errorf("acknowledged: Key: got %+v, want %+v", got.Key, r.Key())
	} else if got.Refused != "" {
		t.Errorf(`acknowledged: Refused: got %q, want ""`, got.Refused)
	}
	if n := w.workReceipts.Forwarded(); n != 1 {
		t.Errorf("messages, of which one is the test's: got %d, want 1", n)
	}
}

func TestAnAttemptThatIsVoidNeedsNoReceipt(t *testing.T) {
	w, a := newWindow(t), newAgent(1)
	o, r := w.attempt(a, 1)
	if err := w.usage.Dispatched(o, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	w.hand(a, r)
	w.quiet(t)
	if err := w.usage.Void(o); err != nil {
		t.Fatal(err)
	}
	if got := a.acked(t); got.Key != r.Key() {
		t.Errorf("acknowledged: Key: got %+v, want %+v", got.Key, r.Key())
	} else if got.Refused != "" {
		t.Errorf(`acknowledged: Refused: got %q, want ""`, got.Refused)
	}
}

func TestOfAnAttemptThatTheHubDoesNotKnowBillingIsAsked(t *testing.T) {
	w := newWindow(t)
	for n, tc := range []struct {
		outcome eventsv1.WorkReceiptOutcome
		refused string
	}{
		{eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_STORED, ""},
		{eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_SETTLED, ""},
		{eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED, "too_late"},
	} {
		a := newAgent(1) // one for each, as an impatient one may hear an answer twice
		_, r := w.attempt(a, byte(n))
		w.hand(a, r)
		q := w.question(t)
		if q.GetRequestId() != r.Request.String() {
			t.Errorf("the question: q.GetRequestId(): got %q, want %q", q.GetRequestId(), r.Request.String())
		} else if q.GetHubId() != "hub-a" {
			t.Errorf(`the question: q.GetHubId(): got %q, want "hub-a"`, q.GetHubId())
		} else if q.GetDispatchedBy() != "hub-a" {
			t.Errorf(`the question: q.GetDispatchedBy(): got %q, want "hub-a"`, q.GetDispatchedBy())
		} else if q.GetEpoch() != 7 {
			t.Errorf("the question: q.GetEpoch(): got %d, want 7", q.GetEpoch())
		} else if q.GetSentTokens() != 5 {
			t.Errorf("the question: q.GetSentTokens(): got %d, want 5", q.GetSentTokens())
		} else if want := a.ReceiptKey(); !bytes.Equal(q.GetPublicKey(), want) {
			t.Errorf("the question: q.GetPublicKey(): got %q, want %q", q.GetPublicKey(), want)
		}
		w.hand(a, r) // impatient: it is not asked again at once
		w.answer(t, tc.outcome, tc.refused, q)
		if got := a.acked(t); got.Key != r.Key() {
			t.Errorf("acknowledged: Key: got %+v, want %+v", got.Key, r.Key())
		} else if got.Refused != tc.refused {
			t.Errorf("acknowledged: Refused: got %q, want %q", got.Refused, tc.refused)
		}
	}
}

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	w, a := newWindow(t), newAgent(1)
	_, r := w.attempt(a, 1)
	w.hand(a, r)
	w.question(t)
	w.hand(a, r)
	w.quiet(t)
	w.clock.Advance(forwardAgain)
	w.hand(a, r)
	if q := w.question(t); q.GetRequestId() != r.Request.String() {
		t.Errorf("asked about: got %q, want %q", q.GetRequestId(), r.Request.String())
	}
}

// forgeries are receipts that are refused, and why; strike reports that the agent itself
// must have made it up.
var forgeries = map[string]struct {
	forge  func(w *window, a *agent) workreceipt.Signed
	want   string
	strike bool
}{
	"a bad signature": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		s := workreceipt.Sign(a.key, r)
		s.Signature[5]++
		return s
	}, refusedSignature, true},
	"another key": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		return workreceipt.Sign(newAgent(2).key, r)
	}, refusedSignature, true},
	"altered counts": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		s := workreceipt.Sign(a.key, r)
		s.SentTokens *= 1000
		return s
	}, refusedSignature, true},
	"another's receipt": {func(w *window, _ *agent) workreceipt.Signed {
		other := newAgent(2)
		_, r := w.attempt(other, 1)
		return workreceipt.Sign(other.key, r)
	}, refusedProvider, false},
	"a request that another served": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(newAgent(2), 1) // the proof is the other's
		r.Provider = a.provider
		return workreceipt.Sign(a.key, r)
	}, refusedProof, false},
	"another epoch": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		r.Epoch++
		return workreceipt.Sign(a.key, r)
	}, refusedProof, false},
	"another attempt": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		r.Attempt++
		return workreceipt.Sign(a.key, r)
	}, refusedProof, false},
	"a dearer model": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		r.Model = "dear"
		return workreceipt.Sign(a.key, r)
	}, refusedProof, false},
	"a proof of another fleet": {func(w *window, a *agent) workreceipt.Signed {
		o, r := w.attempt(a, 1)
		r.Proof = proofs.Derive([]byte("guessed")).Issue(
			proofs.Attempt{Request: o.Request, Attempt: o.Attempt, Provider: o.Provider, Epoch: o.Epoch, Model: o.Model},
			proofs.Dispatch{Hub: "hub-a", PriceVersion: o.PriceVersion})
		return workreceipt.Sign(a.key, r)
	}, refusedProof, false},
	"no proof": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		r.Proof = nil
		return workreceipt.Sign(a.key, r)
	}, refusedMalformed, true},
	"negative counts": {func(w *window, a *agent) workreceipt.Signed {
		_, r := w.attempt(a, 1)
		r.SentTokens = -5
		return workreceipt.Sign(a.key, r)
	}, refusedMalformed, true},
}

// Hostile test 42, as far as it is the hub's: nothing of it reaches
// billing-ledger.
func TestAForgedReceiptIsRefused(t *testing.T) {
	for name, tc := range forgeries {
		t.Run(name, func(t *testing.T) {
			w, a := newWindow(t), newAgent(1)
			w.workReceipts.receive(a, []session.Receipt{arrived(tc.forge(w, a))})
			if got := a.acked(t); got.Refused != tc.want {
				t.Errorf("refused: got %q, want %q", got.Refused, tc.want)
			}
			w.quiet(t)
			if (a.forged > 0) != tc.strike {
				t.Errorf("a.forged > 0: got %t, want %t", a.forged > 0, tc.strike)
			} else if w.workReceipts.Refused() != 1 {
				t.Errorf("w.workReceipts.Refused(): got %d, want 1", w.workReceipts.Refused())
			}
		})
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	var r recent
	for n := range uint32(3 * maxRecent / 2) {
		r.add(journal.Key{Attempt: n})
		r.add(journal.Key{Attempt: n})
	}
	switch {
	case len(r.keys) != maxRecent:
		t.Errorf("len(r.keys): got %d, want %d", len(r.keys), maxRecent)
	case len(r.ring) != maxRecent:
		t.Errorf("len(r.ring): got %d, want %d", len(r.ring), maxRecent)
	case r.has(journal.Key{Attempt: 5}):
		t.Error("r.has(journal.Key{Attempt: 5}): got true, want false")
	case !r.has(journal.Key{Attempt: 3*maxRecent/2 - 1}):
		t.Error("r.has(…): got false, want true")
	}
	w, a := newWindow(t), newAgent(1)
	for n := range uint32(maxWaiting + 5) {
		w.waiting.wait(journal.Key{Attempt: n}, a, digest{})
	}
	if n := len(w.waiting.all); n != maxWaiting {
		t.Errorf("keys that wait: got %d, want %d", n, maxWaiting)
	}
	w.clock.Advance(maxWait + time.Second)
	w.workReceipts.sweep()
	if n := len(w.waiting.all); n != 0 {
		t.Errorf("keys that wait after the longest wait: got %d, want 0", n)
	}
}

func TestWhatBecameOfAReceiptIsSaidAgainWithoutAMessage(t *testing.T) {
	w, a := newWindow(t), newAgent(1)
	for n, tc := range []struct {
		outcome eventsv1.WorkReceiptOutcome
		refused string
	}{
		{eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_STORED, ""},
		{eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED, "nothing_served"},
	} {
		_, r := w.attempt(a, byte(n))
		w.hand(a, r)
		w.answer(t, tc.outcome, tc.refused, w.question(t))
		a.acked(t)
		w.clock.Advance(forwardAgain)
		w.hand(a, r) // the acknowledgement was lost
		if got := a.acked(t); got.Key != r.Key() {
			t.Errorf("acknowledged: Key: got %+v, want %+v", got.Key, r.Key())
		} else if got.Refused != tc.refused {
			t.Errorf("acknowledged: Refused: got %q, want %q", got.Refused, tc.refused)
		}
		if r.SentTokens++; tc.refused != "" { // another receipt is another question
			w.hand(a, r)
			if q := w.question(t); q.GetSentTokens() != r.SentTokens {
				t.Errorf("asked about: got %d, want %d", q.GetSentTokens(), r.SentTokens)
			}
		}
	}
	w.quiet(t)
}

func TestRefusalsAreCountedAndToldOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	f, a := setup(t), newAgent(1)
	r := f.receipts(proofs.Secrets{Current: proofs.Derive([]byte("pepper"))}, slog.New(slog.NewTextHandler(&log, nil)))
	w := &window{fixture: f, workReceipts: r}
	_, made := w.attempt(a, 1)
	made.Proof = []byte("made up")
	forged := arrived(workreceipt.Sign(a.key, made))
	for range 3 {
		r.judge(t.Context(), handed{a, []session.Receipt{forged, forged}})
	}
	r.sweep()
	r.sweep()
	if n := r.Refused(); n != 6 {
		t.Errorf("r.Refused(): got %d, want 6", n)
	} else if len(a.acks) != 6 {
		t.Errorf("len(a.acks): got %d, want 6", len(a.acks))
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("strings.Count(…): got %d, want 1", n)
	} else if !strings.Contains(log.String(), "invalid_proof:6") {
		t.Errorf(`log: got %q, want "invalid_proof:6" in it`, log.String())
	}
	if len(r.known.all) != 1 {
		t.Errorf("verdicts remembered: got %d, want 1", len(r.known.all))
	}
	for n := range 3 * maxReasons {
		r.known.count(strconv.Itoa(n))
	}
	if n := len(r.known.drain()); n > maxReasons+1 {
		t.Errorf("reasons counted apart: got %d, want at most %d", n, maxReasons+1)
	}
}

func TestVerdictsAreBounded(t *testing.T) {
	v := newVerdicts()
	nth := func(n uint32) digest { return digest(binary.BigEndian.AppendUint32(make([]byte, 12), n)) }
	for n := range uint32(maxVerdicts + 5) {
		v.keep(nth(n), "x")
		v.keep(nth(n), "y")
	}
	switch _, known := v.of(nth(4)); {
	case known:
		t.Error("known of v.of(nth(4)): got true, want false")
	case len(v.all) != maxVerdicts:
		t.Errorf("len(v.all): got %d, want %d", len(v.all), maxVerdicts)
	case len(v.ring) != maxVerdicts:
		t.Errorf("len(v.ring): got %d, want %d", len(v.ring), maxVerdicts)
	}
	if why, known := v.of(nth(5)); !known {
		t.Error("known of v.of(nth(5)): got false, want true")
	} else if why != "x" {
		t.Errorf(`the oldest that fits: got %q, want "x"`, why)
	}
}

func TestReceiptsBeyondTheQueueAreDroppedAndCounted(t *testing.T) {
	f, a := setup(t), newAgent(1)
	r := f.receipts(proofs.Secrets{}, discard)
	for range receiptQueue + 2 {
		r.receive(a, make([]session.Receipt, 3))
	}
	if r.Dropped() != 6 {
		t.Errorf("counted: got %d, want 6", r.Dropped())
	}
}

// A receipt whose proof is of the secret before the last rotation is judged as
// any other.
func TestAReceiptUnderThePreviousSecretIsAskedAbout(t *testing.T) {
	w, a := newWindow(t), newAgent(1)
	o, old := w.attempt(a, 1)
	old.Proof = proofs.Secrets{Current: rotatedOut}.Issue(
		proofs.Attempt{Request: o.Request, Attempt: o.Attempt, Provider: o.Provider, Epoch: o.Epoch, Model: o.Model},
		proofs.Dispatch{Hub: "hub-z", PriceVersion: o.PriceVersion})
	_, fresh := w.attempt(a, 2)
	for _, r := range []workreceipt.Receipt{old, fresh} {
		w.hand(a, r)
		if q := w.question(t); q.GetRequestId() != r.Request.String() {
			t.Errorf("asked about: got %q, want %q", q.GetRequestId(), r.Request.String())
		}
	}
}
