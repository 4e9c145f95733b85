package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// WorkReceipts answers the receipts of providers that hubs pass on, and keeps the void
// attempts that hubs report. A receipt that is delivered twice is answered twice and kept
// once.
type WorkReceipts struct {
	Bus    Bus
	Keeper *orphan.Keeper
	Voids  *orphan.Voids
	Log    *slog.Logger
	// Unwritten returns which of the requests have no hold that is written; nil puts nothing off. Clock
	// shows the age of a request.
	Unwritten func(ctx context.Context, requests []ids.RequestID) ([]ids.RequestID, error)
	Clock     clock.Clock
}

// Neither receipts nor voids have a ticket, so those of requests whose holds may not be written yet come
// again. An owner of slices takes much less than quick to write a hold. When the owner was killed, a
// gateway's renewal or report writes it within tooYoung.
const (
	quick    = 2 * time.Second
	tooYoung = 20 * time.Second
	// youngPause is the pause of those that are not quick.
	youngPause = 5 * time.Second
)

// putOffYoung gives back the messages about requests whose holds may still be written, and returns the
// others.
func (r *WorkReceipts) putOffYoung(ctx context.Context, msgs []bus.Msg) ([]bus.Msg, error) {
	if r.Unwritten == nil {
		return msgs, nil
	}
	now, of := r.Clock.Now(), make([]ids.RequestID, len(msgs))
	var young []ids.RequestID
	for i, m := range msgs {
		if of[i] = requestOf(m); now.Sub(of[i].Time()).Abs() < tooYoung {
			young = append(young, of[i])
		}
	}
	if len(young) == 0 {
		return msgs, nil
	}
	unwritten, err := r.Unwritten(ctx, young)
	if err != nil {
		return nil, err
	}
	var ready, brief, long []bus.Msg
	for i, m := range msgs {
		switch {
		case !slices.Contains(unwritten, of[i]):
			ready = append(ready, m)
		case now.Sub(of[i].Time()).Abs() < quick:
			brief = append(brief, m)
		default:
			long = append(long, m)
		}
	}
	return ready, errors.Join(putOff(brief, usage.EarlyPause), putOff(long, youngPause))
}

// requestOf returns the request of a void or a receipt; zero for a message that cannot be read.
func requestOf(m bus.Msg) ids.RequestID {
	var event interface {
		proto.Message
		GetRequestId() string
	}
	if strings.HasPrefix(m.Subject, bus.SubjectVoidPrefix) {
		event = &eventsv1.VoidEvent{}
	} else {
		event = &eventsv1.WorkReceiptEvent{}
	}
	if err := proto.Unmarshal(m.Data, event); err != nil {
		return ids.RequestID{}
	}
	id, err := ids.ParseRequest(event.GetRequestId())
	if err != nil {
		return ids.RequestID{}
	}
	return id
}

// Run answers until ctx ends. A batch that fails is delivered again after a pause.
func (r *WorkReceipts) Run(ctx context.Context) error {
	cfg := bus.ConsumerConfig{Stream: bus.WorkReceiptStream, Durable: durable, Linger: linger}
	return r.Bus.Consume(ctx, cfg, r.Handle)
}

// Handle answers a batch. After an error the batch must be delivered again. Voids are
// kept first, because a receipt in the same batch is judged by them.
func (r *WorkReceipts) Handle(ctx context.Context, msgs []bus.Msg) error {
	msgs, err := r.putOffYoung(ctx, msgs)
	if err != nil || len(msgs) == 0 {
		return err
	}
	questions, voids := r.sort(ctx, msgs)
	if err := r.Voids.Keep(ctx, voids); err != nil {
		return err
	}
	return r.answer(ctx, questions)
}

// sort separates receipts from voids, for which nobody awaits an answer.
func (r *WorkReceipts) sort(ctx context.Context, msgs []bus.Msg) (questions []bus.Msg, voids []orphan.Void) {
	for _, m := range msgs {
		if !strings.HasPrefix(m.Subject, bus.SubjectVoidPrefix) {
			questions = append(questions, m)
			continue
		}
		v, err := voidFrom(m.Data)
		if err == nil && m.Subject != bus.SubjectVoid(v.Hub) {
			err = errOtherHub
		}
		if err != nil {
			r.Log.ErrorContext(ctx, "word of a void attempt is invalid", "subject", m.Subject, "error", err)
			continue
		}
		voids = append(voids, v)
	}
	return questions, voids
}

// errOtherHub refuses a message in which a hub names another hub. The subject is proven
// by the hub's login on NATS; the message is only what the hub says.
var errOtherHub = errors.New("a hub speaks for another")

// maxAttempt is the highest number of an attempt that a table stores.
const maxAttempt = 1 << 30

// voidFrom decodes a void attempt.
func voidFrom(data []byte) (orphan.Void, error) {
	event := &eventsv1.VoidEvent{}
	if err := proto.Unmarshal(data, event); err != nil {
		return orphan.Void{}, fmt.Errorf("not a void attempt: %w", err)
	}
	v := orphan.Void{Attempt: int32(event.GetAttempt()), Hub: event.GetHubId()}
	var err error
	if v.Request, err = ids.ParseRequest(event.GetRequestId()); err != nil {
		return v, fmt.Errorf("request id: %w", err)
	}
	if v.Provider, err = ids.ParseProvider(event.GetProviderId()); err != nil {
		return v, fmt.Errorf("provider id: %w", err)
	}
	if !usage.ValidHub(v.Hub) || event.GetAttempt() < 1 || event.GetAttempt() > maxAttempt {
		return v, errors.New("the hub id or the attempt is malformed")
	}
	return v, nil
}

