package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/inference"
)

// A legacy completion with several prompts is as many requests, one for each
// prompt: each has an id, a hold, a place, a unit of the rate and a receipt, which
// names that of the next. All are admitted before the first is sent anywhere, so
// an account that cannot pay for all of them is refused before anything is served.
// Where only the places are too few, those without one are admitted when another
// has ended, so a client with a single place is served too.
//
// The answer is that of all prompts, or an error. After a prompt has failed no
// further one is begun. Those under way go on to their end, because their work is
// lost otherwise: whoever makes one prompt fail would have that of the others for
// nothing. What was answered is billed, and the client gets it beside the error.

// promptsAtOnce is how many prompts of one request run at a time.
const promptsAtOnce = 4

// requestIDs names the requests of all prompts, in their order.
const requestIDs = "X-Svc-Request-Ids"

// prompt is one of several prompts of a request.
type prompt struct {
	call    *inference.Call
	at      int // among the prompts
	grant   admission.Grant
	began   time.Time // when admission was asked for
	running *inference.Lease
	found   bool // it has candidates
	served  bool // it was run on its candidates
	ended   bool // and reported
	after   int  // how many prompts had ended when it was begun
	err     error
	result  inference.Result
}

// admitted reports whether the prompt has a hold on known terms.
func (p *prompt) admitted() bool { return p.grant.Terms != nil }

// waits reports whether the prompt could not begin for want of a place or of a
// provider with room, which the end of another prompt may mend.
func (p *prompt) waits() bool {
	return !p.served && (fault.Is(p.err, fault.ConcurrencyLimitExceeded) && !p.admitted() || fault.Is(p.err, fault.ProvidersBusy))
}

// runAll serves the calls of one request with several prompts.
func (h *Handler) runAll(x *exchange, calls []*inference.Call) error {
	ctx := x.request.Context()
	if err := sure(ctx, x); err != nil {
		return err
	}
	x.choices = nil // which model serves is decided for all prompts at once
	prompts, names := make([]*prompt, len(calls)), make([]string, len(calls))
	for i, call := range calls {
		prompts[i], names[i] = &prompt{call: call, at: i}, call.RequestID
	}
	x.Header().Set(requestIDs, strings.Join(names, ","))
	x.facts = append(x.facts, slog.Int("prompts", len(prompts)))
	merge := h.Engine.NewMerge(x, calls)
	err := h.admitAll(x, prompts)
	failed := (*prompt)(nil)
	if err == nil {
		if failed = h.serveAll(x, prompts); failed != nil {
			err = failed.err
		}
	}
	for _, p := range prompts {
		if p.ended {
			continue
		}
		if p.err == nil {
			p.err = err
		}
		h.reportOne(x, prompts, p)
	}
	x.sumUp(prompts, err)
	if err == nil {
		if merge.End(resultsOf(prompts), h.Clock.Now().Sub(x.started)) != nil {
			return fault.New(fault.Canceled, fault.ClientClosed, "The client closed the request.")
		}
		return nil
	}
	if failed == nil {
		return err
	}
	if !x.Begun() {
		failed.call.Part.CopyHeaders()
	}
	if a := apierror.Of(err); a.Status != apierror.StatusClientClosed {
		a.Message = fmt.Sprintf("prompt[%d]: %s", failed.at, a.Message)
		if x.result.Committed != 0 {
			a.Final = true // another try would be billed again
		}
		h.setWriteDeadline(x)
		merge.Fail(resultsOf(prompts), a, x.id)
	}
	return err
}

// admitAll asks for leave for all prompts: first for the longest, of which the
// router says whether any provider takes it, so that a refused client costs no more
// than with one prompt. A prompt that lacks a place only is admitted later.
func (h *Handler) admitAll(x *exchange, prompts []*prompt) error {
	ctx, longest := x.request.Context(), longestOf(prompts)
	longest.began = h.Clock.Now()
	longest.grant, longest.err = h.Gate.Admit(ctx, &longest.call.Order)
	if longest.found = longest.err == nil; longest.found {
		var others sync.WaitGroup
		for _, p := range prompts {
			if p == longest {
				continue
			}
			p.began = h.Clock.Now()
			others.Go(func() { p.grant, p.err = h.Gate.Hold(ctx, &p.call.Order) })
		}
		others.Wait()
	}
	errs := make([]error, len(prompts))
	var rate *billingv1.RateLimit
	for i, p := range prompts {
		if p.admitted() {
			h.lease(p)
			if left := p.grant.Terms.GetRequests(); rate == nil || left.GetRemaining() < rate.GetRemaining() {
				rate = left
			}
		}
		errs[i] = p.err
	}
	if rate != nil {
		x.setRate(rate)
		inference.SetBillingType(x.Header(), longest.grant.Terms.GetBillingType())
	}
	at, err := admission.Foremost(errs)
	if err == nil || longest.found && prompts[at].waits() {
		return nil
	}
	err = h.unserved(prompts[at].call.Order.ModelID, err)
	if left := leftBy(err); left != nil {
		x.setRate(left)
	}
	return err
}

// longestOf is the prompt that needs the largest window.
func longestOf(prompts []*prompt) *prompt {
	return slices.MaxFunc(prompts, func(a, b *prompt) int {
		return cmp.Compare(a.call.Order.WindowTokens, b.call.Order.WindowTokens)
	})
}

