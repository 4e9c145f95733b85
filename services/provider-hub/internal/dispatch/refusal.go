package dispatch

import (
	"net/http"
	"strconv"
	"strings"

	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// blame says whose fault an engine's HTTP status is.
type blame uint8

const (
	providersFault blame = iota // 5xx, and 4xx that are no answer to the content
	consumersFault              // the engine refuses the content
	engineBusy                  // 429
	notHere                     // 501: not supported here, and perhaps elsewhere
)

// blameFor judges a status. 400, 413, 415, 422 and other 4xx refuse the content: no
// retry, and no harm to the provider's health. 401, 402, 403, 405 and 407 speak of the
// provider's own set-up, 404 of a model that is not deployed, 408 of the provider's load,
// and 5xx of a failure: another provider may well serve the request, so it is retried
// elsewhere. 429, like an agent that is busy, only lowers the provider's learnt capacity.
// 501 is an agent's answer to a request that its owner keeps from engines. It is retried
// elsewhere, and does not harm health where the request names media by address or has
// members that are an engine's own (Order.NamesMedia, Order.EngineMembers). Of any other
// request it is a failure like the rest of 5xx, because a node that answers 501 to
// everything would otherwise keep the best of health.
func blameFor(status int) blame {
	switch status {
	case http.StatusTooManyRequests:
		return engineBusy
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusRequestTimeout:
		return providersFault
	case http.StatusNotImplemented:
		return notHere
	}
	if status >= 400 && status <= 499 {
		return consumersFault
	}
	return providersFault
}

// engineStatus judges an answer whose status is no success. It came before content.
func (a *attempt) engineStatus(end *session.End) *verdict {
	e := openai.ParseError(a.answer.body())
	if e.Message == "" {
		e.Message = end.Error
	}
	return a.judge(end.Status, e)
}

// engineError judges an error object in the place of an answer. Its own code stands for a
// status; without a code the provider is at fault. Behind content it is a failure
// whomever it blames.
func (a *attempt) engineError(json []byte) *verdict {
	e := openai.ParseError(json)
	status := statusOf(e)
	a.contentBlamed = blameFor(status) == consumersFault
	if a.answer.begun && !a.contentBlamed {
		return a.fails(Failure{Code: CodeUpstream, EngineStatus: status, Message: e.Message}, meter.EngineError)
	}
	v := a.judge(status, e)
	v.ending = meter.EngineError
	if a.answer.begun {
		// The engine had accepted the content before, so whether the content is to blame
		// is not known: the failure is suspicion only.
		v.outcome, v.excused = Failed, true
	}
	return v
}

func statusOf(e openai.Error) int {
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 {
		return n
	}
	kind := strings.ToLower(e.Type)
	if strings.HasPrefix(kind, "invalid_request") || strings.HasPrefix(kind, "badrequest") {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// judge is the verdict on an engine's error. It may be retried before content only.
func (a *attempt) judge(status int, e openai.Error) *verdict {
	f := Failure{Code: CodeUpstream, EngineStatus: status, Message: e.Message}
	v := a.fails(f, 0)
	switch blameFor(status) {
	case consumersFault:
		v.outcome = Refused
		v.failure.Code, v.failure.Retryable = CodeRefused, false
		v.failure.EngineType, v.failure.EngineParam, v.failure.EngineCode = e.Type, e.Param, e.Code
	case engineBusy:
		v.outcome = Busy
		v.failure.Busy = true
	case notHere:
		if a.order.NamesMedia || a.order.EngineMembers {
			v.outcome = Cancelled
		}
	case providersFault:
	}
	return v
}
