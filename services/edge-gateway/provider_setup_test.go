package edgegateway

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

const (
	openModel    = "acme/open-1" // of the public catalog
	sessionToken = "a-session-of-ann"
	sessionID    = "01890000-0000-7000-8000-0000000000bb"
	userID       = "01890000-0000-7000-8000-0000000000aa"
	// bobToken is the session of a user of another account, with the provider providerB.
	bobToken = "a-session-of-bob"
	bobID    = "01890000-0000-7000-8000-0000000000ba"
	// endedToken is of a session that its user has ended.
	endedToken = "a-session-that-is-over"
)

// selves is a hub's account of providers: it knows one key, and each owner's address
// once.
type selves struct {
	hubv1.UnimplementedProviderSelfServiceServer
	hubv1.UnimplementedProviderAdminServiceServer
	mu     sync.Mutex
	digest apikey.Digest
	err    error
	status hubv1.ProviderStatus
	opened []*hubv1.SignUpRequest
	asked  int
	users  []string // in whose name the account was changed
}

func (s *selves) changedBy() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users
}

func (s *selves) set(err error, status hubv1.ProviderStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.status = err, status
}

func (s *selves) signedUp() []*hubv1.SignUpRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

func (s *selves) check(digest []byte) error {
	s.asked++
	if s.err != nil {
		return s.err
	}
	if string(digest) != string(s.digest[:]) {
		return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "no such key as %x", digest)
	}
	return nil
}

func (s *selves) provider() *hubv1.Provider {
	return &hubv1.Provider{ProviderId: providerA, Name: "Provider <a>", Status: s.status, Uptime_24H: 0.5,
		Uptime_30D: 0.25, Online: true}
}

func (s *selves) GetOwnStatus(_ context.Context, req *hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.provider()
	if p.ProviderId = req.GetProviderId(); p.ProviderId == "" {
		p.ProviderId = providerA
		if err := s.check(req.GetKeyDigest()); err != nil {
			return nil, err
		}
	}
	return &hubv1.GetOwnStatusResponse{
		Provider: p, Label: "Label", Step: 2, StepLabel: "connect", NextSteps: []string{"Connect."},
		Nodes: []*hubv1.ProviderNode{{NodeId: "n1", NodeName: `"><script>`, Dialect: "v1", Online: true}},
	}, nil
}

// ofUser is the provider of a user who signed in.
func (s *selves) ofUser(user string) (*hubv1.Provider, error) {
	p := s.provider()
	switch user {
	case userID:
	case bobID:
		p.ProviderId = providerB
	default:
		return nil, fault.New(fault.NotFound, fault.ProviderNotFound, "no provider of %s", user)
	}
	s.users = append(s.users, user)
	return p, nil
}

func (s *selves) UpdateOwn(_ context.Context, req *hubv1.UpdateOwnRequest) (*hubv1.UpdateOwnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(req.GetKeyDigest()); err != nil {
		return nil, err
	}
	p, err := paying(s.provider(), req.GetBeneficiaryAddress())
	return &hubv1.UpdateOwnResponse{Provider: p}, err
}

// paying has earnings go to an address.
func paying(p *hubv1.Provider, to string) (*hubv1.Provider, error) {
	if !strings.HasPrefix(to, "0x") {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "This is no address.").On("beneficiary_address")
	}
	p.BeneficiaryAddress = to
	return p, nil
}

func (s *selves) UpdateOfUser(
	_ context.Context, req *hubv1.UpdateOfUserRequest,
) (*hubv1.UpdateOfUserResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.ofUser(req.GetUserId())
	if err != nil {
		return nil, err
	}
	p, err = paying(p, req.GetBeneficiaryAddress())
	return &hubv1.UpdateOfUserResponse{Provider: p}, err
}

func (s *selves) RequestReview(
	_ context.Context, req *hubv1.RequestReviewRequest,
) (*hubv1.RequestReviewResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(req.GetKeyDigest()); err != nil {
		return nil, err
	}
	p, err := reviewed(s.provider())
	return &hubv1.RequestReviewResponse{Provider: p, RequestedAt: timestamppb.Now()}, err
}

// reviewed has an account looked at.
func reviewed(p *hubv1.Provider) (*hubv1.Provider, error) {
	if p.GetStatus() == hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED {
		return nil, fault.New(fault.Precondition, fault.TransitionNotAllowed, "A suspended account has no review.")
	}
	p.Status = hubv1.ProviderStatus_PROVIDER_STATUS_UNDER_REVIEW
	return p, nil
}

