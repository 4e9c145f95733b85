package inference

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// A text completion with several prompts is as many requests, one for each prompt. Each
// has an id, a hold, a place, a unit of the rate and a receipt, which names the receipt
// of the next. All are admitted before the first is sent anywhere, the longest first, so
// an account that cannot pay for all of them is refused before anything is served. Where
// only the places are too few, the prompts without one are admitted when another has
// ended, so a client with a single place is served too.
//
// The answer is the answer to all prompts, or an error. After a prompt has failed no
// further one is begun. The prompts under way run to their end, because otherwise a
// client could have their work for nothing by making one prompt fail. The prompts that
// were answered are billed, and the client gets their answers beside the error.

// maxPromptsAtOnce is how many prompts of one request run at a time.
const maxPromptsAtOnce = 4

// promptRun is a request with several prompts under way.
type promptRun struct {
	runner *Runner
	req    *Request
	to     Merged
	merge  *rewrite.Merge
	all    []*prompt
}

// prompt is one of several prompts of a request.
type prompt struct {
	*modelAttempt
	found  bool // it has candidates
	served bool // it was run on its candidates
	ended  bool // and reported
	after  int  // how many prompts had ended when it was begun
	err    error
}

// admitted reports whether the prompt has a hold on known terms.
func (p *prompt) admitted() bool { return p.grant.Terms != nil }

// waits reports whether the prompt could not begin because it has no place or no provider with room. The end
// of another prompt may mend that.
func (p *prompt) waits() bool {
	return !p.served && (fault.Is(p.err, fault.ConcurrencyLimitExceeded) && !p.admitted() ||
		fault.Is(p.err, fault.ProvidersBusy))
}

// RunPrompts serves a request with several prompts on the first of its models, because one model must serve
// all prompts. It returns the outcome of the prompts together and what is billed of them, also beside an
// error. The caller answers when no answer has begun.
func (r *Runner) RunPrompts(ctx context.Context, req *Request, to Merged) (Result, rewrite.Usage) {
	if req.Claim != nil {
		if err := req.Claim.EnsureHeld(ctx); err != nil {
			return Result{Err: err}, rewrite.Usage{}
		}
	}
	run := r.newPromptRun(ctx, req, to)
	err := run.admit(ctx)
	failed := (*prompt)(nil)
	if err == nil {
		if failed = run.serve(); failed != nil {
			err = failed.err
		}
	}
	for _, p := range run.all {
		if p.ended {
			continue
		}
		if p.err == nil {
			p.err = err
		}
		run.report(p)
	}
	billed, cost := run.total()
	sum := run.sum(err, billed)
	switch {
	case err == nil:
		if run.finish(billed, cost) != nil {
			sum.Err = clientGone()
		}
	case failed != nil:
		run.fail(failed, sum, billed, cost)
	}
	return sum, billed
}

// newPromptRun makes each prompt a request of its own. Usage and cost of the answer are shown once, for all.
func (r *Runner) newPromptRun(ctx context.Context, req *Request, to Merged) *promptRun {
	run := &promptRun{runner: r, req: req, to: to, all: make([]*prompt, 1+len(req.More))}
	run.merge = rewrite.NewMerge(req.ID, len(run.all), req.Answer.Choices,
		req.Answer.ShowUsage || req.Answer.ShowCost)
	for i := range run.all {
		p := &req.Prompt
		if i > 0 {
			p = &req.More[i-1]
		}
		m := r.newModelAttempt(ctx, req, p, to.Part(i))
		m.merge, m.part = run.merge, i
		m.answer.ShowUsage, m.answer.ShowCost = false, false
		run.all[i] = &prompt{modelAttempt: m}
	}
	return run
}

// admit asks for leave for all prompts. The longest comes first, because the router says whether any provider
// takes it, so that a refused client costs no more than with one prompt. A prompt that lacks only a place is
// admitted later.
func (run *promptRun) admit(ctx context.Context) error {
	longest := run.longest()
	longest.admittedAt = run.runner.Clock.Now()
	longest.grant, longest.err = run.runner.Admission.Admit(ctx, &longest.asks)
	if longest.found = longest.err == nil; longest.found {
		var others sync.WaitGroup
		for _, p := range run.all {
			if p == longest {
				continue
			}
			p.admittedAt = run.runner.Clock.Now()
			others.Go(func() { p.grant, p.err = run.runner.Admission.Hold(ctx, &p.asks) })
		}
		others.Wait()
	}
	errs := make([]error, len(run.all))
	var rate *billingv1.RateLimit
	for i, p := range run.all {
		if p.admitted() {
			p.holdLease()
			if left := p.grant.Terms.GetRequests(); rate == nil || left.GetRemaining() < rate.GetRemaining() {
				rate = left
			}
		}
		errs[i] = p.err
	}
	if rate != nil {
		run.to.Admitted(rate, longest.grant.Terms.GetBillingType())
	}
	at, err := admission.Foremost(errs)
	if err == nil || longest.found && run.all[at].waits() {
		return nil
	}
	err = run.all[at].unserved(err)
	run.to.Refused(err)
	return err
}

// longest returns the prompt that needs the largest window.
func (run *promptRun) longest() *prompt {
	return slices.MaxFunc(run.all, func(a, b *prompt) int { return cmp.Compare(a.asks.WindowTokens, b.asks.WindowTokens) })
}

// rank orders prompts: a prompt with candidates comes first, and a prompt without a hold last.
func (p *prompt) rank() int {
	switch {
	case p.found:
		return 0
	case p.admitted():
		return 1
	}
	return 2
}

