package httpapi

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"svc.internal/services/edge-gateway/internal/providerapi"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// The routes of providers' agents and of their users.
var ofProviders = byPattern(
	route{statusPath, get, agents((*providerapi.API).Status)},
	route{"/api/v1/provider/me", []string{http.MethodGet, http.MethodHead, http.MethodPut},
		agents((*providerapi.API).Me)},
	route{"/api/v1/provider/request-approval", post, agents((*providerapi.API).RequestApproval)},
	route{"/api/v1/provider/signup", post, agents((*providerapi.API).SignUp)},
	route{"/api/v1/provider/keys", post, agents((*providerapi.API).RotateKey)},
	route{"/api/v1/provider/penalties", get, agents((*providerapi.API).Penalties)},
	route{"/api/v1/provider/challenges", get, agents((*providerapi.API).Challenges)},
	route{"/api/v1/provider/benchmarks", []string{http.MethodGet, http.MethodHead, http.MethodPost},
		agents((*providerapi.API).Benchmarks)},
	route{"/api/v1/provider/standing", get, agents((*providerapi.API).Standing)},
	route{"/api/v1/provider/earnings", get, agents((*providerapi.API).Earnings)},
	route{"/api/v1/provider/earnings.csv", get, (*Handler).exportEarnings},
	route{"/api/v1/provider/payouts", []string{http.MethodGet, http.MethodHead, http.MethodPost},
		agents((*providerapi.API).Payouts)},
	route{"/api/v1/provider/convert", post, agents((*providerapi.API).Convert)},
	route{"/api/v1/provider/statements", get, agents((*providerapi.API).Statements)},
	route{"/api/v1/provider/external-endpoints", []string{http.MethodGet, http.MethodHead, http.MethodPost},
		agents((*providerapi.API).Endpoints)},
	route{"/api/v1/provider/ws-challenge", post, agents((*providerapi.API).Challenge)},
	route{"/api/v1/provider/collateral", []string{http.MethodGet, http.MethodHead, http.MethodPut},
		agents((*providerapi.API).Collateral)},
	route{"/api/v1/provider/collateral/contract", get, agents((*providerapi.API).Contract)},
	route{"/api/v1/provider/collateral/deposit", post, agents((*providerapi.API).CollateralDeposit)},
	route{"/api/v1/provider/collateral/refund", []string{http.MethodPost, http.MethodDelete},
		agents((*providerapi.API).CollateralRefund)},
	route{"/api/v1/stats/model-demand", get, agents((*providerapi.API).ModelDemand)},
	route{"/api/v1/stats/service", get, agents((*providerapi.API).ServiceStats)},
	route{"/api/v1/stats/models", get, agents((*providerapi.API).ModelStats)},
	route{"/api/v1/stats/providers", get, agents((*providerapi.API).ProviderStats)},
	route{"/api/v1/stats/signers", get, agents((*providerapi.API).Signers)},
	route{"/api/v1/user/signup", post, agents((*providerapi.API).UserSignUp)},
	route{"/api/v1/user/login", post, agents((*providerapi.API).LogIn)},
	route{"/api/v1/user/sign-in-methods", get, agents((*providerapi.API).SignInMethods)},
	route{"/api/v1/user/wallet/challenge", post, agents((*providerapi.API).WalletChallenge)},
	route{"/api/v1/user/wallet/login", post, agents((*providerapi.API).LogInWallet)},
	route{"/api/v1/user/me/identities/wallet", post, agents((*providerapi.API).LinkWallet)},
	route{"/api/v1/user/me/identities/wallet/challenge", post, agents((*providerapi.API).LinkChallenge)},
	route{"/api/v1/user/refresh", post, agents((*providerapi.API).Refresh)},
	route{"/api/v1/user/logout", post, agents((*providerapi.API).LogOut)},
	route{"/api/v1/user/password/forgot", post, agents((*providerapi.API).AskPasswordReset)},
	route{"/api/v1/user/password/reset", post, agents((*providerapi.API).ResetPassword)},
	route{"/api/v1/user/email/confirm", post, agents((*providerapi.API).ConfirmEmail)},
	route{"/api/v1/user/me/provider-keys", []string{http.MethodGet, http.MethodHead, http.MethodPost},
		agents((*providerapi.API).ProviderKeys)},
	route{"/api/v1/user/me/provider-proposals", get, agents((*providerapi.API).Proposals)},
	route{"/api/v1/user/upgrade-to-provider", post, agents((*providerapi.API).Upgrade)},
	route{"/api/v1/consumer/upgrade-to-provider", post, agents((*providerapi.API).Upgrade)},
)

