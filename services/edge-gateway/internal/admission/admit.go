package admission

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

type selection struct {
	resp *routerv1.SelectResponse
	err  error
}

// Admit asks for the hold of a request and selects its candidates. The grant has what is
// known even beside an error.
func (a *Admitter) Admit(ctx context.Context, r *Request) (Grant, error) {
	ask := a.askBoth
	if a.cfg.RouterInProcess {
		ask = a.askInTurn
	}
	terms, s, admitErr := ask(ctx, r)
	grant := Grant{Terms: terms, Held: admitErr == nil || uncertain(admitErr)}
	if admitErr == nil {
		admitErr = r.Prefer.afford(terms)
	}
	if err := earlier(apierror.OfPeer(admitErr), inOurWords(s.err, r)); err != nil {
		a.ReleaseSlot(ctx, r, s.resp.GetCandidates())
		return grant, err
	}
	return granted(grant, s.resp, nil)
}

// askBoth asks billing-ledger and the router at the same time, because each is a network
// away. The error is billing-ledger's.
func (a *Admitter) askBoth(ctx context.Context, r *Request) (*billingv1.AdmitResponse, selection, error) {
	selectCtx, cancel := context.WithTimeout(ctx, a.cfg.SelectTimeout)
	defer cancel()
	selected := make(chan selection, 1)
	go func() {
		resp, err := a.router.Select(selectCtx, a.selectRequest(r, r.Pin.ProviderID, nil))
		selected <- selection{resp, err}
	}()
	terms, err := a.admitWithPlace(ctx, r)
	if err != nil {
		grace := time.AfterFunc(a.cfg.SelectGrace, cancel)
		defer grace.Stop()
	}
	return terms, <-selected, err
}

// askInTurn asks billing-ledger, and then the router that shares the process. The router
// answers from memory in less time than a second goroutine takes to start, and no slot is
// booked while billing-ledger decides. The router is asked even when billing-ledger has
// refused, because its refusal may take precedence. The error is billing-ledger's.
func (a *Admitter) askInTurn(ctx context.Context, r *Request) (*billingv1.AdmitResponse, selection, error) {
	terms, err := a.admitWithPlace(ctx, r)
	req, limit := a.selectRequest(r, r.Pin.ProviderID, nil), a.cfg.SelectTimeout
	if err == nil {
		req.Priority = terms.GetPriority()
	} else {
		limit = min(limit, a.cfg.SelectGrace)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, selectErr := a.router.Select(ctx, req)
	return terms, selection{resp, selectErr}, err
}

// Hold asks for the hold of a request whose candidates Select finds later. The grant has
// what is known even beside an error.
func (a *Admitter) Hold(ctx context.Context, r *Request) (Grant, error) {
	terms, err := a.admitWithPlace(ctx, r)
	grant := Grant{Terms: terms, Held: err == nil || uncertain(err)}
	if err == nil {
		err = r.Prefer.afford(terms)
	}
	return grant, apierror.OfPeer(err)
}

// Select finds the candidates of a request that was admitted on these terms.
func (a *Admitter) Select(ctx context.Context, r *Request, terms *billingv1.AdmitResponse) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.SelectTimeout)
	defer cancel()
	req := a.selectRequest(r, r.Pin.ProviderID, nil)
	req.Priority = terms.GetPriority()
	resp, err := a.router.Select(ctx, req)
	return granted(Grant{Terms: terms, Held: true}, resp, inOurWords(err, r))
}

// Reselect asks for further candidates, without the providers that have failed. It asks
// for no pin, because the pinned provider has been tried by then. It also returns what the
// router passed over.
func (a *Admitter) Reselect(ctx context.Context, r *Request, failed []string) (
	[]*routerv1.Candidate, []*routerv1.RejectCount, error,
) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.SelectTimeout)
	defer cancel()
	resp, err := a.router.Select(ctx, a.selectRequest(r, "", failed))
	return resp.GetCandidates(), resp.GetPassedOver(), err
}

// ReleaseSlot gives back the slot that Select booked on the first of these candidates
// for a request that does not run, so that a flood of refused requests makes no
// provider look busy.
func (a *Admitter) ReleaseSlot(ctx context.Context, r *Request, candidates []*routerv1.Candidate) {
	if len(candidates) == 0 {
		return
	}
	c := candidates[0]
	a.releaseSlot(ctx, &eventsv1.Attempt{
		RequestId: r.ID, ModelId: r.ModelID,
		ProviderId: c.GetProviderId(), NodeId: c.GetNodeId(), Epoch: c.GetEpoch(),
		Outcome: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED,
	})
}

// Contended reports whether a request of a key was lately refused because it found no
// place. The end of the key's next request is then to be reported at once.
func (a *Admitter) Contended(keyID string) bool {
	return a.places.isContended(keyID)
}

