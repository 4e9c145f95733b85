package events

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/journal"
	proofs "svc.internal/services/provider-hub/internal/proof"
	"svc.internal/services/provider-hub/internal/session"
)

// Bounds of work receipts. What exceeds them is dropped, and the agent sends it again.
const (
	receiptQueue = 256
	waitSweep    = time.Minute
)

// Why work receipts are refused here.
const (
	refusedMalformed = "malformed"
	refusedProvider  = "other_provider"
	refusedSignature = "invalid_signature"
	refusedProof     = "invalid_proof"
)

// WorkReceipts answers the work receipts of providers. A receipt for an attempt that is
// in the journal waits until the attempt is settled. A receipt for an attempt that was
// closed lately is acknowledged at once. Neither costs a message. About all others
// billing-ledger is asked, because another hub dispatched the attempt, whose journal may
// be lost, or an earlier process of this one did. The outcome of a receipt is remembered,
// and repeated when the receipt is sent again. Refusals are counted, and logged once a
// minute.
type WorkReceipts struct {
	hubID   string
	bus     Bus
	usage   *Usage
	waiting *WaitingReceipts
	secrets proofs.Secrets
	clock   clock.Clock
	log     *slog.Logger
	known   *verdicts

	queue   chan handed
	ensured bool // the stream was ensured; for the loop only

	forwarded, refused, dropped atomic.Int64
}

// handed are receipts as they came.
type handed struct {
	from Agent
	all  []session.Receipt
}

// WorkReceiptDeps are what receipts are answered with. All are required.
type WorkReceiptDeps struct {
	Bus   Bus
	Usage *Usage
	// Waiting is what Usage acknowledges receipts from.
	Waiting *WaitingReceipts
	Secrets proofs.Secrets
	Clock   clock.Clock
	Log     *slog.Logger
}

// NewWorkReceipts returns an empty queue that Run answers.
func NewWorkReceipts(hubID string, deps WorkReceiptDeps) *WorkReceipts {
	return &WorkReceipts{
		hubID: hubID, bus: deps.Bus, usage: deps.Usage, waiting: deps.Waiting, secrets: deps.Secrets,
		clock: deps.Clock, log: deps.Log, known: newVerdicts(), queue: make(chan handed, receiptQueue),
	}
}

// Forwarded counts questions to billing-ledger, and Refused the receipts that count for
// nothing.
func (r *WorkReceipts) Forwarded() int64 { return r.forwarded.Load() }

// Refused is described beside Forwarded.
func (r *WorkReceipts) Refused() int64 { return r.refused.Load() }

// Dropped counts receipts that found no room here.
func (r *WorkReceipts) Dropped() int64 { return r.dropped.Load() }

// Prove makes the proof of an order, which its provider shows later.
func (r *WorkReceipts) Prove(o *dispatch.Order) []byte {
	return r.secrets.Issue(
		proofs.Attempt{Request: o.Request, Attempt: o.Attempt, Provider: o.Provider, Epoch: o.Epoch, Model: o.Model},
		proofs.Dispatch{Hub: r.hubID, PriceVersion: o.PriceVersion})
}

// Receive implements session.Receipts.
func (r *WorkReceipts) Receive(s *session.Session, all []session.Receipt) { r.receive(live{s}, all) }

// live makes a session an Agent.
type live struct{ *session.Session }

// ReceiptKey implements Agent.
func (s live) ReceiptKey() []byte { return s.Session.ReceiptKey() }

func (r *WorkReceipts) receive(from Agent, all []session.Receipt) {
	select {
	case r.queue <- handed{from, all}:
	default:
		r.dropped.Add(int64(len(all)))
	}
}

