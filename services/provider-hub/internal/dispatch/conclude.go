package dispatch

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/meter"
)

// conclude ends an attempt: it tells the agent, journals the usage or the void, and then
// tells the caller.
func (a *attempt) conclude(ctx context.Context, v *verdict) error {
	defer a.tell(ctx, v)
	if a.answer.begun && !v.silent {
		if err := a.awaitCommit(ctx); err != nil {
			return a.journalFailed(err)
		}
		v.silent = ctx.Err() != nil
		if v.silent && v.ending == meter.Completed {
			v.ending = meter.PlatformLost // a gateway that died has shown the end to nobody
		}
	}
	if !a.committed {
		// The commit of a caller who hung up may not have been read yet.
		select {
		case <-a.commits:
			if err := a.commit(); err != nil {
				return a.journalFailed(err)
			}
		default:
		}
	}
	if !a.committed || !a.answer.begun && !v.prompt {
		return a.void(ctx, v)
	}
	if v.drain && a.order.Kind == meter.Chat { // no other kind is billed by an engine's usage
		a.drain()
	}
	a.stream.Close(a.unfinished())
	usage := a.usage(v.ending)
	if v.outcome == Served && a.order.Kind == meter.Chat && usage.Bill.Completion == 0 {
		v.outcome = Failed // an empty answer is no service
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.dispatcher.cfg.FinalTimeout)
	defer cancel()
	publish, err := a.dispatcher.journal.Final(final, usage)
	if err != nil {
		return a.journalFailed(err)
	}
	// The caller hears the end before the usage is published. Should this process die in
	// between, the gateway's report that the answer broke off exists before the usage
	// does.
	defer publish()
	a.span.AddEvent(eventFinalSynced)
	crash.At("hub.final.synced")
	switch {
	case v.silent:
		return nil
	case v.failure != nil:
		return said(ctx, a.caller.Failed(*v.failure))
	default:
		return said(ctx, a.caller.Finished(usage.Bill.Prompt, usage.Bill.Completion))
	}
}

// said is the outcome of a last message. A caller that is no longer there is no error,
// because it hung up at the very end and nothing is owed to it.
func said(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("tell the caller how the attempt ended: %w", err)
}

// unfinished reports whether the agent may still be at work.
func (a *attempt) unfinished() bool { return !a.answer.done }

// void ends an attempt with nothing to bill, which routers must not count as served.
func (a *attempt) void(ctx context.Context, v *verdict) error {
	if v.outcome == Served {
		v.outcome = Cancelled
	}
	a.stream.Close(a.unfinished())
	if err := a.journalVoid(ctx, v); err != nil {
		return a.journalFailed(err)
	}
	switch {
	case v.silent:
		return nil
	case v.failure != nil:
		return said(ctx, a.caller.Failed(*v.failure))
	default:
		return said(ctx, a.caller.Failed(Failure{Code: CodeTimeout, Message: "the answer was not committed to"}))
	}
}

// journalVoid journals that nothing is owed.
func (a *attempt) journalVoid(ctx context.Context, v *verdict) error {
	vanished := v.silent || ctx.Err() != nil
	select {
	case <-a.caller.Gone():
		vanished = true
	default:
	}
	if !vanished || !hasReceipts(a.order.Kind) {
		return a.dispatcher.journal.Void(a.order)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.dispatcher.cfg.FinalTimeout)
	defer cancel()
	return a.dispatcher.journal.Vanished(last, a.order)
}

// awaitCommit waits for the caller's commit, at most Config.CommitWait.
func (a *attempt) awaitCommit(ctx context.Context) error {
	if a.committed {
		return nil
	}
	late, timer := a.alarm(a.dispatcher.cfg.CommitWait)
	defer timer.Stop()
	a.waits(ForCommit)
	select {
	case <-a.commits:
		return a.commit()
	case <-late:
	case <-ctx.Done():
	case <-a.caller.Gone():
	}
	return nil
}

// alarm signals once, after d.
func (a *attempt) alarm(d time.Duration) (<-chan struct{}, Timer) {
	late := make(chan struct{}, 1)
	return late, a.dispatcher.env.After(d, func() { late <- struct{}{} })
}

