package httpapi

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/operator"
	"svc.internal/services/edge-gateway/internal/origin"
	"svc.internal/services/edge-gateway/internal/pages"
	"svc.internal/services/edge-gateway/internal/providerapi"
	"svc.internal/services/edge-gateway/internal/publicjson"
)

// adminRoutes is where operators' routes begin.
const adminRoutes = "/api/v1/admin/"

// shared are the patterns of the public routes that the operators' listener answers too: those of
// probes, and the catalog, which operators' pages show, because pages call their own origin alone.
var shared = []string{healthPath, readyPath, "/api/v1/models", "/api/v1/models/catalog", filesOf, planPoolOf,
	describedAt}

// Operators answers the operators' listener: the routes under /api/v1/admin, the operators' pages, the
// routes of shared, and nothing else. Requests whose Host is not one of hosts find no route.
func (h *Handler) Operators(gate *operator.Gate, hosts operator.Hosts) http.Handler {
	// Methods are checked behind the token, so that nothing is revealed without one.
	admin := route{"/api/v1/admin", nil, func(h *Handler, x *exchange) error { return h.admin(gate, x) }}
	own := surface{
		find: func(path string) (route, string) {
			if rest, ok := strings.CutPrefix(path, adminRoutes); ok && rest != "" {
				return admin, rest
			}
			if r, rest := find(path); slices.Contains(shared, r.pattern) {
				return r, rest
			}
			return unknown, ""
		},
		page:  pageRoute(h.Pages.Site(pages.Operators)),
		admit: func(r *http.Request) error { return hosts.Check(r.Host) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, own) })
}

// admin serves an operator's call, or a call by which somebody becomes one or signs in.
func (h *Handler) admin(gate *operator.Gate, x *exchange) error {
	from := h.Addresses.Of(x.request)
	switch path := x.request.URL.Path; {
	case x.request.Method == http.MethodPost && path == operator.RefreshPath:
		return h.refreshOperator(gate, x, from)
	case operator.Open(x.request.Method, path):
		return h.open(gate, x, from)
	}
	who, err := gate.Admit(x.request.Context(), x.request.Header, from)
	if err != nil {
		return err
	}
	if who.BreakGlass {
		h.Log.ErrorContext(x.request.Context(), "break-glass: a bootstrap token makes an operator's call",
			"operator", who.Name, "path", x.request.URL.Path[:min(len(x.request.URL.Path), maxLoggedPath)])
	}
	if err := h.asOperator(x, &who); err != nil {
		return err
	}
	if x.request.Method == http.MethodDelete && x.request.URL.Path == operator.SessionPath {
		x.before = func(status int) {
			if status == http.StatusOK {
				operator.DeleteCookie(x.Header())
			}
		}
	}
	return h.Market.ServeOperator(x, x.request, who)
}

// refreshOperator serves POST /api/v1/admin/session/refresh: a page of ours that was loaded anew gets the
// token of its session, by the session's cookie. A call that no page of ours makes is refused before the
// cookie is looked at, and so counts as no guess. A body is not read.
func (h *Handler) refreshOperator(gate *operator.Gate, x *exchange, from netip.Addr) error {
	var nobody operator.Principal
	if err := h.asOperator(x, &nobody); err != nil {
		return err
	}
	if !origin.Same(x.request) {
		return fault.New(fault.Denied, apierror.OriginNotAllowed,
			"Only a page of this site may use the session's cookie.").On("Origin")
	}
	in, over, err := gate.Refresh(x.request.Context(), x.request.Header, from)
	if over {
		operator.DeleteCookie(x.Header())
	}
	if err != nil {
		return err
	}
	return h.json(x, publicjson.Append(nil, &billingv1.OpenOperatorSessionResponse{
		Operator: in.Operator, Token: in.Token, ExpiresAt: timestamppb.New(in.ExpiresAt),
	}))
}

// open serves a call by which somebody becomes an operator or signs in. Nothing is counted for a
// page of another site, and the body is read before the call takes a place of the bound on
// guesses.
func (h *Handler) open(gate *operator.Gate, x *exchange, from netip.Addr) error {
	var nobody operator.Principal
	if err := h.asOperator(x, &nobody); err != nil {
		return err
	}
	if err := operator.CheckPage(x.request.Header); err != nil {
		return err
	}
	body, err := h.Market.Body(x.request)
	if err != nil {
		return err
	}
	x.request.Body = io.NopCloser(bytes.NewReader(body))
	issued := func(token string, expires time.Time) {
		gate.Issued(token)
		if origin.Same(x.request) { // a program keeps its token itself
			operator.SetCookie(x.Header(), token, expires)
		}
	}
	return gate.SignIn(from, func() error { return h.Market.ServeOpen(x, x.request, nobody, issued) })
}

// asOperator prepares a call. Its calls to services have bounded times, so one write deadline
// suffices. The log line of the request names the operator and the path, which holds ids and
// no secret.
func (h *Handler) asOperator(x *exchange, who *operator.Principal) error {
	who.Network = providerapi.NetworkOf(h.Addresses.Of(x.request))
	x.facts = append(x.facts, operatorFacts(who.Name, x.request.URL.Path)...)
	if err := checkForm(x.request.Header); err != nil {
		return err
	}
	x.Header().Set("Cache-Control", "no-store")
	_ = x.control.SetWriteDeadline(time.Now().Add(h.cfg.BodyTimeout + h.cfg.AnswerTimeout))
	return nil
}

// operatorFacts are the further facts in the log line of an operator's call.
func operatorFacts(name, path string) []slog.Attr {
	return []slog.Attr{slog.String("operator", name), slog.String("path", path[:min(len(path), maxLoggedPath)])}
}

// maxLoggedPath bounds the path of an operator's call in the log, in bytes.
const maxLoggedPath = 512