// Run answers receipts until ctx ends.
func (r *WorkReceipts) Run(ctx context.Context) error {
	verdicts, err := r.bus.Subscribe(bus.SubjectWorkReceiptDone(r.hubID), "",
		func(_ context.Context, m bus.Message) { r.onVerdicts(m.Data) })
	if err != nil {
		return err
	}
	sweep := time.NewTicker(waitSweep)
	defer sweep.Stop()
	for {
		select {
		case h := <-r.queue:
			r.judge(ctx, h)
		case <-sweep.C:
			r.sweep()
		case <-ctx.Done():
			return verdicts.Stop()
		}
	}
}

// judge answers one frame of receipts.
func (r *WorkReceipts) judge(ctx context.Context, h handed) {
	var answers []session.Acknowledged
	var questions []*eventsv1.WorkReceiptEvent
	for _, m := range h.all {
		if m.Malformed {
			r.refuse(refusedMalformed)
			if m.Named {
				answers = append(answers, session.Acknowledged{Key: m.Key(), Refused: refusedMalformed})
			}
			h.from.Forged()
			continue
		}
		closed, question, why := r.recall(h.from, m.Signed)
		switch {
		case why != "":
			r.refuse(why)
			answers = append(answers, session.Acknowledged{Key: m.Key(), Refused: why})
		case closed:
			answers = append(answers, session.Acknowledged{Key: m.Key()})
		case question != nil:
			questions = append(questions, question)
		}
	}
	h.from.AckReceipts(answers)
	r.ask(ctx, questions)
}

// refuse counts a receipt that counts for nothing.
func (r *WorkReceipts) refuse(why string) {
	r.refused.Add(1)
	r.known.count(why)
}

// recall is consider for a receipt that may have been judged before.
func (r *WorkReceipts) recall(
	from Agent, signed workreceipt.Signed,
) (closed bool, question *eventsv1.WorkReceiptEvent, why string) {
	if signed.Provider != from.Identity().ProviderID {
		return false, nil, refusedProvider
	}
	d, ok := digestOf(signed)
	if !ok {
		return false, nil, refusedMalformed
	}
	if why, known := r.known.of(d); known {
		return why == "", nil, why
	}
	closed, question, why = r.consider(from, signed, d)
	if why == refusedProof {
		r.known.keep(d, why)
	}
	return closed, question, why
}

// consider reports whether a receipt is closed, why it is refused, or what billing-ledger
// is to be asked; none of these when it waits.
func (r *WorkReceipts) consider(
	from Agent, signed workreceipt.Signed, asked digest,
) (closed bool, question *eventsv1.WorkReceiptEvent, why string) {
	key := journal.Key{Request: signed.Request, Attempt: signed.Attempt}
	state := r.usage.State(key)
	var d proofs.Dispatch
	if state == Unknown {
		// The refusal rests on the receipt alone.
		if err := signed.Verify(from.ReceiptKey()); err != nil {
			from.Forged()
			return false, nil, refusedSignature
		}
		ok := false
		if d, ok = r.secrets.Check(signed.Proof, proofs.Attempt{
			Request: signed.Request, Attempt: signed.Attempt, Provider: signed.Provider, Epoch: signed.Epoch,
			Model: signed.Model,
		}); !ok {
			return false, nil, refusedProof
		}
	}
	ask := state != Closed && r.waiting.wait(key, from, asked)
	// An attempt that was closed before anybody waited for it closes no receipt later.
	if r.usage.State(key) == Closed {
		r.waiting.take(key)
		return true, nil, ""
	}
	if state == Unknown && ask {
		question = questionOf(r.hubID, signed, d, from.ReceiptKey())
	}
	return false, question, ""
}

// sweep logs what was refused since the last call, and forgets agents that have waited
// for too long.
func (r *WorkReceipts) sweep() {
	if refused := r.known.drain(); len(refused) > 0 {
		r.log.Warn("receipts of providers are refused", "by_reason", refused)
	}
	r.waiting.sweep()
}