// lease keeps the hold of a prompt until it is reported.
func (h *Handler) lease(p *prompt) {
	if p.running != nil {
		return
	}
	lease := time.Duration(p.grant.Terms.GetLeaseMs()) * time.Millisecond
	h.Leases.SetLeaseDuration(lease)
	p.running = h.Leases.Begin(p.call.RequestID, p.began, lease)
}

// serveAll runs the prompts, a few at a time: fewer while there is no room for
// more. The prompt with candidates goes first, and those without a hold come last.
// It returns the first that failed, when none is under way any more.
func (h *Handler) serveAll(x *exchange, prompts []*prompt) (failed *prompt) {
	rank := func(p *prompt) int {
		switch {
		case p.found:
			return 0
		case p.admitted():
			return 1
		}
		return 2
	}
	queue := slices.SortedStableFunc(slices.Values(prompts), func(a, b *prompt) int { return cmp.Compare(rank(a), rank(b)) })
	width, under, ends := promptsAtOnce, 0, 0
	ended := make(chan *prompt)
	for {
		for under < width && len(queue) > 0 && failed == nil {
			p := queue[0]
			queue, under, p.after = queue[1:], under+1, ends
			go func() {
				defer func() { ended <- p }()
				h.serveOne(x, p)
			}()
		}
		if under == 0 {
			return failed
		}
		p := <-ended
		under--
		// The end of another that it did not see may have made room meanwhile.
		if failed == nil && (under > 0 || ends > p.after) && p.waits() {
			width, queue = max(under, 1), append([]*prompt{p}, queue...)
			continue
		}
		p.ended, ends = true, ends+1
		h.reportOne(x, prompts, p)
		if p.err != nil && failed == nil {
			failed = p
		}
	}
}

// serveOne finds the candidates of a prompt and runs it.
func (h *Handler) serveOne(x *exchange, p *prompt) {
	defer func() {
		if r := recover(); r != nil {
			p.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			p.grant.Held = false // what became of it is for others to find out
		}
	}()
	ctx, call := x.request.Context(), p.call
	switch {
	case !p.admitted():
		p.began = h.Clock.Now()
		p.grant, p.err = h.Gate.Admit(ctx, &call.Order)
		if p.admitted() {
			h.lease(p)
		}
	case !p.found:
		p.grant, p.err = h.Gate.Select(ctx, &call.Order, p.grant.Terms)
	}
	if p.err != nil {
		p.err = h.unserved(call.Order.ModelID, p.err)
		return
	}
	p.found, p.served = true, true
	call.Grant, call.Running, call.BeganAt = p.grant, p.running, h.Clock.Now()
	call.Again = func(ctx context.Context, failed []string) ([]*routerv1.Candidate, error) {
		return h.Gate.Reselect(ctx, &call.Order, failed)
	}
	h.Metrics.open.Add(ctx, 1)
	defer h.Metrics.open.Add(context.WithoutCancel(ctx), -1)
	p.result = h.Engine.Serve(x, x.request, call)
	p.err = p.result.Err
	h.Metrics.completion(ctx, call.Endpoint, &p.result)
}

// reportOne gives billing-ledger the gateway's account of a prompt that may have a
// hold. The receipt of each prompt names that of the next.
func (h *Handler) reportOne(x *exchange, prompts []*prompt, p *prompt) {
	if p.running != nil {
		h.Leases.End(p.running)
	}
	if !p.served {
		h.Gate.ReleaseSlot(x.request.Context(), &p.call.Order, p.grant.Candidates)
		p.result = inference.Result{Err: p.err, Route: inference.RouteOf(p.call.Order.Pin)}
	}
	if !p.grant.Held {
		return
	}
	w := h.account(x, p.call, p.result)
	if next := p.at + 1; next < len(prompts) {
		w.ContinuedAs = prompts[next].call.RequestID
	}
	h.Witness.Add(w)
	if h.Gate.Contended(p.call.Order.KeyID) {
		h.Witness.Hurry()
	}
}

// sumUp notes what became of all prompts together, for the log and for whoever
// asks again with the same Idempotency-Key: an answer that failed is billed when
// one of its prompts is.
func (x *exchange) sumUp(prompts []*prompt, err error) {
	sum := inference.Result{Err: err, Begun: x.Begun()}
	usage, attempts := &hubv1.DispatchFinished{}, 0
	for _, p := range prompts {
		r := p.result
		attempts += len(r.Attempts)
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
		usage.BillablePromptTokens += r.Usage.GetBillablePromptTokens()
		usage.BillableCompletionTokens += r.Usage.GetBillableCompletionTokens()
	}
	if err == nil {
		sum.Usage = usage
	}
	x.result = sum
	x.facts = append(x.facts,
		slog.Int("attempts", attempts),
		slog.Int64("completion_tokens", sum.Tokens),
		slog.Int64("billed_prompt_tokens", usage.GetBillablePromptTokens()),
		slog.Int64("billed_completion_tokens", usage.GetBillableCompletionTokens()))
}

func resultsOf(prompts []*prompt) []inference.Result {
	results := make([]inference.Result, len(prompts))
	for i, p := range prompts {
		results[i] = p.result
	}
	return results
}