// byPattern returns routes without a variable part by their paths.
func byPattern(routes ...route) map[string]route {
	found := make(map[string]route, len(routes))
	for _, r := range routes {
		found[r.pattern] = r
	}
	return found
}

const (
	modelOf     = "/api/v1/models/{id}"
	providersOf = modelOf + "/providers"
	filesOf     = modelOf + "/files"
	penaltyOf   = "/api/v1/provider/penalties/{penalty_id}"
	appealOf    = penaltyOf + providerapi.AppealSuffix
	evidenceOf  = penaltyOf + providerapi.EvidenceSuffix
	payoutOf    = "/api/v1/provider/payouts/{payout_id}"
	cancelOf    = payoutOf + providerapi.CancelSuffix
	endpointOf  = "/api/v1/provider/external-endpoints/{endpoint_id}"
	checkOf     = endpointOf + providerapi.CheckSuffix
	openIDOf    = "/api/v1/user/oidc/{issuer}"
	planPoolOf  = "/api/v1/stats/plan-pool/{month}"
)

// takes reports whether a route answers the variable part of a path. A route with a suffix
// answers no other.
func (r route) takes(rest string) bool {
	for _, one := range []string{penaltyOf, payoutOf, endpointOf, openIDOf} {
		if suffix, ok := strings.CutPrefix(r.pattern, one); ok {
			id, ok := strings.CutSuffix(rest, suffix)
			return ok && id != "" && !strings.Contains(id, "/")
		}
	}
	return rest != ""
}

// of returns the route of a path's variable part where routes share a prefix. The id of a model has
// slashes, so its end tells the routes apart.
func (r route) of(rest string) route {
	if r.pattern != modelOf {
		return r
	}
	for _, pattern := range []string{providersOf, filesOf} {
		if strings.HasSuffix(rest, strings.TrimPrefix(pattern, modelOf)) {
			r.pattern = pattern
		}
	}
	return r
}

// ask is one call of package providerapi.
type ask func(*providerapi.API, context.Context, providerapi.Call) (providerapi.Answer, error)

// agents serves a call of providers' agents. Its body is read first, up to
// providerapi.MaxBody.
func agents(ask ask) func(*Handler, *exchange) error {
	return func(h *Handler, x *exchange) error {
		call := providerapi.Call{
			Method: x.request.Method, Header: x.request.Header, Query: x.request.URL.Query(),
			Path: x.request.URL.EscapedPath(), Rest: x.rest, From: h.Addresses.Of(x.request),
		}
		switch x.request.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			if err := checkDeclared(x.request, providerapi.MaxBody); err != nil {
				return err
			}
			defer h.freeBody(x)
			if err := h.readBody(x, providerapi.MaxBody); err != nil {
				return err
			}
			call.Body, call.Unread = x.raw.Bytes(), checkForm(x.request.Header)
		}
		answer, err := ask(h.Provider, x.request.Context(), call)
		if err != nil {
			return err
		}
		x.err = answer.Shown
		header := x.Header()
		maps.Copy(header, answer.Header)
		header.Set("Content-Type", rewrite.TypeJSON)
		if header.Get("Cache-Control") == "" {
			header.Set("Cache-Control", "no-store")
		}
		h.answer(x, answer.Status, answer.JSON)
		return nil
	}
}
