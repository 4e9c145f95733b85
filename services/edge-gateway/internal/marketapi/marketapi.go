// Package marketapi answers the routes under /api/v1 that the services' own .proto files
// describe: the public catalog, the routes of users who are signed in, and the operators'
// routes under /api/v1/admin.
//
// It translates between JSON and gRPC and adds nothing. Fields have their proto names,
// zero values are written, unknown members are refused, and an error has the same body as
// everywhere else. Only ServeOperator serves operators' routes, and ServeOpen those of people
// who have not signed in. Their caller has found out who the operator is. Package operator
// decides whether the route is served, and the operator's name goes on to the services, for
// their audit.
// Only ServeUser serves the routes of users, under /api/v1/user and /api/v1/consumer, for a
// user whom its caller has found; the user's ids go on. Of the headers only
// Idempotency-Key is handed on.
package marketapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/serve"
	actsv1 "svc.internal/proto/svc/acts/v1"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	healthv1 "svc.internal/proto/svc/health/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/operator"
)

// maxShown bounds how much of a translation error is repeated.
const maxShown = 256

// Peers are the services that answer the routes.
type Peers struct {
	PublicCatalog  catalogv1.PublicCatalogServiceClient
	CatalogAdmin   catalogv1.CatalogAdminServiceClient
	Accounts       billingv1.AccountAdminServiceClient
	Overview       billingv1.AccountOverviewAdminServiceClient
	Ledger         billingv1.LedgerAdminServiceClient
	Terms          billingv1.EnterpriseAdminServiceClient
	Payables       billingv1.VendorPayableAdminServiceClient
	UserSelf       billingv1.UserSelfServiceClient
	Webhooks       billingv1.WebhookServiceClient
	Checkouts      billingv1.CheckoutServiceClient
	CheckoutAdmin  billingv1.CheckoutAdminServiceClient
	Freezes        billingv1.AccountFreezeAdminServiceClient
	Subscriptions  billingv1.SubscriptionServiceClient
	PlanInvoices   billingv1.SubscriptionAdminServiceClient
	ConsumerKeys   billingv1.ConsumerKeyServiceClient
	ConsumerLimits billingv1.ConsumerLimitServiceClient
	ConsumerTerms  billingv1.ConsumerTermsServiceClient
	Plans          billingv1.PlanServiceClient
	Passbooks      billingv1.PassbookServiceClient
	Providers      hubv1.ProviderAdminServiceClient
	Router         routerv1.RouterServiceClient
	Endpoints      hubv1.ExternalEndpointAdminServiceClient
	Vendors        hubv1.VendorAdminServiceClient
	Reconciliation settlementv1.ReconciliationServiceClient
	Penalties      settlementv1.PenaltyAdminServiceClient
	Earnings       settlementv1.EarningAdminServiceClient
	Chains         settlementv1.ChainAdminServiceClient
	Deposits       settlementv1.ConsumerDepositServiceClient
	Reserves       settlementv1.ReserveAdminServiceClient
	Payouts        settlementv1.PayoutAdminServiceClient
	Recovery       settlementv1.RecoveryAdminServiceClient
	Collateral     settlementv1.CollateralAdminServiceClient
	Verification   verifierv1.VerifierAdminServiceClient
	Operators      billingv1.OperatorAdminServiceClient
	// Acts merges those of all services.
	Acts actsv1.ActServiceClient
	// Health asks all services.
	Health healthv1.HealthServiceClient
}

// Config bounds what is read.
type Config struct {
	// MaxBody bounds a body in bytes.
	MaxBody int64
}

// API answers requests. The caller answers their errors.
type API struct {
	mux *runtime.ServeMux
	cfg Config
}

