package providerhub_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

var receiptKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func publicKey() ed25519.PublicKey { return receiptKey.Public().(ed25519.PublicKey) }

// claim is the receipt of a request that an agent was given.
func claim(t testing.TB, m member, epoch int64, open *agentv2.Open) workreceipt.Signed {
	t.Helper()
	request, err := ids.ParseRequest(open.GetRequestId())
	must(t, err)
	who, err := ids.ParseProvider(m.id)
	must(t, err)
	return workreceipt.Sign(receiptKey, workreceipt.Receipt{
		Request: request, Attempt: open.GetAttempt(), Provider: who, Epoch: epoch, Model: open.GetModelId(),
		SentTokens: 2, SentBytes: 20, Complete: true, EndedAt: time.Now().Truncate(time.Millisecond), Proof: open.GetProof(),
	})
}

func sendReceipts(a *fakeagent.Agent, all ...workreceipt.Signed) error {
	message := &agentv2.Receipts{}
	for _, s := range all {
		message.Receipts = append(message.Receipts, frame.Receipt(s))
	}
	return a.Send(&agentv2.Frame{Body: &agentv2.Frame_Receipts{Receipts: message}})
}

// acks are what the hub has acknowledged to an agent.
func acks(a *fakeagent.Agent) []*agentv2.AckedReceipt {
	var all []*agentv2.AckedReceipt
	for _, f := range a.Frames() {
		all = append(all, f.GetReceiptAck().GetReceipts()...)
	}
	return all
}

// servedOnce has an agent serve a request to its end, and returns what it was
// given.
func (w *world) servedOnce(m member) (*fakeagent.Agent, *hubv1.DispatchOpen, *agentv2.Open) {
	w.t.Helper()
	given := make(chan *agentv2.Open, 1)
	answer := fakeagent.Answer("Hello", " world")
	a := w.dial(m, fakeagent.Options{ReceiptKey: publicKey(), Handler: func(r *fakeagent.Request) {
		given <- r.Open
		answer(r)
	}})
	o := order(m, a, true)
	o.PriceVersionId = "0190a8b0-0000-7000-8000-000000000001"
	if r := w.call(o).rest(); r.finished == nil {
		w.t.Fatalf("failed: %v", r.failed)
	}
	return a, o, <-given
}

func TestAReceiptIsAcknowledgedWhenItsRequestIsSettled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a, o, given := w.servedOnce(m)
	must(t, sendReceipts(a, claim(t, m, a.Epoch(), given)))
	must(t, a.Heartbeat(t.Context())) // the receipt is read
	if got := acks(a); len(got) != 0 {
		t.Errorf("acknowledged before it is settled: got %d, want 0, in %v", len(got), got)
	}
	notice, err := proto.Marshal(&eventsv1.SettledNotice{RequestIds: []string{o.GetRequestId()}})
	must(t, err)
	must(t, w.bus.Publish(t.Context(), bus.SubjectSettled(testHub), notice, nil))
	w.eventually("it is acknowledged", func() error {
		if got := acks(a); len(got) != 1 || got[0].GetRefused() != "" || got[0].GetAttempt() != 1 {
			return errors.New("it is not")
		}
		return nil
	})
}

// The hub has lost its journal, and its receipts are another's to judge.
func TestAHubWithoutItsJournalAsksBillingAboutAReceipt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a, o, given := w.servedOnce(m)
	epoch := a.Epoch()
	w.halt(w.hub)
	w.cfg.JournalDir = t.TempDir()
	w.start()
	a = w.dial(m, fakeagent.Options{ReceiptKey: publicKey()})
	if a.Epoch() == epoch {
		t.Fatal("the new connection has the old epoch")
	}
	must(t, sendReceipts(a, claim(t, m, epoch, given), claim(t, m, a.Epoch(), given)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	must(t, w.bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.WorkReceiptStream, Durable: "billing"},
		func(_ context.Context, list []bus.Msg) error {
			defer cancel()
			q := &eventsv1.WorkReceiptEvent{}
			must(t, proto.Unmarshal(list[0].Data, q))
			switch {
			case len(list) != 1:
				t.Errorf("asked: got %d, want 1", len(list))
			case q.GetRequestId() != o.GetRequestId():
				t.Errorf("q.GetRequestId(): got %q, want %q", q.GetRequestId(), o.GetRequestId())
			case q.GetEpoch() != epoch:
				t.Errorf("q.GetEpoch(): got %d, want %d", q.GetEpoch(), epoch)
			case q.GetDispatchedBy() != testHub:
				t.Errorf("q.GetDispatchedBy(): got %q, want %q", q.GetDispatchedBy(), testHub)
			case q.GetPriceVersionId() != o.GetPriceVersionId():
				t.Errorf("q.GetPriceVersionId(): got %q, want %q", q.GetPriceVersionId(), o.GetPriceVersionId())
			case q.GetProviderId() != m.id:
				t.Errorf("q.GetProviderId(): got %q, want %q", q.GetProviderId(), m.id)
			}
			notice, err := proto.Marshal(&eventsv1.WorkReceiptNotice{Verdicts: []*eventsv1.WorkReceiptVerdict{{
				RequestId: q.GetRequestId(), Attempt: q.GetAttempt(),
				Outcome: eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_STORED,
			}}})
			must(t, err)
			return w.bus.Publish(ctx, bus.SubjectWorkReceiptDone(testHub), notice, nil)
		}))
	w.eventually("one is acknowledged, and the one of another epoch refused", func() error {
		got := map[string]int{}
		for _, ack := range acks(a) {
			got[ack.GetRefused()]++
		}
		if got[""] != 1 || got["invalid_proof"] != 1 {
			return errors.New("it is not")
		}
		return nil
	})
}

func TestReceiptsAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	open := &agentv2.Open{RequestId: order(m, w.dial(m, fakeagent.Options{}), true).GetRequestId(), Attempt: 1,
		ModelId: testModel, Proof: []byte("guessed")}
	forged := claim(t, m, 1, open)
	forged.Signature[0]++
	for name, misbehave := range map[string]func(a *fakeagent.Agent) error{
		"no key":          nil,
		"a frame too big": func(a *fakeagent.Agent) error { return sendReceipts(a, make([]workreceipt.Signed, 161)...) },
		"too many frames": func(a *fakeagent.Agent) error {
			for range 5000 { // more than are due in the time that it takes
				if err := sendReceipts(a); err != nil {
					return nil //nolint:nilerr // the hub has closed, as it should
				}
			}
			return nil
		},
		"forged twice": func(a *fakeagent.Agent) error { return sendReceipts(a, forged, forged) },
	} {
		t.Run(name, func(t *testing.T) {
			opts := fakeagent.Options{NodeID: "fake-node-2", ReceiptKey: publicKey()}
			if misbehave == nil {
				opts.ReceiptKey = nil
				misbehave = func(a *fakeagent.Agent) error { return sendReceipts(a, forged) }
			}
			a, err := w.tryDial(m, opts)
			must(t, err)
			defer a.Close()
			must(t, misbehave(a))
			wait(t, "the end of the connection", a.Closed())
			if why := a.Farewell(); why.GetCode() != "protocol_error" {
				t.Errorf(`closed: got %q, want "protocol_error"`, why.GetCode())
			}
		})
	}
	if _, err := w.tryDial(m, fakeagent.Options{NodeID: "fake-node-2", ReceiptKey: []byte("short")}); err == nil {
		t.Error("a key of five bytes is registered")
	}
}

func TestAnAgentWithoutReceiptsIsServedAsBefore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello")})
	if r := w.call(order(m, a, true)).rest(); r.finished == nil {
		t.Errorf("failed: %v", r.failed)
	}
}

// Only of an attempt whose caller is not there to hear how it ended may nobody
// else know that nothing was served.
func TestAnAttemptIsCalledVoidOnlyWhereItsCallerVanished(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	given := func(act func(c *call, r *fakeagent.Request)) *hubv1.DispatchOpen {
		t.Helper()
		o := order(m, a, true)
		c := w.call(o)
		act(c, received(t, a))
		return o
	}
	told := []func(c *call, r *fakeagent.Request){
		func(c *call, r *fakeagent.Request) { // served
			go fakeagent.Answer("x")(r)
			if end := c.rest(); end.finished == nil {
				t.Error(end.failed)
			}
		},
		func(c *call, r *fakeagent.Request) { // the engine failed, and the caller heard it
			must(t, r.End(500, true))
			if end := c.rest(); end.failed == nil {
				t.Error("it did not fail")
			}
		},
		func(c *call, r *fakeagent.Request) { // committed to, and then the caller vanished
			must(t, r.Text("Hello"))
			c.content()
			must(t, c.stream.CloseSend())
			wait(t, "the cancel", r.Cancelled())
			must(t, r.End(0, false))
			c.rest()
		},
	}
	for _, act := range told {
		given(act)
	}
	vanished := []*hubv1.DispatchOpen{
		given(func(c *call, r *fakeagent.Request) { // broken off before content
			c.cancel()
			wait(t, "the cancel", r.Cancelled())
			must(t, r.End(0, false))
		}),
		given(func(c *call, r *fakeagent.Request) { // its consumer hung up before content
			must(t, c.stream.CloseSend())
			wait(t, "the cancel", r.Cancelled())
			must(t, r.End(0, false))
		}),
		given(func(c *call, r *fakeagent.Request) { // hung up when the answer was there, and not committed to
			go fakeagent.Answer("x")(r)
			for !strings.Contains(string(c.event().GetJson()), `"finish_reason":"stop"`) {
			}
			must(t, c.stream.CloseSend())
			if _, err := c.stream.Recv(); err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}),
		given(func(c *call, r *fakeagent.Request) { // broken off before it committed
			must(t, r.Text("Hello"))
			c.event()
			c.cancel()
			wait(t, "the cancel", r.Cancelled())
			must(t, r.End(0, false))
		}),
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var voids []*eventsv1.VoidEvent
	must(t, w.bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.WorkReceiptStream, Durable: "billing"},
		func(_ context.Context, list []bus.Msg) error {
			for _, msg := range list {
				e := &eventsv1.VoidEvent{}
				must(t, proto.Unmarshal(msg.Data, e))
				if voids = append(voids, e); len(voids) == len(vanished) {
					cancel()
				}
			}
			return nil
		}))
	if len(voids) != len(vanished) {
		t.Fatalf("told: got %d, want %d, in %v", len(voids), len(vanished), voids)
	}
	for _, o := range vanished {
		if !slices.ContainsFunc(voids, func(e *eventsv1.VoidEvent) bool {
			return e.GetRequestId() == o.GetRequestId() && e.GetAttempt() == 1 && e.GetHubId() == testHub &&
				e.GetProviderId() == m.id
		}) {
			t.Errorf("%s is not among %v", o.GetRequestId(), voids)
		}
	}
}