func (s *selves) RequestReviewOfUser(
	_ context.Context, req *hubv1.RequestReviewOfUserRequest,
) (*hubv1.RequestReviewOfUserResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.ofUser(req.GetUserId())
	if err != nil {
		return nil, err
	}
	p, err = reviewed(p)
	return &hubv1.RequestReviewOfUserResponse{Provider: p, RequestedAt: timestamppb.Now()}, err
}

func (s *selves) SignUp(_ context.Context, req *hubv1.SignUpRequest) (*hubv1.SignUpResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	for _, other := range s.opened {
		same := req.GetUserId() != "" && other.GetUserId() == req.GetUserId()
		if !same && req.GetOwnerAddress() != "" && other.GetOwnerAddress() == req.GetOwnerAddress() {
			return nil, fault.New(fault.Conflict, fault.AlreadyExists, "the address has an account")
		}
	}
	s.opened = append(s.opened, req)
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		return nil, err
	}
	p := s.provider()
	p.Name, p.Status = req.GetName(), hubv1.ProviderStatus_PROVIDER_STATUS_PENDING
	return &hubv1.SignUpResponse{Provider: p, ApiKey: key, KeyPrefix: apikey.Shown(key)}, nil
}

func (s *selves) RotateOwnKey(_ context.Context, req *hubv1.RotateOwnKeyRequest) (*hubv1.RotateOwnKeyResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(req.GetKeyDigest()); err != nil {
		return nil, err
	}
	return &hubv1.RotateOwnKeyResponse{
		KeyId: "k2", ApiKey: "sk-prov-second", KeyPrefix: "sk-prov-seco",
		OldKeyExpiresAt: &timestamppb.Timestamp{Seconds: req.GetOverlapSeconds()},
	}, nil
}

func (s *selves) CreateChallenge(
	_ context.Context, req *hubv1.CreateChallengeRequest,
) (*hubv1.CreateChallengeResponse, error) {
	return &hubv1.CreateChallengeResponse{Nonce: "n0nce", Message: "sign in with " + req.GetAddress(),
		ExpiresAt: timestamppb.Now()}, nil
}

func (s *selves) IssueKey(_ context.Context, req *hubv1.IssueKeyRequest) (*hubv1.IssueKeyResponse, error) {
	return &hubv1.IssueKeyResponse{KeyId: "k3", ApiKey: "sk-prov-of-" + req.GetProviderId(), KeyPrefix: "sk-prov-of-0"},
		nil
}

// people is a ledger's account of users: it knows Ann and Bob.
type people struct {
	billingv1.UnimplementedUserServiceServer
	billingv1.UnimplementedUserSelfServiceServer
	mu       sync.Mutex
	provider string
	linkErr  error
	stale    bool // everybody signed in too long ago
	ended    []*billingv1.EndSessionRequest

	walletLogIns []*billingv1.LogInWalletRequest
}

func (p *people) set(provider string, linkErr error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.provider, p.linkErr = provider, linkErr
}

// freshUntil is until when sign-ins are fresh, which is over for stale people.
func (p *people) freshUntil() *timestamppb.Timestamp {
	if p.stale {
		return timestamppb.New(time.Now().Add(-time.Hour))
	}
	return timestamppb.New(time.Now().Add(time.Hour))
}

func (p *people) ann() *billingv1.User {
	return &billingv1.User{UserId: userID, Email: "ann@example.org", DisplayName: "Ann", AccountId: "account-1",
		ProviderId: p.provider}
}

func (p *people) SignUpUser(
	_ context.Context, req *billingv1.SignUpUserRequest,
) (*billingv1.SignUpUserResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if req.GetEmail() == "taken@example.org" {
		return nil, fault.New(fault.Conflict, fault.AlreadyExists, "the e-mail has a user")
	}
	return &billingv1.SignUpUserResponse{User: p.ann(), Token: sessionToken, ExpiresAt: timestamppb.Now(),
		ApiKey: "sk-svc-first"}, nil
}

func (p *people) LogInUser(_ context.Context, req *billingv1.LogInUserRequest) (*billingv1.LogInUserResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if req.GetPassword() != "correct horse" {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidCredentials, "no user %s with that password",
			req.GetEmail())
	}
	resp := &billingv1.LogInUserResponse{User: p.ann(), Token: sessionToken, ExpiresAt: timestamppb.Now()}
	if req.GetRemember() {
		resp.RefreshToken, resp.RefreshExpiresAt = refreshToken, timestamppb.New(time.Now().Add(time.Hour))
	}
	return resp, nil
}