// New makes the API.
func New(ctx context.Context, peers Peers, cfg Config) (*API, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newMarshaler()),
		runtime.WithErrorHandler(keepError),
		runtime.WithRoutingErrorHandler(keepRoutingError),
		runtime.WithIncomingHeaderMatcher(handedOn),
		runtime.WithMetadata(callerOf),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithMiddlewares(probed, permitted),
		runtime.WithForwardResponseOption(tellIssued),
	)
	err := errors.Join(
		catalogv1.RegisterPublicCatalogServiceHandlerClient(ctx, mux, peers.PublicCatalog),
		catalogv1.RegisterCatalogAdminServiceHandlerClient(ctx, mux, peers.CatalogAdmin),
		billingv1.RegisterAccountAdminServiceHandlerClient(ctx, mux, peers.Accounts),
		billingv1.RegisterAccountOverviewAdminServiceHandlerClient(ctx, mux, peers.Overview),
		billingv1.RegisterLedgerAdminServiceHandlerClient(ctx, mux, peers.Ledger),
		billingv1.RegisterEnterpriseAdminServiceHandlerClient(ctx, mux, peers.Terms),
		billingv1.RegisterVendorPayableAdminServiceHandlerClient(ctx, mux, peers.Payables),
		billingv1.RegisterUserSelfServiceHandlerClient(ctx, mux, peers.UserSelf),
		billingv1.RegisterWebhookServiceHandlerClient(ctx, mux, peers.Webhooks),
		billingv1.RegisterCheckoutServiceHandlerClient(ctx, mux, peers.Checkouts),
		billingv1.RegisterCheckoutAdminServiceHandlerClient(ctx, mux, peers.CheckoutAdmin),
		billingv1.RegisterAccountFreezeAdminServiceHandlerClient(ctx, mux, peers.Freezes),
		billingv1.RegisterSubscriptionServiceHandlerClient(ctx, mux, peers.Subscriptions),
		billingv1.RegisterSubscriptionAdminServiceHandlerClient(ctx, mux, peers.PlanInvoices),
		billingv1.RegisterConsumerKeyServiceHandlerClient(ctx, mux, peers.ConsumerKeys),
		billingv1.RegisterConsumerLimitServiceHandlerClient(ctx, mux, peers.ConsumerLimits),
		billingv1.RegisterConsumerTermsServiceHandlerClient(ctx, mux, peers.ConsumerTerms),
		billingv1.RegisterPlanServiceHandlerClient(ctx, mux, peers.Plans),
		billingv1.RegisterPassbookServiceHandlerClient(ctx, mux, peers.Passbooks),
		hubv1.RegisterProviderAdminServiceHandlerClient(ctx, mux, peers.Providers),
		routerv1.RegisterRouterServiceHandlerClient(ctx, mux, peers.Router),
		hubv1.RegisterExternalEndpointAdminServiceHandlerClient(ctx, mux, peers.Endpoints),
		hubv1.RegisterVendorAdminServiceHandlerClient(ctx, mux, peers.Vendors),
		settlementv1.RegisterReconciliationServiceHandlerClient(ctx, mux, peers.Reconciliation),
		settlementv1.RegisterPenaltyAdminServiceHandlerClient(ctx, mux, peers.Penalties),
		settlementv1.RegisterEarningAdminServiceHandlerClient(ctx, mux, peers.Earnings),
		settlementv1.RegisterChainAdminServiceHandlerClient(ctx, mux, peers.Chains),
		settlementv1.RegisterConsumerDepositServiceHandlerClient(ctx, mux, peers.Deposits),
		settlementv1.RegisterReserveAdminServiceHandlerClient(ctx, mux, peers.Reserves),
		settlementv1.RegisterPayoutAdminServiceHandlerClient(ctx, mux, peers.Payouts),
		settlementv1.RegisterRecoveryAdminServiceHandlerClient(ctx, mux, peers.Recovery),
		settlementv1.RegisterCollateralAdminServiceHandlerClient(ctx, mux, peers.Collateral),
		verifierv1.RegisterVerifierAdminServiceHandlerClient(ctx, mux, peers.Verification),
		billingv1.RegisterOperatorAdminServiceHandlerClient(ctx, mux, peers.Operators),
		actsv1.RegisterActServiceHandlerClient(ctx, mux, peers.Acts),
		healthv1.RegisterHealthServiceHandlerClient(ctx, mux, peers.Health),
	)
	if err != nil {
		return nil, fmt.Errorf("register the routes under /api/v1: %w", err)
	}
	return &API{mux: mux, cfg: cfg}, nil
}

// The context keys of the operator, of the user, and of what is told of a token.
type (
	operatorKey struct{}
	userKey     struct{}
	issuedKey   struct{}
)

