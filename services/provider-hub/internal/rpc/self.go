package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// Self answers hub.v1.ProviderSelfService.
type Self struct {
	hubv1.UnimplementedProviderSelfServiceServer
	accounts *provider.Directory
	presence Sessions
}

// Sessions are the sessions of this hub.
type Sessions interface {
	Presence
	// KeyRevoked closes the sessions that were made with a key.
	KeyRevoked(id ids.KeyID)
}

// NewSelf serves accounts, and applies changes to the sessions here.
func NewSelf(accounts *provider.Directory, here Sessions) *Self {
	return &Self{accounts: accounts, presence: here}
}

// digestFromProto reads the digest of a key. Malformed bytes are no key.
func digestFromProto(raw []byte) (apikey.Digest, error) {
	if len(raw) != len(apikey.Digest{}) {
		return apikey.Digest{}, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "this is no provider key")
	}
	return apikey.Digest(raw), nil
}

// GetOwnStatus returns a provider's status as its owner sees it.
func (s *Self) GetOwnStatus(ctx context.Context, m *hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
	id, keyExpires, err := s.reader(ctx, m)
	if err != nil {
		return nil, err
	}
	detail, err := s.accounts.Detail(ctx, id)
	if err != nil {
		return nil, err
	}
	detail.Online = detail.Online || s.presence.Online(id)
	shown := detail.Show(s.accounts.Now(), keyExpires)
	return &hubv1.GetOwnStatusResponse{
		Provider: accountToProto(detail.Account, detail.Online, s.accounts), CanConnect: detail.Status.MayConnect(),
		ShownStatus: shown.Status, Label: shown.Label, Step: int32(shown.Step), StepLabel: shown.StepLabel,
		NextSteps: shown.NextSteps, Warning: shown.Warning, Nodes: nodesToProto(detail.Nodes),
		AnsweredAs: answeredToProto(shown.AnsweredAs), Payee: payeeToProto(&detail.Account),
	}, nil
}

// reader is whose status is read: the holder of a key, with when the key expires, or the
// account of a user who signed in.
func (s *Self) reader(ctx context.Context, m *hubv1.GetOwnStatusRequest) (ids.ProviderID, time.Time, error) {
	if text := m.GetProviderId(); text != "" && len(m.GetKeyDigest()) == 0 {
		id, err := providerID(text)
		return id, time.Time{}, err
	}
	digest, err := digestFromProto(m.GetKeyDigest())
	if err != nil {
		return ids.ProviderID{}, time.Time{}, err
	}
	holder, err := s.accounts.Holder(ctx, digest)
	return holder.ID, holder.KeyExpires, err
}

// UpdateOwn proposes where earnings go, and whose wallet owns the account.
func (s *Self) UpdateOwn(ctx context.Context, m *hubv1.UpdateOwnRequest) (*hubv1.UpdateOwnResponse, error) {
	digest, err := digestFromProto(m.GetKeyDigest())
	if err != nil {
		return nil, err
	}
	account, err := s.accounts.UpdateOwn(ctx, digest, changeFromProto(m))
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.UpdateOwnResponse{Provider: p}, nil
}

// UpdateOfUser changes, for a user who signed in, where earnings go, and whose wallet owns the account.
func (s *Self) UpdateOfUser(
	ctx context.Context, m *hubv1.UpdateOfUserRequest,
) (*hubv1.UpdateOfUserResponse, error) {
	account, err := s.accounts.UpdateOfUser(ctx, m.GetUserId(), changeFromProto(m))
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.UpdateOfUserResponse{Provider: p}, nil
}

// changeFromProto reads what a key's holder or a user changes.
func changeFromProto(m interface {
	GetBeneficiaryAddress() string
	GetOwnerAddress() string
	GetAuthNonce() string
	GetSignature() []byte
}) provider.OwnChange {
	return provider.OwnChange{
		Beneficiary: m.GetBeneficiaryAddress(), Owner: m.GetOwnerAddress(), Nonce: m.GetAuthNonce(),
		Signature: m.GetSignature(),
	}
}

// RequestReview asks an operator to look at the account.
func (s *Self) RequestReview(ctx context.Context, m *hubv1.RequestReviewRequest) (*hubv1.RequestReviewResponse, error) {
	digest, err := digestFromProto(m.GetKeyDigest())
	if err != nil {
		return nil, err
	}
	account, err := s.accounts.RequestReview(ctx, digest, applicationFromProto(m))
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.RequestReviewResponse{Provider: p, RequestedAt: timestamppb.New(account.ReviewRequestedAt)}, nil
}

// RequestReviewOfUser asks an operator to look at the account of a user who signed in.
func (s *Self) RequestReviewOfUser(
	ctx context.Context, m *hubv1.RequestReviewOfUserRequest,
) (*hubv1.RequestReviewOfUserResponse, error) {
	account, err := s.accounts.RequestReviewOfUser(ctx, m.GetUserId(), applicationFromProto(m))
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.RequestReviewOfUserResponse{Provider: p,
		RequestedAt: timestamppb.New(account.ReviewRequestedAt)}, nil
}

// applicationFromProto reads what an account says when it asks for a review.
func applicationFromProto(m interface {
	GetProviderName() string
	GetHardwareSummary() string
	GetContactEmail() string
}) provider.Application {
	return provider.Application{Name: m.GetProviderName(), Hardware: m.GetHardwareSummary(), Email: m.GetContactEmail()}
}

// SignUp opens an account in status pending with one key, shown once. The idempotency key
// is ignored, because a caller that guesses one would get a key.
func (s *Self) SignUp(ctx context.Context, m *hubv1.SignUpRequest) (*hubv1.SignUpResponse, error) {
	account, key, text, err := s.accounts.SignUp(ctx, provider.Applicant{
		Name: m.GetName(), Region: m.GetRegion(), Owner: m.GetOwnerAddress(), Beneficiary: m.GetBeneficiaryAddress(),
		Nonce: m.GetAuthNonce(), Signature: m.GetSignature(), User: m.GetUserId(),
		AccountID: m.GetAccountId(),
	})
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.SignUpResponse{Provider: p, ApiKey: text, KeyPrefix: key.Shown}, nil
}

// IssueKey makes a further key for a user's account and shows it once.
func (s *Self) IssueKey(ctx context.Context, m *hubv1.IssueKeyRequest) (*hubv1.IssueKeyResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	key, text, err := s.accounts.IssueOwnKey(ctx, id, m.GetName())
	if err != nil {
		return nil, err
	}
	return &hubv1.IssueKeyResponse{KeyId: key.ID.String(), ApiKey: text, KeyPrefix: key.Shown}, nil
}

// RotateOwnKey makes a further key, and the key that was shown expires.
func (s *Self) RotateOwnKey(ctx context.Context, m *hubv1.RotateOwnKeyRequest) (*hubv1.RotateOwnKeyResponse, error) {
	digest, err := digestFromProto(m.GetKeyDigest())
	if err != nil {
		return nil, err
	}
	// A number that would wrap around is out of range too.
	seconds := min(max(m.GetOverlapSeconds(), -1), 1<<30)
	key, text, ends, err := s.accounts.RotateKey(ctx, digest, m.GetName(), time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return &hubv1.RotateOwnKeyResponse{
		KeyId: key.ID.String(), ApiKey: text, KeyPrefix: key.Shown, OldKeyExpiresAt: timestamppb.New(ends),
	}, nil
}