// drain asks the agent to stop and listens for the usage that it may report. Nothing of
// it is relayed, so the count of the delivered content stands.
func (a *attempt) drain() {
	a.stream.Cancel()
	late, timer := a.alarm(a.dispatcher.cfg.UsageDrain)
	defer timer.Stop()
	for {
		piece, end, lost := a.stream.Take()
		a.overhear(piece)
		a.stream.Release(len(piece), a.answer.keep(piece))
		if end != nil || lost != nil || a.answer.done {
			return
		}
		a.waits(ForUsage)
		select {
		case <-a.stream.Ready():
		case <-late:
			return
		case <-a.dispatcher.abort:
			return
		}
	}
}

// overhear reads further pieces for their usage alone.
func (a *attempt) overhear(piece []byte) {
	if !a.order.Stream || len(piece) == 0 {
		return
	}
	a.answer.feed(piece)
	for {
		event, ok := a.answer.sse.Next()
		if !ok {
			return
		}
		if event.Done {
			a.answer.done = true
			return
		}
		if _, err := a.answer.reader.event(event); err != nil {
			a.answer.reader.distrust()
			a.answer.done = true
			return
		}
	}
}

// usage meters the attempt.
func (a *attempt) usage(ending meter.Ending) *Usage {
	served := a.served(ending, a.claim())
	return &Usage{
		Order: a.order, Served: served, Bill: a.bill(served),
		FirstContent: a.firstContent, Dispatched: a.started, Ended: a.dispatcher.clock.Now(),
	}
}

// bill charges the attempt. The provider's claims of its prompts and whole answers are
// held to their accounts in package claims.
func (a *attempt) bill(s meter.Served) meter.Bill {
	bill := meter.Charge(s)
	if bill.Claim == meter.Valid && bill.Prompt > 0 && (s.Kind == meter.Chat || s.Kind == meter.Embeddings) {
		tracker := a.dispatcher.prompts
		if s.Media() {
			tracker = a.dispatcher.media
		}
		bill.Prompt = tracker.BillPrompt(a.order.Provider, a.order.Model, s.EstimatedPrompt, s.PlausiblePrompt(), bill.Prompt)
	}
	if s.Kind != meter.Chat || s.Ending != meter.Completed || bill.Claim != meter.Valid || bill.Completion == 0 ||
		s.HiddenReasoning {
		return bill
	}
	// Every delivery is at least one token.
	bill.Completion = a.dispatcher.claims.Bill(a.order.Provider, a.order.Model, max(a.answer.reader.plausible(), 1),
		bill.Completion)
	return bill
}

func (a *attempt) served(ending meter.Ending, claim meter.Claim) meter.Served {
	o := a.order
	return meter.Served{
		Kind: o.Kind, Ending: ending, EstimatedPrompt: o.EstimatedPrompt, HeldPrompt: o.HeldPrompt, MaxOutput: o.MaxOutput,
		Choices: o.Choices,
		Recount: a.relayedTokens, DeliveredBytes: a.relayedBytes, Claim: claim,
		HiddenReasoning: o.HiddenReasoning, StopAsked: o.StopAsked && a.answer.reader.stopped(),
		ContentBlamed: a.contentBlamed,
	}
}

// claim is the engine's own usage report.
func (a *attempt) claim() meter.Claim {
	u := a.answer.reader.claim()
	switch u.State {
	case openai.UsageValid:
		return meter.Claim{State: meter.Valid, Prompt: u.PromptTokens, Completion: u.CompletionTokens,
			Cached: u.CachedTokens}
	case openai.UsageAbsurd:
		return meter.Claim{State: meter.Absurd}
	case openai.UsageAbsent:
	}
	return meter.Claim{State: meter.Absent}
}

// tell reports the attempt to the routers and to the log.
func (a *attempt) tell(ctx context.Context, v *verdict) {
	if v.outcome == Served && a.order.answering() > 0 {
		a.dispatcher.silences.answered(a.order.pair())
	}
	r := reportOf(a.order, v.outcome)
	r.FirstContent, r.Duration = a.firstContent, a.dispatcher.clock.Now().Sub(a.started)
	r.AnsweredAs, r.Excess = a.answer.names.other, a.excess
	r.Blocked, r.Excused = a.waited, a.excused(v)
	if a.order.Kind == meter.Chat {
		r.Tokens = a.relayedTokens // routers derive speeds from it
	}
	a.dispatcher.tell(ctx, r, a.order.Stream, a.committed)
	if !a.order.Stream {
		r.FirstContent = 0 // in a whole answer it is the time of the end
	}
	a.dispatcher.report(r)
}