// answer answers receipts.
func (r *WorkReceipts) answer(ctx context.Context, msgs []bus.Msg) error {
	answers := answers{}
	var receipts []orphan.WorkReceipt
	var hubs []string
	for _, m := range msgs {
		event := &eventsv1.WorkReceiptEvent{}
		receipt, err := workReceiptFrom(event, m.Data)
		if event.GetHubId() != "" && m.Subject != bus.SubjectWorkReceipt(event.GetHubId()) {
			r.Log.ErrorContext(ctx, "a question about a receipt is not answered", "subject", m.Subject, "error", errOtherHub)
			continue
		}
		if err != nil {
			r.Log.ErrorContext(ctx, "a question about a receipt is invalid", "request_id", event.GetRequestId(), "hub_id",
				event.GetHubId(), "error", err)
			answers.add(event.GetHubId(), event.GetRequestId(), event.GetAttempt(), orphan.Verdict{Outcome: orphan.Refused,
				Reason: orphan.Invalid})
			continue
		}
		receipts, hubs = append(receipts, receipt), append(hubs, event.GetHubId())
	}
	verdicts, err := r.Keeper.Keep(ctx, receipts)
	if err != nil {
		return err
	}
	crash.At("billing.receipt.committed")
	for i, v := range verdicts {
		answers.add(hubs[i], receipts[i].Request.String(), receipts[i].Attempt, v)
	}
	r.tell(ctx, answers)
	return nil
}

// workReceiptFrom decodes a receipt and verifies all that does not need the hubs' secret,
// because the receipt may have been altered on its way.
func workReceiptFrom(event *eventsv1.WorkReceiptEvent, data []byte) (orphan.WorkReceipt, error) {
	if err := proto.Unmarshal(data, event); err != nil {
		event.Reset() // the fields read before the fault mean nothing
		return orphan.WorkReceipt{}, fmt.Errorf("not a work receipt: %w", err)
	}
	r := orphan.WorkReceipt{Key: event.GetPublicKey(), Hub: event.GetDispatchedBy()}
	var err error
	if r.Request, err = ids.ParseRequest(event.GetRequestId()); err != nil {
		return r, fmt.Errorf("request id: %w", err)
	}
	if r.Provider, err = ids.ParseProvider(event.GetProviderId()); err != nil {
		return r, fmt.Errorf("provider id: %w", err)
	}
	if r.Price, err = ids.ParsePriceVersion(event.GetPriceVersionId()); err != nil {
		return r, fmt.Errorf("price version id: %w", err)
	}
	if !usage.ValidHub(r.Hub) || !usage.ValidHub(event.GetHubId()) || len(event.GetSignature()) != len(r.Signature) {
		return r, errors.New("a hub id or the signature is malformed")
	}
	r.Receipt = workreceipt.Receipt{
		Request: r.Request, Attempt: event.GetAttempt(), Provider: r.Provider, Epoch: event.GetEpoch(),
		Model:   event.GetModelId(),
		Claimed: event.GetClaimed(), ClaimedPrompt: event.GetClaimedPromptTokens(),
		ClaimedCompletion: event.GetClaimedCompletionTokens(),
		SentTokens:        event.GetSentTokens(), SentBytes: event.GetSentBytes(), Complete: event.GetComplete(),
		EndedAt: time.UnixMilli(event.GetEndedAtMs()).UTC(), Proof: event.GetProof(),
	}
	copy(r.Signature[:], event.GetSignature())
	return r, r.Verify(r.Key)
}

// answers are the verdicts by the hub that asked.
type answers map[string][]*eventsv1.WorkReceiptVerdict

func (a answers) add(hub, request string, attempt uint32, v orphan.Verdict) {
	if !usage.ValidHub(hub) || request == "" {
		return
	}
	a[hub] = append(a[hub], &eventsv1.WorkReceiptVerdict{
		RequestId: request, Attempt: attempt, Outcome: receiptOutcomes[v.Outcome], Reason: string(v.Reason),
	})
}

var receiptOutcomes = map[orphan.Outcome]eventsv1.WorkReceiptOutcome{
	orphan.AlreadySettled: eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_SETTLED,
	orphan.Stored:         eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_STORED,
	orphan.Refused:        eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED,
}

// tell sends the hubs their verdicts. A verdict that is lost is sent again when the hub
// asks again.
func (r *WorkReceipts) tell(ctx context.Context, all answers) {
	for hub, verdicts := range all {
		data, err := proto.Marshal(&eventsv1.WorkReceiptNotice{Verdicts: verdicts})
		if err == nil {
			err = r.Bus.Publish(ctx, bus.SubjectWorkReceiptDone(hub), data, nil)
		}
		if err != nil {
			r.Log.WarnContext(ctx, "hub could not be told what became of receipts", "hub_id", hub, "receipts", len(verdicts),
				"error", err)
		}
	}
}
