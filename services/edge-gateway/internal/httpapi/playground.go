package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/origin"
	"svc.internal/services/edge-gateway/internal/playground"
)

// playgroundChat serves POST /v1/playground/chat: a short chat for a visitor of the site,
// without a key, paid for by the platform. Its steps have the order of a chat's, and the
// visit is counted right before admission, so that a request that is refused before it
// costs the visitor nothing.
func (h *Handler) playgroundChat(x *exchange) error {
	if err := sameOrigin(x); err != nil {
		return err
	}
	if err := checkDeclared(x.request, playground.MaxBody); err != nil {
		return err
	}
	if err := playground.Check(x.request.Header); err != nil {
		return err
	}
	if err := checkForm(x.request.Header); err != nil {
		return overrules(x.request, err, playground.MaxBody)
	}
	defer h.freeBody(x)
	if err := h.readBody(x, playground.MaxBody); err != nil {
		return err
	}
	body, err := h.checkVisit(x, x.raw.Bytes())
	if err != nil {
		return err
	}
	// Who pays is known once the visit is taken, and may use every model.
	req, err := h.prepare(x, chatCompletions, entered{who: &auth.Principal{}}, body)
	h.freeBody(x)
	if err != nil {
		return err
	}
	payer, left, err := h.Playground.Visit(x.request.Context(), h.Addresses.Of(x.request), x.request.Header)
	x.before = func(int) { setVisit(x.Header(), left) }
	if err != nil {
		return err
	}
	req.KeyID, req.AccountTag = payer.KeyID, payer.AccountTag
	return h.ofPlatform(h.run(x, req))
}

// sameOrigin refuses pages of other sites and callers that are no page.
func sameOrigin(x *exchange) error {
	if origin.Same(x.request) {
		return nil
	}
	return fault.New(fault.Denied, apierror.OriginNotAllowed,
		"The playground answers the pages of this site only. Use POST /v1/chat/completions with a key.").On("Origin")
}

// checkVisit refuses what is not given to visitors, and returns the body with the bound
// on its answer.
func (h *Handler) checkVisit(x *exchange, raw []byte) ([]byte, error) {
	req, err := openaiapi.Parse(openaiapi.Chat, raw)
	if err != nil {
		return nil, err
	}
	refuse := func(param, format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidValue, format, args...).On(param)
	}
	switch {
	case len(x.request.Header.Values(admission.ProviderHeader)) > 0:
		return nil, refuse(admission.ProviderHeader, "The playground chooses the provider.")
	case !reflect.ValueOf(req.Routing).IsZero():
		// A visitor who could choose a provider would earn from the platform by asking
		// itself.
		return nil, refuse("provider", "The playground chooses the provider.")
	case req.Stream:
		return nil, refuse("stream", "The playground does not stream.")
	case req.MaxTokens > playground.MaxOutputTokens:
		return nil, refuse(req.MaxTokensParam, "%s must be at most %d in the playground.",
			req.MaxTokensParam, playground.MaxOutputTokens)
	case req.Choices > 1:
		return nil, refuse("n", "The playground gives one answer.")
	case len(req.Models) > 0:
		return nil, refuse("models", "The playground asks one model.")
	}
	model, err := h.Catalog.Find(req.Model)
	if err != nil {
		return nil, err
	}
	if !h.Playground.Offers(model.ID) {
		return nil, fault.New(fault.NotFound, fault.ModelNotFound,
			"The playground does not have this model. GET /v1/playground/models lists those that it has.").On("model")
	}
	x.facts = append(x.facts, slog.Bool("playground", true))
	if req.MaxTokens > 0 {
		return raw, nil
	}
	return withMaxTokens(raw)
}

// withMaxTokens bounds the answer to a body without a bound. A null counts as absent and
// is replaced by the bound, because a name stands once.
func withMaxTokens(raw []byte) ([]byte, error) {
	const name = "max_tokens"
	bound := strconv.Itoa(playground.MaxOutputTokens)
	for member, err := range jsonscan.New(raw, jsonscan.Options{}).Members() {
		if err != nil {
			return nil, fmt.Errorf("scan a body that was parsed: %w", err)
		}
		if string(member.Key.Name(raw)) == name {
			return slices.Concat(raw[:member.Value.Start], []byte(bound), raw[member.Value.End:]), nil
		}
	}
	inside := raw[bytes.IndexByte(raw, '{')+1:] // what was parsed is an object
	return slices.Concat([]byte(`{"`+name+`":`+bound+`,`), inside), nil
}

// ofPlatform turns an error about the paying account's own means into the error for a
// visitor.
func (h *Handler) ofPlatform(err error) error {
	f, ok := fault.As(err)
	switch {
	case ok && f.Reason == fault.InsufficientCredits:
		// The budget had room when the visit was taken. Other visitors were faster, or this request may
		// cost more than what is left.
		now := h.Clock.Now().UTC()
		return playground.BudgetSpent(now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now))
	case ok && slices.Contains(platformsOwn, f.Reason):
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "The playground is closed for a while.")
	}
	return err
}

// platformsOwn are the reasons that are about who pays, besides what is left of the budget.
var platformsOwn = []fault.Reason{
	fault.PlanAllowanceExceeded, fault.AccountFrozen, fault.ModelNotAllowed, fault.RateLimitExceeded,
	fault.ConcurrencyLimitExceeded, fault.InvalidAPIKey, fault.KeyRevoked, fault.KeyExpired,
}

// playgroundModels serves GET /v1/playground/models, in the form of /v1/models. It opens
// the visitor's session, without which there is no chat. Where billing-ledger gives no session, the
// refusal says when to ask again, because a list of models that nobody answers would mislead.
func (h *Handler) playgroundModels(x *exchange) error {
	if err := sameOrigin(x); err != nil {
		return err
	}
	client := h.Addresses.Of(x.request)
	if err := h.Playground.CountList(client); err != nil {
		return err
	}
	list := struct {
		Object string            `json:"object"`
		Data   []json.RawMessage `json:"data"`
	}{Object: "list", Data: []json.RawMessage{}}
	for _, id := range h.Playground.Models() {
		object, err := h.Catalog.Object(id)
		if fault.Is(err, fault.ModelNotFound) {
			continue // the catalog may be behind the configuration
		}
		if err != nil {
			return err
		}
		list.Data = append(list.Data, object)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode the models: %w", err)
	}
	cookie, left, err := h.Playground.Open(x.request.Context(), client, x.request.Header)
	if err != nil {
		return err
	}
	if cookie != nil {
		http.SetCookie(x, cookie)
	}
	setVisitsLeft(x.Header(), left)
	x.Header().Set("Cache-Control", "no-store")
	return h.json(x, body)
}
