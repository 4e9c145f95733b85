package httpapi

import (
	"context"
	"log/slog"
	"strings"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/idempotency"
)

// replayedHeader marks an answer that was given before.
const replayedHeader = "Idempotency-Replayed"

// once runs serve if no other request has or had the claim. Otherwise it gives the answer
// or the error of that request. The ask has the token and the size of the body. A request
// with an Idempotency-Key is never run without the claim.
func (h *Handler) once(
	x *exchange, who *auth.Principal, ask idempotency.Ask, body []byte, serve func() error,
) error {
	ctx := x.request.Context()
	apiKey, err := auth.Credential(x.request.Header)
	if err != nil {
		return err
	}
	ask.KeyID, ask.APIKey, ask.RequestID, ask.ReceivedAt = who.KeyID, apiKey, x.id, x.started
	ask.Content = idempotency.Content(x.route.pattern, x.request.Header.Get("Content-Type"), body)
	claim, kept, err := h.Idempotency.Take(ctx, ask)
	switch {
	case err != nil:
		return err
	case kept != nil:
		return h.replay(x, kept)
	}
	held, release := claim.Hold(ctx)
	defer release()
	x.claim = claim
	heard := &tape{}
	x.tape, x.request = heard, x.request.WithContext(held)
	err = serve()
	x.tape = nil // an error is not kept
	h.sendOff(x, err)
	release()
	h.endClaim(ctx, x, claim, heard)
	return err
}

// sendOff sends the client its answer, also an error, before the claim is ended, because
// ending it may take long. A repeat waits meanwhile.
func (h *Handler) sendOff(x *exchange, err error) {
	if err != nil {
		h.tell(x, err)
	}
	if x.status != 0 && x.status != apierror.StatusClientClosed {
		_ = x.control.Flush() // a client that left is nobody's fault
	}
}

// endClaim ends the claim by how the request ended.
func (h *Handler) endClaim(ctx context.Context, x *exchange, claim *idempotency.KeyClaim, heard *tape) {
	answer := heard.answer()
	switch r := x.result; {
	case r.Committed == 0 && r.Usage == nil, r.Lapsed:
		claim.Finish(ctx, idempotency.Forgotten, nil)
	case r.Usage != nil && answer != nil:
		claim.Finish(ctx, idempotency.Kept, answer)
	default:
		claim.Finish(ctx, idempotency.NotKept, nil)
	}
}

// replay gives the kept answer again, under the id of the request that was answered then.
func (h *Handler) replay(x *exchange, kept *idempotency.Answer) error {
	header := x.Header()
	for name := range header {
		if strings.HasPrefix(name, ownPrefix) {
			header.Del(name)
		}
	}
	for name, values := range kept.Header {
		header[name] = values
	}
	header.Set(replayedHeader, "true")
	x.facts = append(x.facts, slog.String("replays", kept.RequestID))
	h.answer(x, kept.Status, kept.Body)
	return nil
}
