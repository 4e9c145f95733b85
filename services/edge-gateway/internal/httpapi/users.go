package httpapi

import (
	"net/http"
	"strings"

	"svc.internal/pkg/serve"

	"svc.internal/services/edge-gateway/internal/providerapi"
)

// The routes of users who are signed in that the services' own .proto files describe. A
// segment in braces stands for any one segment.
var ofUsers = []route{
	{"/api/v1/user/me", get, (*Handler).asUser},
	{"/api/v1/consumer/checkout", getOrPost, (*Handler).asUser},
	{"/api/v1/consumer/checkout/{checkout_id}", get, (*Handler).asUser},
	{"/api/v1/consumer/checkout/{checkout_id}/refund", post, (*Handler).asUser},
	{"/api/v1/consumer/refunds", get, (*Handler).asUser},
	{"/api/v1/consumer/subscription", []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		(*Handler).asUser},
	{"/api/v1/user/me/keys", []string{http.MethodGet, http.MethodHead, http.MethodPost}, (*Handler).asUser},
	{"/api/v1/user/me/keys/{key_id}", []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete},
		(*Handler).asUser},
	{"/api/v1/user/me/keys/{key_id}/rotate", post, (*Handler).asUser},
	{"/api/v1/consumer/limits", []string{http.MethodGet, http.MethodHead, http.MethodPut}, (*Handler).asUser},
	{"/api/v1/consumer/terms", get, (*Handler).asUser},
	{"/api/v1/consumer/enterprise-contact", post, (*Handler).asUser},
	{"/api/v1/consumer/deposit-address", get, (*Handler).asUser},
	{"/api/v1/consumer/deposits", get, (*Handler).asUser},
	{"/api/v1/user/me/sessions", get, (*Handler).asUser},
	{"/api/v1/user/me/sessions/{session_id}", []string{http.MethodDelete}, (*Handler).asUser},
	{"/api/v1/user/me/identities", get, (*Handler).asUser},
	{"/api/v1/user/me/identities/{identity_id}", []string{http.MethodDelete}, (*Handler).asUser},
	{"/api/v1/user/me/password", post, (*Handler).asUser},
	{"/api/v1/user/me/email", post, (*Handler).asUser},
	{"/api/v1/consumer/balance", get, (*Handler).asUser},
	{"/api/v1/consumer/ledger", get, (*Handler).asUser},
	{"/api/v1/consumer/ledger.csv", get, (*Handler).exportLedger},
	{"/api/v1/consumer/usage", get, (*Handler).asUser},
	{"/api/v1/consumer/usage.csv", get, (*Handler).exportUsage},
	{"/api/v1/consumer/usage/requests", get, (*Handler).asUser},
	{"/api/v1/consumer/receipts", get, (*Handler).asUser},
	{"/api/v1/consumer/receipts/{number}", get, (*Handler).document},
	{"/api/v1/consumer/invoices", get, (*Handler).asUser},
	{"/api/v1/consumer/invoices/{number}", get, (*Handler).document},
	{"/api/v1/user/me/webhooks", getOrPost, (*Handler).asUser},
	{"/api/v1/user/me/webhooks/{webhook_id}", []string{http.MethodPatch, http.MethodDelete}, (*Handler).asUser},
	{"/api/v1/user/me/webhooks/{webhook_id}/rotate", post, (*Handler).asUser},
	{"/api/v1/user/me/webhooks/{webhook_id}/deliveries", get, (*Handler).asUser},
	{"/api/v1/user/me/webhooks/{webhook_id}/test", post, (*Handler).asUser},
	{"/api/v1/user/me/balance-low", []string{http.MethodPut}, (*Handler).asUser},
}

// findUsers returns the route of a user's path.
func findUsers(path string) (route, bool) {
	for _, r := range ofUsers {
		if matches(r.pattern, path) {
			return r, true
		}
	}
	return route{}, false
}

// matches reports whether a path has the segments of a pattern.
func matches(pattern, path string) bool {
	for {
		want, morePattern, deeper := strings.Cut(pattern, "/")
		got, morePath, longer := strings.Cut(path, "/")
		variable := strings.HasPrefix(want, "{")
		if deeper != longer || variable && got == "" || !variable && got != want {
			return false
		}
		if !deeper {
			return true
		}
		pattern, path = morePattern, morePath
	}
}

// asUser serves a route for the user whose session token the request carries. Nothing but
// that token says who calls. Calls to services have bounded times, so one write deadline
// suffices.
func (h *Handler) asUser(x *exchange) error {
	from := h.Addresses.Of(x.request)
	in, err := h.Provider.SignedIn(x.request.Context(), x.request.Header, from)
	if err != nil {
		return err
	}
	if err := checkForm(x.request.Header); err != nil {
		return err
	}
	x.Header().Set("Cache-Control", "no-store")
	h.setWriteDeadline(x)
	return h.Market.ServeUser(x, x.request, serve.Caller{
		User: in.GetUser().GetUserId(), Account: in.GetUser().GetAccountId(), Session: in.GetSessionId(),
		Network: providerapi.NetworkOf(from),
	})
}
