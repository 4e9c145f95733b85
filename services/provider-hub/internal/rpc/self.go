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

// UpdateOwn proposes where earnings go, and whose wallet owns the account. For a user who signed in it
// changes both.
func (s *Self) UpdateOwn(ctx context.Context, m *hubv1.UpdateOwnRequest) (*hubv1.UpdateOwnResponse, error) {
	account, err := s.updateOwn(ctx, m)
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.UpdateOwnResponse{Provider: p}, nil
}

func (s *Self) updateOwn(ctx context.Context, m *hubv1.UpdateOwnRequest) (provider.Account, error) {
	said := provider.OwnChange{
		Beneficiary: m.GetBeneficiaryAddress(), Owner: m.GetOwnerAddress(), Nonce: m.GetAuthNonce(),
		Signature: m.GetSignature(),
	}
	if byUser(m) {
		return s.accounts.UpdateOfUser(ctx, m.GetUserId(), said)
	}
	digest, err := digestFromProto(m.GetKeyDigest())
	if err != nil {
		return provider.Account{}, err
	}
	return s.accounts.UpdateOwn(ctx, digest, said)
}

// byUser reports whether a call is made for a user who signed in. A call that has a key is made by
// the key's holder alone.
func byUser(m interface {
	GetUserId() string
	GetKeyDigest() []byte
}) bool {
	return m.GetUserId() != "" && len(m.GetKeyDigest()) == 0
}

// RequestReview asks an operator to look at the account.
func (s *Self) RequestReview(ctx context.Context, m *hubv1.RequestReviewRequest) (*hubv1.RequestReviewResponse, error) {
	account, err := s.requestReview(ctx, m)
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.RequestReviewResponse{Provider: p, RequestedAt: timestamppb.New(account.ReviewRequestedAt)}, nil
}

func (s *Self) requestReview(ctx context.Context, m *hubv1.RequestReviewRequest) (provider.Account, error) {
	said := provider.Application{
		Name: m.GetProviderName(), Hardware: m.GetHardwareSummary(), Email: m.GetContactEmail(),
	}
	if byUser(m) {
		return s.accounts.RequestReviewOfUser(ctx, m.GetUserId(), said)
	}
	digest, err := digestFromProto(m.GetKeyDigest())
	if err != nil {
		return provider.Account{}, err
	}
	return s.accounts.RequestReview(ctx, digest, said)
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
