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

// ofAccount are the types and codes by which a server says that it does not serve the account that
// calls it: the platform's, where a hub calls a vendor, or a provider's own. They do not refuse the
// content, whatever the status. What they say of the account is passed on to nobody.
var ofAccount = map[string]blame{
	"insufficient_quota": providersFault, "billing_hard_limit_reached": providersFault,
	"billing_not_active": providersFault, "billing_error": providersFault, "account_deactivated": providersFault,
	"exceeded_current_quota_error": providersFault,
	"invalid_api_key":              providersFault, "authentication_error": providersFault,
	"invalid_authentication_error": providersFault, "permission_error": providersFault,
	"permission_denied": providersFault, "model_not_found": providersFault, "not_found_error": providersFault,
	"rate_limit_exceeded": engineBusy, "rate_limit_error": engineBusy, "rate_limit_reached_error": engineBusy,
	"overloaded_error": engineBusy, "engine_overloaded_error": engineBusy,
}

// accountWords are what messages have that speak of the account that calls a server of no agent,
// because not every vendor has a type or a code for that. They are in lower case.
var accountWords = []string{
	"credit balance", "billing", "api key", "your organization", "in organization", "your account", "quota",
}

// ownText is what is told in the place of what an error says of an account.
const ownText = "the engine does not serve the account that calls it"

// blameOf judges an error by its code or its type, and by its status where neither is in ofAccount.
// It removes from the error what that says of an account. Of an answer from a server without an agent
// it judges the words of the message, too. doubtful reports that these words alone blame the provider: a
// server may repeat the words of a prompt, so the failure is suspicion only.
func (o *Order) blameOf(status int, e *openai.Error) (b blame, doubtful bool) {
	for _, word := range []string{e.Code, e.Type} {
		if b, ok := ofAccount[strings.ToLower(word)]; ok {
			e.Message = ownText
			return b, false
		}
	}
	b = blameFor(status)
	if !o.External && !o.Vendor || !speaksOfAccount(e.Message) {
		return b, false
	}
	e.Message = ownText
	if b == consumersFault {
		return providersFault, true
	}
	return b, false
}

func speaksOfAccount(message string) bool {
	message = strings.ToLower(message)
	for _, words := range accountWords {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// engineStatus judges an answer whose status is no success. It came before content.
func (a *attempt) engineStatus(end *session.End) *verdict {
	e := openai.ParseError(a.answer.body())
	if e.Message == "" {
		e.Message = end.Error
	}
	blames, doubtful := a.order.blameOf(end.Status, &e)
	v := a.judge(end.Status, e, blames)
	v.excused = doubtful
	return v
}

// engineError judges an error object in the place of an answer. Its own code stands for a
// status; without a code the provider is at fault. Behind content it is a failure
// whomever it blames.
func (a *attempt) engineError(json []byte) *verdict {
	e := openai.ParseError(json)
	status := statusOf(e)
	blames, doubtful := a.order.blameOf(status, &e)
	a.contentBlamed = blames == consumersFault
	if a.answer.begun && !a.contentBlamed {
		v := a.fails(Failure{Code: CodeUpstream, EngineStatus: status, Message: e.Message}, meter.EngineError)
		v.excused = doubtful
		return v
	}
	v := a.judge(status, e, blames)
	v.ending, v.excused = meter.EngineError, doubtful
	if a.answer.begun {
		// The engine had accepted the content before, so whether the content is to blame
		// is not known: the failure is suspicion only.
		v.outcome, v.excused = Failed, true
	}
	return v
}

// statusOf returns the status for which an error object stands. Agents of dialect v1 read error
// objects in whole answers themselves, by the same rules, except that they do not look at the type.
func statusOf(e openai.Error) int {
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 {
		return n
	}
	if e.Code == noModel {
		return http.StatusNotFound
	}
	kind := strings.ToLower(e.Type)
	if strings.HasPrefix(kind, "invalid_request") || strings.HasPrefix(kind, "badrequest") {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// judge is the verdict on an engine's error. It may be retried before content only.
func (a *attempt) judge(status int, e openai.Error, blames blame) *verdict {
	f := Failure{Code: CodeUpstream, EngineStatus: status, Message: e.Message}
	v := a.fails(f, 0)
	switch blames {
	case consumersFault:
		v.outcome = Refused
		v.failure.Code, v.failure.Retryable = CodeRefused, false
		v.failure.EngineType, v.failure.EngineParam, v.failure.EngineCode = e.Type, e.Param, codeOf(e)
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
