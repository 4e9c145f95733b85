package httpapi

import (
	"bytes"
	"net/http"

	"svc.internal/services/edge-gateway/internal/cardapi"
)

const (
	webhookPath   = "/webhooks/card"
	sandboxPrefix = "/sandbox/checkout/"
	sandboxOf     = sandboxPrefix + "{session}"
)

var getOrPost = []string{http.MethodGet, http.MethodHead, http.MethodPost}

// cardWebhook serves POST /webhooks/card. The body is handed on byte for byte, because its
// signature is of bytes, and the answer is 200 once it is stored.
func (h *Handler) cardWebhook(x *exchange) error {
	if err := checkDeclared(x.request, cardapi.MaxWebhook); err != nil {
		return err
	}
	if err := checkEncoding(x.request.Header); err != nil {
		return err
	}
	defer h.freeBody(x)
	if err := h.readBody(x, cardapi.MaxWebhook); err != nil {
		return err
	}
	// The event is handed over, and the buffer of the body is used again.
	event := bytes.Clone(x.raw.Bytes())
	err := h.Cards.Receive(x.request.Context(), h.Addresses.Of(x.request), x.request.Header, event)
	if err != nil {
		return err
	}
	x.Header().Set("Cache-Control", "no-store")
	return h.json(x, []byte(`{"received":true}`))
}

// sandboxPage serves the pages of the sandbox: answers in HTML. The address of a
// page is the right to pay on it, so no other site learns the address.
func (h *Handler) sandboxPage(x *exchange) error {
	header := x.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	from := h.Addresses.Of(x.request)
	if x.request.Method == http.MethodPost {
		if err := checkDeclared(x.request, cardapi.MaxForm); err != nil {
			return err
		}
		defer h.freeBody(x)
		if err := h.readBody(x, cardapi.MaxForm); err != nil {
			return err
		}
		if err := h.Cards.Press(x.request.Context(), from, x.rest, x.raw.Bytes()); err != nil {
			return err
		}
		header.Set("Location", sandboxPrefix+x.rest)
		h.answer(x, http.StatusSeeOther, nil)
		return nil
	}
	text, err := h.Cards.Page(x.request.Context(), from, x.rest)
	if err != nil {
		return err
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", cardapi.Policy)
	h.answer(x, http.StatusOK, text)
	return nil
}
