package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/openai"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
)

// maxErrorBody bounds the body of an error that is read.
const maxErrorBody = 64 << 10

// askHidden asks as a consumer does.
func (p *passage) askHidden(ctx context.Context) error {
	key, err := p.Keys.Choose(p.rec.Plan.ID)
	if err != nil {
		return &GiveBack{NoAccount, err}
	}
	answered, cancel := within(ctx, p.patience())
	defer cancel()
	path := "/v1/chat/completions"
	if p.rec.Plan.Kind == probe.Embedding {
		path = "/v1/embeddings"
	}
	resp, err := p.Edge.post(answered, path, p.rec.Request, key, p.rec.Plan.Offer.Provider, p.rec.Plan.Streamed)
	switch {
	case err == nil:
	case ctx.Err() == nil && answered.Err() != nil:
		return nil // nobody knows whose time it took: the record has no answer, and proves nothing
	default:
		return &GiveBack{PlatformDown, err}
	}
	defer resp.Body.Close() // an answer that was read to its end leaves the connection for the next
	request := requestID(resp.Header)
	p.rec.Answer = judge.Answer{
		RequestID: request, Served: servedBy(resp.Header), Status: resp.StatusCode,
	}
	if resp.StatusCode != http.StatusOK {
		if resp.StatusCode == http.StatusUnauthorized {
			p.Keys.Refused(key)
		}
		return p.refusal(resp)
	}
	if err := p.takeHidden(resp); err != nil {
		return err
	}
	crash.At("verifier.probe.answered")
	return p.claim(ctx, request)
}

// takeHidden reads an answer.
func (p *passage) takeHidden(resp posted) error {
	body, err := plain(resp.Body, resp.Header.Get("Content-Encoding"))
	if errors.Is(err, errEncoding) {
		return &GiveBack{PlatformDown, err}
	}
	streamed := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	c := newCapture(resp.began, clock.System.Now, min(answerBytes(p.rec.Plan), p.room()), streamed,
		p.rec.Plan.HangUp)
	if err == nil {
		err = c.read(body)
	}
	// An answer that breaks off is in the record: asking again would show a provider that
	// it is watched.
	a := &p.rec.Answer
	a.Raw, a.Chunks = c.raw, c.chunks
	a.Complete, a.Failed, a.Cut = err == nil && c.whole(), c.failed(), c.cut(err)
	p.left = c.left && !c.over
	return nil
}

// claim waits for what the engine claimed. Without a usage event the probe says nothing of
// usage, and all else.
func (p *passage) claim(ctx context.Context, request string) error {
	id, err := ids.ParseRequest(request)
	if a := p.rec.Answer; err != nil || !a.Complete || a.Served != p.rec.Plan.Offer.Provider.String() {
		return nil
	}
	waited, cancel := within(ctx, p.cfg.ClaimTimeout)
	defer cancel()
	claim, err := p.Claims.Wait(waited, id)
	if err != nil {
		return ctx.Err()
	}
	a := &p.rec.Answer
	a.Claimed, a.ClaimedPrompt, a.ClaimedOutput = claim.Valid, claim.Prompt, claim.Output
	return nil
}

// refusal reads what the edge says instead of an answer, and decides whose fault it is.
func (p *passage) refusal(resp posted) error {
	body, err := plain(resp.Body, resp.Header.Get("Content-Encoding"))
	var raw []byte
	if err == nil {
		raw, _ = io.ReadAll(io.LimitReader(body, maxErrorBody)) // a part names its code or does not
	}
	said := openai.ParseError(raw)
	p.rec.Answer.Raw = raw
	status, code := resp.StatusCode, said.Code
	why := fmt.Errorf("the edge answered %d %s", status, shown(code))
	a := &p.rec.Answer
	refusedByEngine := status >= 400 && status < 500 && a.Served == p.rec.Plan.Offer.Provider.String()
	switch {
	case refusedByEngine:
		a.TooLong = tooLong(status, raw)
		return nil
	case status == http.StatusTooManyRequests:
		return &GiveBack{Limited, why}
	case slices.Contains(ourFault, status):
		return &GiveBack{NoAccount, why}
	case status >= 500 && providerFailed(code) && (status != http.StatusGatewayTimeout || attempted(resp.Header)):
		a.Failed, a.Served = true, p.rec.Plan.Offer.Provider.String()
		return nil
	case code == string(fault.RequestedProviderUnavailable), code == string(fault.NoProviderOnline),
		code == string(fault.ProvidersBusy):
		return &Void{Unavailable, why}
	case status >= 500, status < 400, status == http.StatusRequestTimeout:
		return &GiveBack{PlatformDown, why}
	case tooLong(status, raw):
		return &Void{TooLongForEdge, why}
	default:
		return &Void{BadPlan, why}
	}
}

// shown is a code as errors hold it. An engine's own code may hold anything.
func shown(code string) string {
	if len(code) > 64 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "with a code that is none of ours"
	}
	return code
}

// ourFault are the statuses of an account or a key that cannot be used now.
var ourFault = []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden}

// attempted reports whether the gateway tried the provider.
func attempted(h http.Header) bool {
	n := h.Get("X-Svc-Attempts")
	return n != "" && n != "0"
}

// requestID returns the request's id, or nothing where it is none of ours.
func requestID(h http.Header) string {
	id, err := ids.ParseRequest(h.Get("X-Svc-Request-Id"))
	if err != nil {
		return ""
	}
	return id.String()
}

// servedBy returns the provider that served.
func servedBy(h http.Header) string {
	id, err := ids.ParseProvider(h.Get("X-Svc-Provider-Id"))
	if err != nil {
		return ""
	}
	return id.String()
}