// callerOf returns the metadata that names the operator or the user to the services.
func callerOf(ctx context.Context, _ *http.Request) metadata.MD {
	if who, ok := ctx.Value(operatorKey{}).(operator.Principal); ok {
		return serve.OperatorCallMetadata(serve.OperatorCall{Name: who.Name, Session: who.Session, Network: who.Network})
	}
	if who, ok := ctx.Value(userKey{}).(serve.Caller); ok {
		return serve.UserMetadata(who)
	}
	return nil
}

type errorSlot struct{ err error }

type slotKey struct{}

// Where the routes of operators and of users begin.
const adminRoutes = "/api/v1/admin/"

var userRoutes = []string{"/api/v1/user/", "/api/v1/consumer/"}

// ServeOperator answers a route for an operator. It alone, and ServeOpen by it, serves
// operators' routes.
func (a *API) ServeOperator(w http.ResponseWriter, r *http.Request, who operator.Principal) error {
	return a.serve(w, r.WithContext(context.WithValue(r.Context(), operatorKey{}, who)))
}

// ServeOpen answers a route by which somebody becomes an operator or signs in. issued is told
// the token of a session that was opened, and when the session ends, before the answer begins.
func (a *API) ServeOpen(
	w http.ResponseWriter, r *http.Request, who operator.Principal, issued func(token string, expires time.Time),
) error {
	return a.ServeOperator(w, r.WithContext(context.WithValue(r.Context(), issuedKey{}, issued)), who)
}

// tellIssued tells whoever wants to know of the token of a session that was opened.
func tellIssued(ctx context.Context, _ http.ResponseWriter, answer proto.Message) error {
	opened, ok := answer.(*billingv1.OpenOperatorSessionResponse)
	if issued, wanted := ctx.Value(issuedKey{}).(func(string, time.Time)); ok && wanted {
		issued(opened.GetToken(), opened.GetExpiresAt().AsTime())
	}
	return nil
}

// ServeUser answers a route for a user who is signed in. It alone serves users' routes,
// and no others.
func (a *API) ServeUser(w http.ResponseWriter, r *http.Request, who serve.Caller) error {
	if !ofUsers(r.URL.Path) {
		return noRoute()
	}
	return a.serve(w, r.WithContext(context.WithValue(r.Context(), userKey{}, who)))
}

// Serve answers a route that is neither an operator's nor a user's.
func (a *API) Serve(w http.ResponseWriter, r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, adminRoutes) || ofUsers(r.URL.Path) {
		return noRoute()
	}
	return a.serve(w, r)
}

func ofUsers(path string) bool {
	return slices.ContainsFunc(userRoutes, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

func noRoute() error {
	return fault.New(fault.NotFound, apierror.UnknownRoute, "There is no such route.")
}

// Body reads the whole body of a request.
func (a *API) Body(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, a.cfg.MaxBody+1))
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, fault.InvalidRequest, "The body could not be read.")
	}
	if int64(len(body)) > a.cfg.MaxBody {
		return nil, fault.New(fault.Invalid, fault.RequestTooLarge, "The body has more than %d bytes.", a.cfg.MaxBody)
	}
	return body, nil
}

// serve answers a route. HEAD is answered as GET, because net/http leaves the body out.
func (a *API) serve(w http.ResponseWriter, r *http.Request) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	if err := readable(r.URL); err != nil {
		return err
	}
	if err := oneKey(r.Header, body); err != nil {
		return err
	}
	slot := &errorSlot{}
	inner := r.Clone(context.WithValue(r.Context(), slotKey{}, slot))
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Grpc-Timeout"} {
		inner.Header.Del(name)
	}
	inner.Body = io.NopCloser(bytes.NewReader(body))
	if inner.Method == http.MethodHead {
		inner.Method = http.MethodGet
	}
	a.mux.ServeHTTP(w, inner)
	if fault.Is(slot.err, apierror.MethodNotAllowed) {
		w.Header().Set("Allow", a.allowed(inner))
	}
	return slot.err
}

// allowed lists the methods that the path of a request answers.
func (a *API) allowed(r *http.Request) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		found := false
		probe := r.Clone(context.WithValue(r.Context(), probeKey{}, &found))
		probe.Method = method
		a.mux.ServeHTTP(nowhere{}, probe)
		if !found {
			continue
		}
		methods = append(methods, method)
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	return strings.Join(methods, ", ")
}