// admitWithPlace asks for the hold of a request. When the request finds no place, it is
// tried again after each of placeWaits.
func (a *Admitter) admitWithPlace(ctx context.Context, r *Request) (*billingv1.AdmitResponse, error) {
	terms, err := a.hold(ctx, r)
	if a.cfg.FlushReports == nil || !fault.Is(err, fault.ConcurrencyLimitExceeded) || !a.places.enter(r.KeyID) {
		return terms, err
	}
	defer a.places.leave(r.KeyID)
	for _, wait := range placeWaits {
		if clock.Sleep(ctx, wait) != nil {
			break
		}
		a.flushReports(ctx)
		if terms, err = a.hold(ctx, r); !fault.Is(err, fault.ConcurrencyLimitExceeded) {
			break
		}
	}
	return terms, err
}

func (a *Admitter) flushReports(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	a.cfg.FlushReports(ctx)
}

func (a *Admitter) hold(ctx context.Context, r *Request) (*billingv1.AdmitResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.AdmitTimeout)
	defer cancel()
	return a.admit(ctx, &billingv1.AdmitRequest{
		RequestId:           r.ID,
		KeyId:               r.KeyID,
		ModelId:             r.ModelID,
		PromptTokens:        r.Bounds.HoldPromptTokens,
		MaxCompletionTokens: r.Bounds.HoldCompletionTokens,
		Pinned:              choosesProvider(r.Pin, &r.Prefer),
		CarriesTicket:       !r.Claimed,
	})
}

// admit asks billing-ledger for a hold: the owner of the account's slice, or any replica where the owner is not
// known, not connected, or does not decide.
func (a *Admitter) admit(ctx context.Context, req *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	resp, err := a.admitByOwner(ctx, req)
	if resp == nil && err == nil || undecided(err) && ctx.Err() == nil {
		a.owners.learn(req.GetKeyId(), "")
		resp, err = a.ledger.Admit(ctx, req)
	}
	if err == nil {
		a.owners.learn(req.GetKeyId(), resp.GetOwnerAddress())
	}
	return resp, err
}

// admitByOwner asks the owner. It returns nothing where there is none to ask.
func (a *Admitter) admitByOwner(ctx context.Context, req *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	address := a.owners.find(req.GetKeyId())
	if address == "" || a.cfg.Ledger == nil {
		return nil, nil
	}
	ledger, ok := a.cfg.Ledger(address)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ownerTime)
	defer cancel()
	return ledger.Admit(ctx, req)
}

func (a *Admitter) selectRequest(r *Request, pin string, failed []string) *routerv1.SelectRequest {
	return &routerv1.SelectRequest{
		RequestId:            r.ID,
		ModelId:              r.ModelID,
		AccountTag:           r.AccountTag,
		Priority:             r.Priority,
		PromptTokens:         r.WindowTokens,
		ExplicitMaxTokens:    r.ExplicitMaxTokens,
		BodyBytes:            r.BodyBytes,
		RequiredCapabilities: r.Capabilities,
		PinnedProviderId:     pin,
		AllowFallbacks:       r.Pin.AllowFallbacks,
		NearHubId:            a.cfg.NearHubID,
		ExcludeProviderIds:   failed,
		Preferences:          r.Prefer.toProto(),
	}
}

// granted adds the router's answer to a grant.
func granted(grant Grant, resp *routerv1.SelectResponse, err error) (Grant, error) {
	switch {
	case err != nil:
		return grant, err
	case len(resp.GetCandidates()) == 0:
		return grant, fault.New(fault.Unavailable, fault.NoProviderOnline, "No provider is online for this model.")
	}
	grant.Candidates, grant.Fallback = resp.GetCandidates(), resp.GetFallbackReason()
	grant.PassedOver = resp.GetPassedOver()
	grant.UsualFirstContentMs, grant.SingleAttempt = resp.GetUsualFirstContentMs(), resp.GetSingleAttempt()
	return grant, nil
}

// uncertain reports whether a hold may exist although Admit failed: its answer
// may have been lost on the way.
func uncertain(err error) bool {
	f, ok := fault.As(err)
	if !ok {
		return true
	}
	switch f.Kind {
	case fault.Internal, fault.Timeout, fault.Canceled, fault.Unavailable:
		return true // concluding a request that has no hold changes nothing
	default:
		return false
	}
}

// inOurWords adds the numbers that the client needs to a refusal by the router.
func inOurWords(err error, r *Request) error {
	f, ok := fault.As(err)
	if !ok || f.Reason != fault.ContextLengthExceeded {
		return apierror.OfPeer(err)
	}
	window := f.Meta["max_context_length"]
	if _, err := strconv.ParseInt(window, 10, 64); err != nil {
		window = "unknown"
	}
	message := fmt.Sprintf("The largest context window online for this model is %s tokens. "+
		"The prompt has about %d tokens", window, r.WindowTokens)
	if r.ExplicitMaxTokens > 0 {
		message += fmt.Sprintf(" and %s asks for %d", r.MaxTokensParam, r.ExplicitMaxTokens)
	}
	return fault.New(fault.Invalid, fault.ContextLengthExceeded, "%s.", message).On(r.PromptParam)
}
