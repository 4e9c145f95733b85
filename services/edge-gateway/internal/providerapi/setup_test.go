package providerapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"

	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/quota"
)

// bundle is the API with peers that answer as a test says.
type bundle struct {
	*API
	clock  *clock.Manual
	hub    *hub
	router *router
	ledger *ledger
	models *models
	places *places
	// figures are a ledger's, a hub's and a router's.
	figures *figures
	key     string
}

// places says where collateral is taken. Without an answer it is out of reach.
type places struct {
	settlementv1.CollateralServiceClient
	answer *settlementv1.GetContractsResponse
}

func (p *places) GetContracts(
	context.Context, *settlementv1.GetContractsRequest, ...grpc.CallOption,
) (*settlementv1.GetContractsResponse, error) {
	if p.answer == nil {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "settlement is away")
	}
	return p.answer, nil
}

var testConfig = Config{
	CallTimeout: time.Second, ExplainTimeout: time.Second, Kept: 3, KeptBytes: 64 << 10, KeptFor: 10 * time.Minute,
	DemandFor: time.Minute, DemandKept: time.Hour, Networks: 3,
	SignUps: quota.Rate{Calls: 5, Span: time.Hour}, Keys: quota.Rate{Calls: 4, Span: time.Hour},
	LogIns: quota.Rate{Calls: 3, Span: time.Minute}, Challenges: quota.Rate{Calls: 3, Span: time.Minute},
}

func setup(t testing.TB) *bundle {
	t.Helper()
	b := &bundle{
		clock: clock.NewManual(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)), key: newKey(t, apikey.Provider),
		hub: &hub{}, router: &router{}, ledger: &ledger{}, models: &models{},
		places: &places{}, figures: &figures{},
	}
	b.router.figures = b.figures
	b.ledger.fresh = timestamppb.New(b.clock.Now().Add(15 * time.Minute))
	b.hub.status = func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		return &hubv1.GetOwnStatusResponse{
			Provider: &hubv1.Provider{ProviderId: "p1", Name: "One", Status: hubv1.ProviderStatus_PROVIDER_STATUS_PENDING},
		}, nil
	}
	guard := auth.New(nil, b.clock, auth.Config{Known: 1, Refused: 1, WrongKeys: 3, WrongKeyNetworks: 3, Tokens: 3})
	api, err := New(Peers{
		Self: b.hub, Users: b.ledger, Demand: b.ledger, Models: b.models, Router: b.router, Auth: guard, Clock: b.clock,
		Stats: b.figures, Providers: b.figures,
		Collateral: b.places,
	}, testConfig)
	if err != nil {
		t.Fatal(err)
	}
	b.API = api
	return b
}