type probeKey struct{}

// probed stops a request that only asks whether its route exists.
func probed(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		if found, ok := r.Context().Value(probeKey{}).(*bool); ok {
			*found = true
			return
		}
		next(w, r, params)
	}
}

// permitted refuses an operator's call that the operator's role may not make.
func permitted(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		if who, ok := r.Context().Value(operatorKey{}).(operator.Principal); ok {
			pattern, _ := runtime.HTTPPattern(r.Context())
			if err := who.Check(r.Method, pattern.String()); err != nil {
				keep(r.Context(), err)
				return
			}
		}
		next(w, r, params)
	}
}

// nowhere discards the answer to a probe.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// readable refuses a path or a query that cannot be read, or that is not UTF-8, because
// gRPC would refuse it with an error that looks like a fault of the service's own.
func readable(u *url.URL) error {
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil || !utf8.ValidString(query) {
		return fault.New(fault.Invalid, fault.InvalidRequest, "The query is malformed.")
	}
	if !utf8.ValidString(u.Path) {
		return fault.New(fault.Invalid, fault.InvalidRequest, "The path is malformed.")
	}
	return nil
}

// oneKey refuses a request whose header and body name different idempotency keys. The
// decoder refuses a body that cannot be read so far.
func oneKey(h http.Header, body []byte) error {
	sent := h.Values("Idempotency-Key")
	if len(sent) == 0 {
		return nil
	}
	for member, err := range jsonscan.New(body, jsonscan.Options{}).Members() {
		if err != nil {
			return nil
		}
		name := string(member.Key.Name(body))
		if name != "idempotency_key" && name != "idempotencyKey" {
			continue
		}
		key, err := jsonscan.DecodeString(member.Value.Of(body))
		if err == nil && key != "" && slices.ContainsFunc(sent, func(s string) bool { return s != key }) {
			return fault.New(fault.Invalid, fault.InvalidValue,
				"idempotency_key must be the same in the body and in the header").On("idempotency_key")
		}
	}
	return nil
}

// handedOn names the headers that services get.
func handedOn(name string) (string, bool) {
	if strings.EqualFold(name, "Idempotency-Key") {
		return "idempotency-key", true
	}
	return "", false
}

// keepError hands the error of a call to serve. The caller of serve answers it.
func keepError(
	ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, _ *http.Request, err error,
) {
	keep(ctx, translated(err))
}

func keepRoutingError(
	ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, _ http.ResponseWriter, _ *http.Request, status int,
) {
	switch status {
	case http.StatusMethodNotAllowed:
		keep(ctx, fault.New(fault.Invalid, apierror.MethodNotAllowed, "This route does not answer that method."))
	case http.StatusNotFound:
		keep(ctx, noRoute())
	default:
		keep(ctx, fault.New(fault.Invalid, fault.InvalidRequest, "The path is malformed."))
	}
}

func keep(ctx context.Context, err error) {
	if slot, ok := ctx.Value(slotKey{}).(*errorSlot); ok {
		slot.err = err
	}
}

// ofField finds the parameter of a query or path that could not be translated. The rest of
// the library's text is about Go.
var ofField = regexp.MustCompile(`^(?:(?:parsing|too many values for) field "|type mismatch, parameter: )(\w+)`)

// translated turns an error of the translation, which is the client's fault, into a
// fault. An error that a service sent stays as it is.
func translated(err error) error {
	if _, ok := fault.As(err); ok {
		return apierror.OfPeer(err)
	}
	if st, ok := status.FromError(err); ok && st.Code() == codes.InvalidArgument {
		text := st.Message()
		if of := ofField.FindStringSubmatch(text); of != nil {
			return fault.New(fault.Invalid, fault.InvalidRequest, "%s must be given once, with a value of its kind",
				of[1]).On(of[1])
		}
		if err := misfit(text); err != nil {
			return err
		}
		return fault.New(fault.Invalid, fault.InvalidRequest, "The request is malformed: %s", text[:min(len(text), maxShown)])
	}
	return apierror.OfPeer(fault.FromError(err))
}