// serve runs the prompts, a few at a time, and fewer while there is no room for more. When none is under way
// any more it returns the first that failed.
func (run *promptRun) serve() (failed *prompt) {
	queue := slices.SortedStableFunc(slices.Values(run.all),
		func(a, b *prompt) int { return cmp.Compare(a.rank(), b.rank()) })
	width, under, ends := maxPromptsAtOnce, 0, 0
	ended := make(chan *prompt)
	for {
		for under < width && len(queue) > 0 && failed == nil {
			p := queue[0]
			queue, under, p.after = queue[1:], under+1, ends
			go func() {
				defer func() { ended <- p }()
				p.run()
			}()
		}
		if under == 0 {
			return failed
		}
		p := <-ended
		under--
		// The end of another prompt that the waiting one did not see may have made room meanwhile.
		if failed == nil && (under > 0 || ends > p.after) && p.waits() {
			width, queue = max(under, 1), append([]*prompt{p}, queue...)
			continue
		}
		p.ended, ends = true, ends+1
		run.report(p)
		if p.err != nil && failed == nil {
			failed = p
		}
	}
}

// run finds the candidates of a prompt and runs it on them.
func (p *prompt) run() {
	defer func() {
		if r := recover(); r != nil {
			p.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			p.grant.Held, p.result = false, Result{} // what became of it is for others to find out
		}
	}()
	if p.err = p.find(); p.err != nil {
		p.err = p.unserved(p.err)
		return
	}
	p.found, p.served, p.beganAt = true, true, p.runner.Clock.Now()
	p.runner.Metrics.open.Add(p.client, 1)
	defer p.runner.Metrics.open.Add(context.WithoutCancel(p.client), -1)
	p.note(p.serve())
	p.fail()
	p.result.Bytes = p.out.bytes
	p.err = p.result.Err
	p.count()
}

// find makes sure that a prompt has a hold and candidates.
func (p *prompt) find() (err error) {
	switch {
	case !p.admitted():
		p.admittedAt = p.runner.Clock.Now()
		p.grant, err = p.runner.Admission.Admit(p.client, &p.asks)
		if p.admitted() {
			p.holdLease()
		}
	case !p.found:
		p.grant, err = p.runner.Admission.Select(p.client, &p.asks, p.grant.Terms)
	}
	return err
}

// report reports a prompt that may have a hold. The report names the next prompt.
func (run *promptRun) report(p *prompt) {
	if p.lease != nil {
		run.runner.Leases.End(p.lease)
	}
	if !p.served {
		run.runner.Admission.ReleaseSlot(p.client, &p.asks, p.grant.Candidates)
		p.result = Result{Err: p.err, Route: routeOf(run.req.Pin)}
	}
	if !p.grant.Held {
		return
	}
	next := ""
	if p.part+1 < len(run.all) {
		next = run.all[p.part+1].id
	}
	p.reportLater(next)
}

// total returns what is billed of all answers that were served.
func (run *promptRun) total() (usage rewrite.Usage, cost money.NanoUSD) {
	for _, p := range run.all {
		if billed := p.result.Usage; billed != nil {
			usage.Prompt += billed.GetBillablePromptTokens()
			usage.Completion += billed.GetBillableCompletionTokens()
			cost += charge(p.grant.Terms, billed)
		}
	}
	if run.req.Answer.ShowCost {
		usage.Cost = cost.String()
	}
	return usage, cost
}

// sum returns the outcome of all prompts together, for the log and for a repeat with the same
// Idempotency-Key: an answer that failed is billed when one of its prompts is.
func (run *promptRun) sum(err error, billed rewrite.Usage) Result {
	sum := Result{Err: err}
	for _, p := range run.all {
		r := &p.result
		sum.Held = sum.Held || p.grant.Held
		sum.Attempts = append(sum.Attempts, r.Attempts...)
		if r.Committed != 0 && !r.Lapsed {
			sum.Committed = r.Committed
		}
		if r.Served != nil && sum.Served == nil {
			sum.Served = r.Served
		}
		sum.Tokens += r.Tokens
		sum.Bytes += r.Bytes
		if r.FirstContent > 0 && (sum.FirstContent == 0 || r.FirstContent < sum.FirstContent) {
			sum.FirstContent = r.FirstContent
		}
	}
	if err == nil {
		sum.Usage = &hubv1.DispatchFinished{
			BillablePromptTokens: billed.Prompt, BillableCompletionTokens: billed.Completion,
		}
	}
	return sum
}

// finish ends the answer of prompts that were all served, with what is billed of them together. Its error is
// that of writing to the client.
func (run *promptRun) finish(billed rewrite.Usage, cost money.NanoUSD) error {
	if run.req.Answer.Stream {
		var usage *rewrite.Event
		if run.req.Answer.ShowUsage || run.req.Answer.ShowCost {
			usage = &rewrite.Event{JSON: run.merge.UsageEvent(billed)}
		}
		return run.to.Whole(Whole{}, usage)
	}
	return run.to.Whole(Whole{
		ContentType: rewrite.TypeJSON, Body: run.merge.Whole(billed), Cost: cost.String(), Latency: run.all[0].since(),
	}, nil)
}

// fail ends the answer with the error of a prompt, and with the answers of the others.
func (run *promptRun) fail(p *prompt, sum Result, billed rewrite.Usage, cost money.NanoUSD) {
	a := apierror.Of(p.err)
	a.Message = fmt.Sprintf("prompt[%d]: %s", p.part, a.Message)
	if sum.Committed != 0 {
		a.Final = true // another try would be billed again
	}
	run.to.FailPart(PartFailure{
		Part: p.part, Answer: a, Choices: run.merge.Choices(), Usage: billed.Object(), Cost: cost.String(),
	})
}