func questionOf(hubID string, s workreceipt.Signed, d proofs.Dispatch, key []byte) *eventsv1.WorkReceiptEvent {
	return &eventsv1.WorkReceiptEvent{
		RequestId: s.Request.String(), Attempt: s.Attempt, HubId: hubID, DispatchedBy: d.Hub, PriceVersionId: d.PriceVersion,
		ProviderId: s.Provider.String(), Epoch: s.Epoch, ModelId: s.Model,
		Claimed: s.Claimed, ClaimedPromptTokens: s.ClaimedPrompt, ClaimedCompletionTokens: s.ClaimedCompletion,
		SentTokens: s.SentTokens, SentBytes: s.SentBytes, Complete: s.Complete, EndedAtMs: s.EndedAt.UnixMilli(),
		Proof: s.Proof, PublicKey: key, Signature: s.Signature[:],
	}
}

// ask publishes questions. A lost question is asked again when the agent sends the
// receipt again.
func (r *WorkReceipts) ask(ctx context.Context, questions []*eventsv1.WorkReceiptEvent) {
	if len(questions) == 0 {
		return
	}
	if err := r.publish(ctx, questions); err != nil {
		r.log.Warn("billing-ledger cannot be asked about receipts now", "receipts", len(questions), "error", err)
	}
}

func (r *WorkReceipts) publish(ctx context.Context, questions []*eventsv1.WorkReceiptEvent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	if !r.ensured {
		if err := r.bus.EnsureStream(ctx, bus.WorkReceiptStream); err != nil {
			return err
		}
		r.ensured = true
	}
	// The id differs from the last id of the question, because the server would swallow
	// a repeated id.
	suffix := "/" + strconv.FormatInt(r.clock.Now().UnixMilli(), 10)
	futures := make([]*bus.Future, 0, len(questions))
	for _, q := range questions {
		data, err := encode(q)
		if err != nil {
			return err
		}
		id := q.GetRequestId() + "/" + strconv.FormatUint(uint64(q.GetAttempt()), 10) + suffix
		future, err := r.bus.PublishStreamAsync(ctx, bus.SubjectWorkReceipt(r.hubID), id, data, nil)
		if err != nil {
			return err
		}
		futures = append(futures, future)
	}
	for _, future := range futures {
		if _, err := future.Wait(ctx); err != nil {
			r.ensured = false // the store may have been wiped
			return err
		}
		r.forwarded.Add(1)
	}
	return nil
}

// onVerdicts passes billing-ledger's verdicts on to the agents.
func (r *WorkReceipts) onVerdicts(data []byte) {
	done, err := r.verdicts(data)
	if err != nil {
		r.log.Error("a part of a notice of what became of receipts has no effect", "error", err)
	}
	for from, all := range done {
		from.AckReceipts(all)
	}
}

func (r *WorkReceipts) verdicts(data []byte) (map[Agent][]session.Acknowledged, error) {
	notice := &eventsv1.WorkReceiptNotice{}
	if err := proto.Unmarshal(data, notice); err != nil {
		return nil, fmt.Errorf("decode notice: %w", err)
	}
	done := map[Agent][]session.Acknowledged{}
	var unread error
	for _, v := range notice.GetVerdicts() {
		request, err := ids.ParseRequest(v.GetRequestId())
		if err != nil { // the others are valid
			unread = fmt.Errorf("read a request's id: %w", err)
			continue
		}
		answer := session.Acknowledged{Key: workreceipt.Key{Request: request, Attempt: v.GetAttempt()}}
		switch v.GetOutcome() {
		case eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_SETTLED,
			eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_STORED:
		case eventsv1.WorkReceiptOutcome_WORK_RECEIPT_OUTCOME_REFUSED:
			answer.Refused = v.GetReason()
		default:
			continue // of a later version
		}
		w := r.waiting.take(journal.Key{Request: request, Attempt: v.GetAttempt()})
		if w == nil {
			continue
		}
		if answer.Refused != "" {
			r.refuse(answer.Refused)
		}
		if !w.asked.IsZero() {
			r.known.keep(w.question, answer.Refused)
		}
		done[w.from] = append(done[w.from], answer)
	}
	return done, unread
}
