package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/idempotency"
)

// replayedHeader marks an answer that was given before.
const replayedHeader = "Idempotency-Replayed"

// idempotent lets an endpoint whose bodies are JSON serve a request that is sent
// again with the same Idempotency-Key once. A request without one is served as
// ever; one with a key is never run without the claim.
//
// The body is read before the claim is made, since it is part of what the key
// stands for, and read again by the endpoint, which then frees it.
func idempotent(serve func(*Handler, *exchange) error) func(*Handler, *exchange) error {
	return func(h *Handler, x *exchange) error {
		if !idempotency.Given(x.request.Header) {
			return serve(h, x)
		}
		who, _, err := h.enter(x, h.cfg.MaxBody, checkForm)
		if err != nil {
			return err
		}
		token, err := idempotency.ParseToken(x.request.Header)
		if err != nil {
			return overrules(x, err, h.cfg.MaxBody)
		}
		body := h.buffers.get()
		again := &repeated{free: func() { h.buffers.put(body) }}
		defer again.release()
		if err := readBody(x, body, h.cfg.MaxBody); err != nil {
			return err
		}
		again.Reset(body.Bytes())
		ask := idempotency.Ask{Token: token, Holds: int64(body.Cap())}
		return h.once(x, who, ask, body.Bytes(), func(claimed *http.Request) error {
			claimed.Body, claimed.ContentLength = again, int64(body.Len())
			x.request = claimed
			return serve(h, x)
		})
	}
}

// once runs serve if nobody else has or had the claim, and otherwise says what
// became of it. The ask has the token and what the body holds.
func (h *Handler) once(x *exchange, who *auth.Principal, ask idempotency.Ask, body []byte, serve func(*http.Request) error) error {
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
	x.tape = heard
	err = serve(x.request.WithContext(held))
	x.tape = nil // an error is not kept
	h.sendOff(x, err)
	release()
	h.finish(ctx, x, claim, heard)
	return err
}

// sendOff lets the client have its answer, an error too, before the claim is
// ended: that may take long, and whoever asks again meanwhile waits.
func (h *Handler) sendOff(x *exchange, err error) {
	if err != nil {
		h.tell(x, err)
	}
	if x.Begun() && x.status != apierror.StatusClientClosed {
		_ = x.control.Flush() // a client that left is nobody's fault
	}
}

// finish ends the claim by what became of the request.
func (h *Handler) finish(ctx context.Context, x *exchange, claim *idempotency.KeyClaim, heard *tape) {
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

// replay gives the answer that was given before, as a part of the request that
// was answered then.
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
	header.Set("Content-Length", strconv.Itoa(len(kept.Body)))
	x.facts = append(x.facts, slog.String("replays", kept.RequestID))
	h.setWriteDeadline(x)
	x.WriteHeader(kept.Status)
	_, _ = x.Write(kept.Body) // a client that left is nobody's fault
	return nil
}

// repeated is a body that was read before. Whoever reads it to its end frees it.
type repeated struct {
	bytes.Reader
	free func()
}

// Read reads a part of the body.
func (r *repeated) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		r.release()
	}
	return n, err
}

// Close leaves the freeing to whoever keeps the body.
func (r *repeated) Close() error { return nil }

func (r *repeated) release() {
	if r.free != nil {
		r.Reset(nil)
		r.free()
		r.free = nil
	}
}