func (p *people) GetUser(_ context.Context, req *billingv1.GetUserRequest) (*billingv1.GetUserResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch apikey.Digest(req.GetTokenDigest()) {
	case apikey.Sum(sessionToken):
		return &billingv1.GetUserResponse{User: p.ann(), SessionId: sessionID, FreshUntil: p.freshUntil()}, nil
	case apikey.Sum(bobToken):
		return &billingv1.GetUserResponse{User: &billingv1.User{UserId: bobID, AccountId: "account-2",
			ProviderId: providerB}, SessionId: "of bob", FreshUntil: p.freshUntil()}, nil
	case apikey.Sum(endedToken):
		return nil, fault.New(fault.Unauthenticated, fault.SessionExpired, "it was ended")
	}
	return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "no such session")
}

func (p *people) LinkProvider(
	_ context.Context, req *billingv1.LinkProviderRequest,
) (*billingv1.LinkProviderResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.linkErr != nil {
		return nil, p.linkErr
	}
	p.provider = req.GetProviderId()
	return &billingv1.LinkProviderResponse{User: p.ann()}, nil
}

// asked is a ledger's account of what was asked for.
type asked struct {
	billingv1.UnimplementedDemandServiceServer
}

func (asked) ListModelDemand(
	context.Context, *billingv1.ListModelDemandRequest,
) (*billingv1.ListModelDemandResponse, error) {
	return &billingv1.ListModelDemandResponse{Models: []*billingv1.ModelDemand{{ModelId: openModel, Requests_24H: 30,
		RequestsBefore: 20}}}, nil
}

// publicFigures is what a ledger and a hub say of the whole service.
type publicFigures struct {
	billingv1.UnimplementedStatsServiceServer
	hubv1.UnimplementedPublicProviderServiceServer
}

func (publicFigures) GetStats(context.Context, *billingv1.GetStatsRequest) (*billingv1.GetStatsResponse, error) {
	requests, rate := int64(30), 0.75
	return &billingv1.GetStatsResponse{MadeAt: timestamppb.Now(), Last_24H: &billingv1.RequestFigures{Requests: &requests},
		Models: []*billingv1.ModelFigures{{ModelId: openModel, Figures: &billingv1.RequestFigures{Requests: &requests,
			SuccessRate: &rate}}}}, nil
}

func (*router) ListOnlineProviders(
	context.Context, *routerv1.ListOnlineProvidersRequest,
) (*routerv1.ListOnlineProvidersResponse, error) {
	return &routerv1.ListOnlineProvidersResponse{Providers: []*routerv1.OnlineProvider{{ProviderId: "p", Models: 1}}}, nil
}

func (publicFigures) ListActiveProviders(
	context.Context, *hubv1.ListActiveProvidersRequest,
) (*hubv1.ListActiveProvidersResponse, error) {
	return &hubv1.ListActiveProvidersResponse{Total: 1, Providers: []*hubv1.ActiveProvider{{ProviderId: "p", Name: "P"}}},
		nil
}

// newSelves makes a hub that knows one key, and gives the key.
func newSelves(t testing.TB) (*selves, string) {
	t.Helper()
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &selves{digest: apikey.Sum(key), status: hubv1.ProviderStatus_PROVIDER_STATUS_PENDING}, key
}

func (publicCatalog) ListCatalog(
	context.Context, *catalogv1.ListCatalogRequest,
) (*catalogv1.ListCatalogResponse, error) {
	return &catalogv1.ListCatalogResponse{Msg: "success", Data: &catalogv1.ListCatalogData{
		Models: []*catalogv1.CatalogModel{{ModelId: "Qwen/Qwen3-8B", Name: "Qwen3 8B", Category: "llm", FileCount: 1,
			TotalSizeBytes: 16e9}}, Total: 1,
	}}, nil
}

func (publicCatalog) ListModelFiles(
	_ context.Context, req *catalogv1.ListModelFilesRequest,
) (*catalogv1.ListModelFilesResponse, error) {
	return &catalogv1.ListModelFilesResponse{Msg: "success", Data: &catalogv1.ModelFiles{
		ModelId: req.GetModelId(), FileCount: 1, TotalSizeBytes: 16e9,
		Files: []*catalogv1.ModelFile{{Filename: "model.safetensors", Hash: "ab", Algorithm: "sha256", SizeBytes: 16e9,
			Url: "https://weights.example/model.safetensors"}},
	}}, nil
}