func newKey(t testing.TB, kind apikey.Prefix) string {
	t.Helper()
	key, err := apikey.Generate(kind, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// with is a call with a credential, from an address of its own unless the caller names one.
func with(credential, body string) Call {
	c := Call{Header: http.Header{}, Query: url.Values{}, Body: []byte(body), From: netip.MustParseAddr("203.0.113.1")}
	if credential != "" {
		c.Header.Set("Authorization", "Bearer "+credential)
	}
	return c
}

func (b *bundle) decode(t testing.TB, a Answer, into any) {
	t.Helper()
	if err := json.Unmarshal(a.JSON, into); err != nil {
		t.Fatalf("%v in %s", err, a.JSON)
	}
}

type hub struct {
	hubv1.ProviderSelfServiceClient
	status func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error)
	signUp func(*hubv1.SignUpRequest) (*hubv1.SignUpResponse, error)
	update func(*hubv1.UpdateOwnRequest) error
	// ofUser is update in a user's name.
	ofUser func(*hubv1.UpdateOfUserRequest) error
	issued []*hubv1.IssueKeyRequest
	asked  int
	// challenged and proofs are what was asked of challenges and of signatures.
	challenged []*hubv1.CreateChallengeRequest
	proofs     []*hubv1.ProveOwnerRequest
	proveErr   error
}

func (h *hub) GetOwnStatus(
	ctx context.Context, req *hubv1.GetOwnStatusRequest, _ ...grpc.CallOption,
) (*hubv1.GetOwnStatusResponse, error) {
	h.asked++
	if _, bounded := ctx.Deadline(); !bounded {
		panic("a call without a deadline")
	}
	return h.status(req)
}

func (h *hub) SignUp(_ context.Context, req *hubv1.SignUpRequest, _ ...grpc.CallOption) (*hubv1.SignUpResponse, error) {
	h.asked++
	return h.signUp(req)
}

func (h *hub) UpdateOwn(
	_ context.Context, req *hubv1.UpdateOwnRequest, _ ...grpc.CallOption,
) (*hubv1.UpdateOwnResponse, error) {
	return &hubv1.UpdateOwnResponse{Provider: &hubv1.Provider{ProviderId: "p1", OwnerAddress: req.GetOwnerAddress()}},
		h.update(req)
}

func (h *hub) UpdateOfUser(
	_ context.Context, req *hubv1.UpdateOfUserRequest, _ ...grpc.CallOption,
) (*hubv1.UpdateOfUserResponse, error) {
	return &hubv1.UpdateOfUserResponse{Provider: &hubv1.Provider{ProviderId: "p1"}}, h.ofUser(req)
}

func (h *hub) IssueKey(
	_ context.Context, req *hubv1.IssueKeyRequest, _ ...grpc.CallOption,
) (*hubv1.IssueKeyResponse, error) {
	h.issued = append(h.issued, req)
	return &hubv1.IssueKeyResponse{KeyId: "k", ApiKey: "sk-prov-further"}, nil
}

func (h *hub) ProveOwner(
	_ context.Context, req *hubv1.ProveOwnerRequest, _ ...grpc.CallOption,
) (*hubv1.ProveOwnerResponse, error) {
	h.proofs = append(h.proofs, req)
	if h.proveErr != nil {
		return nil, h.proveErr
	}
	return &hubv1.ProveOwnerResponse{ProviderId: "p9", AccountId: "a9", Address: "0xAbC"}, nil
}

func (h *hub) CreateChallenge(
	_ context.Context, req *hubv1.CreateChallengeRequest, _ ...grpc.CallOption,
) (*hubv1.CreateChallengeResponse, error) {
	h.challenged = append(h.challenged, req)
	return &hubv1.CreateChallengeResponse{Nonce: "n"}, nil
}

type router struct {
	routerv1.RouterServiceClient
	figures *figures
	explain func(context.Context) (*routerv1.ExplainProviderResponse, error)
}

func (r *router) ExplainProvider(
	ctx context.Context, _ *routerv1.ExplainProviderRequest, _ ...grpc.CallOption,
) (*routerv1.ExplainProviderResponse, error) {
	if r.explain == nil {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	}
	return r.explain(ctx)
}

type ledger struct {
	billingv1.UserServiceClient
	user     *billingv1.User
	fresh    *timestamppb.Timestamp // until when the sign-in is
	noUser   error                  // instead of a user; nil for a session that nobody has
	linkErr  error
	networks []string // of sign-ins
	demand   []*billingv1.ModelDemand
	err      error
	hangs    bool // until the caller gives up
	asked    int
}

func (l *ledger) GetUser(
	context.Context, *billingv1.GetUserRequest, ...grpc.CallOption,
) (*billingv1.GetUserResponse, error) {
	l.asked++
	if l.noUser != nil {
		return nil, l.noUser
	}
	if l.user == nil {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "none")
	}
	return &billingv1.GetUserResponse{User: l.user, FreshUntil: l.fresh}, nil
}

func (l *ledger) GetSignInMethods(
	context.Context, *billingv1.GetSignInMethodsRequest, ...grpc.CallOption,
) (*billingv1.GetSignInMethodsResponse, error) {
	l.asked++
	return &billingv1.GetSignInMethodsResponse{Openid: []*billingv1.OpenIDProvider{{Name: "local", Label: "Local"}},
		Letters: true, Playground: true}, l.err
}

func (l *ledger) LinkProvider(
	_ context.Context, req *billingv1.LinkProviderRequest, _ ...grpc.CallOption,
) (*billingv1.LinkProviderResponse, error) {
	if l.linkErr != nil {
		return nil, l.linkErr
	}
	l.user.ProviderId = req.GetProviderId()
	return &billingv1.LinkProviderResponse{User: l.user}, nil
}

func (l *ledger) SignUpUser(
	_ context.Context, req *billingv1.SignUpUserRequest, _ ...grpc.CallOption,
) (*billingv1.SignUpUserResponse, error) {
	l.networks = append(l.networks, req.GetNetwork())
	return &billingv1.SignUpUserResponse{}, nil
}

func (l *ledger) LogInUser(
	_ context.Context, req *billingv1.LogInUserRequest, _ ...grpc.CallOption,
) (*billingv1.LogInUserResponse, error) {
	l.networks = append(l.networks, req.GetNetwork())
	return nil, fault.New(fault.Unauthenticated, fault.InvalidCredentials, "no user ann")
}

func (l *ledger) ListModelDemand(
	ctx context.Context, _ *billingv1.ListModelDemandRequest, _ ...grpc.CallOption,
) (*billingv1.ListModelDemandResponse, error) {
	l.asked++
	if l.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &billingv1.ListModelDemandResponse{Models: l.demand}, l.err
}

type models struct {
	catalogv1.PublicCatalogServiceClient
	list []*catalogv1.PublicModel
}

func (m *models) ListModels(
	_ context.Context, req *catalogv1.ListModelsRequest, _ ...grpc.CallOption,
) (*catalogv1.ListModelsResponse, error) {
	from := min(len(m.list), int(req.GetPage()-1)*int(req.GetPageSize()))
	to := min(len(m.list), from+int(req.GetPageSize()))
	return &catalogv1.ListModelsResponse{Data: &catalogv1.ListModelsData{List: m.list[from:to]}}, nil
}
