package dispatch

import (
	"net/http"
	"strconv"
	"strings"

	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// blame is whose fault an engine's HTTP status is.
type blame uint8

const (
	providersFault blame = iota // 5xx, and 4xx that are no answer to the content
	consumersFault              // the engine refuses the content
	engineBusy                  // 429
	notHere                     // 501: not supported here, and perhaps elsewhere
)

// blameFor judges a status. 401, 402, 403, 405 and 407 speak of the provider's
// own set-up, 404 of a model that is not deployed, 408 of its load: another
// provider may well serve the request. 501 is what an agent says of what its owner
// does not let engines do: it goes elsewhere too, and says nothing of health where
// the order has such a thing. Else it is an error like any other of 5xx, because a
// node that answers it to everything would stay in the best of health.
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

// engineStatus judges an answer whose status is no success, before content.
func (a *attempt) engineStatus(end *session.End) *verdict {
	e := openai.ParseError(a.answer.body())
	if e.Message == "" {
		e.Message = end.Error
	}
	return a.judge(end.Status, e)
}

// engineError judges an error object where an answer was due. Its own code
// stands for a status; without one it is the provider's fault.
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
		// The content had been taken. Whether it can be to blame nobody here knows.
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

// judge is the verdict on an engine's error; it is retryable before content only.
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
