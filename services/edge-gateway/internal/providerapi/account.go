package providerapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/quota"
)

// Bounds of the members, in characters. The hub has its own bounds, which are tighter.
const (
	maxName    = 256
	maxText    = 2000
	maxAddress = 256
	maxNonce   = 256
)

// maxSignature is in bytes, far above the length of a wallet's signature.
const maxSignature = 128

const (
	// defaultOverlap is how long a replaced key stays good when its provider names no
	// time, maxOverlap the longest time that the provider may name.
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 7 * 24 * time.Hour
)

// signUpDeprecated is the date since which providers sign up as users.
var signUpDeprecated = "@" + strconv.FormatInt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), 10)

// UpdateMe answers PUT /api/v1/provider/me: where earnings go and, with signature (0x and hexadecimal)
// and auth_nonce of a challenge, which wallet owns the account. A key may have leaked, so a key can only
// propose; agents in the field need the status 200 and read no more. The answer has the address that
// counts in beneficiary_address and the open proposals in proposals. A proposal waits until the
// account's user confirms it, or, for an account without a user, for 48 hours. What the account's user
// asks for by a session counts at once, so it takes a fresh sign-in; nothing is paid out to a new address
// for 48 hours. A bad signature is invalid_credentials, which is no verdict on the key.
func (a *API) UpdateMe(ctx context.Context, c Call) (Answer, error) {
	req := &hubv1.UpdateOwnRequest{}
	members := []member{
		{name: "beneficiary_address", text: &req.BeneficiaryAddress, limit: maxAddress},
		{name: "owner_address", text: &req.OwnerAddress, limit: maxAddress},
		{name: "signature", bytes: &req.Signature, limit: maxSignature},
		{name: "auth_nonce", text: &req.AuthNonce, limit: maxNonce},
	}
	update, message := a.updateByKey, "The account is as you say."
	if BySession(c.Header) {
		update = a.updateByUser
		message += " Nothing is paid out to a new beneficiary address for 48 hours."
	}
	p, err := update(ctx, c, req, members)
	if err != nil {
		return Answer{}, err
	}
	if len(p.GetProposals()) > 0 {
		message = "A key alone proposes: it counts once the account's user confirms it (POST " +
			"/api/v1/user/me/provider-proposals/{proposal_id}), or, of an account without a user, at takes_effect_at."
	}
	return answer(http.StatusOK, struct {
		Name   string `json:"name"`
		Status string `json:"status"`
		bindings
	}{p.GetName(), statusWord(p.GetStatus()), bindingsOf(p, message)})
}

// updateByKey proposes what a key's holder asks for.
func (a *API) updateByKey(
	ctx context.Context, c Call, req *hubv1.UpdateOwnRequest, members []member,
) (p *hubv1.Provider, err error) {
	err = a.withKey(ctx, c, func(ctx context.Context, d apikey.Digest) error {
		if req.GetBeneficiaryAddress() == "" && req.GetOwnerAddress() == "" {
			return a.refuse(ctx, d, missing("beneficiary_address"))
		}
		req.KeyDigest = d[:]
		resp, err := a.peers.Self.UpdateOwn(ctx, req)
		p = resp.GetProvider()
		if req.GetOwnerAddress() != "" && fault.Is(err, fault.InvalidAPIKey) {
			// A hub gives a bad signature the same error, which is no verdict on the key.
			return a.refuse(ctx, d, unsigned(err))
		}
		return ownerTaken(err, "owner_address")
	}, members...)
	return p, err
}

// updateByUser changes what the account's user asks for.
func (a *API) updateByUser(
	ctx context.Context, c Call, req *hubv1.UpdateOwnRequest, members []member,
) (p *hubv1.Provider, err error) {
	err = a.ofUser(ctx, c, a.freshProvider, func(ctx context.Context, u *billingv1.User) error {
		if req.GetBeneficiaryAddress() == "" && req.GetOwnerAddress() == "" {
			return missing("beneficiary_address")
		}
		resp, err := a.peers.Self.UpdateOfUser(ctx, &hubv1.UpdateOfUserRequest{UserId: u.GetUserId(),
			BeneficiaryAddress: req.GetBeneficiaryAddress(), OwnerAddress: req.GetOwnerAddress(),
			Signature: req.GetSignature(), AuthNonce: req.GetAuthNonce()})
		p = resp.GetProvider()
		switch {
		case fault.Is(err, fault.InvalidAPIKey) && req.GetOwnerAddress() != "":
			return unsigned(err)
		case fault.Is(err, fault.InvalidAPIKey): // no key was sent
			return walletMustSign(err)
		}
		return ownerTaken(err, "owner_address")
	}, members...)
	return p, err
}

// walletMustSign refuses a change that the account's user asks for without the wallet that owns the
// account.
func walletMustSign(cause error) error {
	return fault.Wrap(cause, fault.Denied, apierror.OwnerRequired,
		"A wallet owns this account. For earnings to go to another address, send owner_address, auth_nonce of a challenge "+
			"(POST /api/v1/provider/ws-challenge) and the wallet's signature too.").On("signature")
}

// RequestApproval answers POST /api/v1/provider/request-approval, to a key and to the session of the
// account's user: it asks for an operator's review.
func (a *API) RequestApproval(ctx context.Context, c Call) (Answer, error) {
	var resp interface {
		GetProvider() *hubv1.Provider
		GetRequestedAt() *timestamppb.Timestamp
	}
	req := &hubv1.RequestReviewRequest{}
	members := []member{
		{name: "provider_name", text: &req.ProviderName, limit: maxName},
		{name: "hardware_summary", text: &req.HardwareSummary, limit: maxText},
		{name: "contact_email", text: &req.ContactEmail, limit: maxText},
	}
	var err error
	if BySession(c.Header) {
		err = a.ofUser(ctx, c, a.provider, func(ctx context.Context, u *billingv1.User) (err error) {
			resp, err = a.peers.Self.RequestReviewOfUser(ctx, &hubv1.RequestReviewOfUserRequest{UserId: u.GetUserId(),
				ProviderName: req.GetProviderName(), HardwareSummary: req.GetHardwareSummary(),
				ContactEmail: req.GetContactEmail()})
			return err
		}, members...)
	} else {
		err = a.withKey(ctx, c, func(ctx context.Context, d apikey.Digest) (err error) {
			req.KeyDigest = d[:]
			resp, err = a.peers.Self.RequestReview(ctx, req)
			return err
		}, members...)
	}
	if err != nil {
		return Answer{}, err
	}
	p := resp.GetProvider()
	return answer(http.StatusOK, struct {
		ProviderID  string     `json:"provider_id"`
		Status      string     `json:"status"`
		Message     string     `json:"message"`
		RequestedAt *time.Time `json:"requested_at"`
	}{p.GetProviderId(), statusWord(p.GetStatus()), meaningOf(statusWord(p.GetStatus())), moment(resp.GetRequestedAt())})
}

// SignUp answers POST /api/v1/provider/signup, with which agents opened accounts before
// there were users. It is not idempotent, because nobody may get a key to an account for
// knowing its name. A claimed address binds nothing. An address whose wallet has signed a
// challenge is bound to the account for good.
func (a *API) SignUp(ctx context.Context, c Call) (Answer, error) {
	req := &hubv1.SignUpRequest{}
	err := c.read(
		member{name: "name", text: &req.Name, limit: maxName, required: true},
		member{name: "owner_address", text: &req.OwnerAddress, limit: maxAddress},
		member{name: "signature", bytes: &req.Signature, limit: maxSignature},
		member{name: "auth_nonce", text: &req.AuthNonce, limit: maxNonce})
	if err != nil {
		return Answer{}, err
	}
	resp, err := a.open(ctx, a.signUps, c, req, "owner_address")
	if err != nil {
		return Answer{}, err
	}
	p := resp.GetProvider()
	out, err := answer(http.StatusCreated, struct {
		ProviderID string   `json:"provider_id"`
		APIKey     string   `json:"api_key"`
		KeyPrefix  string   `json:"key_prefix"`
		Status     string   `json:"status"`
		CanConnect bool     `json:"can_connect"`
		Message    string   `json:"message"`
		NextSteps  []string `json:"next_steps"`
	}{p.GetProviderId(), resp.GetApiKey(), resp.GetKeyPrefix(), statusWord(p.GetStatus()), canConnect(p.GetStatus()),
		keyShownOnce, firstSteps})
	out.Header = http.Header{"Deprecation": {signUpDeprecated}, "Link": {`</api/v1/user/signup>; rel="successor-version"`}}
	return out, err
}

// open has a hub open an account. owner is the name of the member with the wallet's
// address.
func (a *API) open(
	ctx context.Context, q *quota.Quota, c Call, req *hubv1.SignUpRequest, owner string,
) (resp *hubv1.SignUpResponse, err error) {
	err = a.counted(ctx, q, c, func(ctx context.Context) error {
		resp, err = a.peers.Self.SignUp(ctx, req)
		return err
	})
	if fault.Is(err, fault.InvalidAPIKey) { // no key was sent
		return nil, unsigned(err)
	}
	return resp, ownerTaken(err, owner)
}

// unsigned returns the refusal of a signature.
func unsigned(cause error) error {
	return fault.Wrap(cause, fault.Unauthenticated, fault.InvalidCredentials,
		"The signature is not the wallet's, or its challenge is not known, was used, or has expired.").On("signature")
}

const keyShownOnce = "The account is open. Keep the key: it is not shown again."

// firstSteps are the steps that a new account is given. Its status call knows better
// later.
var firstSteps = []string{
	"Keep the key where the agent finds it.",
	"Start the agent, so that it connects and its machine is seen.",
	"Provide collateral: GET /api/v1/provider/collateral/contract says where it is taken.",
}

// ownerTaken says that the wallet address has an account already.
func ownerTaken(err error, param string) error {
	if !fault.Is(err, fault.AlreadyExists) {
		return err
	}
	return fault.Wrap(err, fault.Conflict, fault.AlreadyExists, "This wallet address has a provider account.").On(param)
}

// RotateKey answers POST /api/v1/provider/keys. It makes a further key, which is shown
// once; the key that was sent ends after overlap_seconds: a day unless the caller names a
// time, and at most seven days. It is not idempotent.
func (a *API) RotateKey(ctx context.Context, c Call) (Answer, error) {
	var resp *hubv1.RotateOwnKeyResponse
	req := &hubv1.RotateOwnKeyRequest{OverlapSeconds: int64(defaultOverlap / time.Second)}
	err := a.withKey(ctx, c, func(ctx context.Context, d apikey.Digest) (err error) {
		req.KeyDigest = d[:]
		resp, err = a.peers.Self.RotateOwnKey(ctx, req)
		return err
	},
		member{name: "name", text: &req.Name, limit: maxName},
		member{name: "overlap_seconds", number: &req.OverlapSeconds, limit: int64(maxOverlap / time.Second)})
	if err != nil {
		return Answer{}, err
	}
	return answer(http.StatusCreated, struct {
		KeyID           string     `json:"key_id"`
		APIKey          string     `json:"api_key"`
		KeyPrefix       string     `json:"key_prefix"`
		OldKeyExpiresAt *time.Time `json:"old_key_expires_at"`
		Message         string     `json:"message"`
	}{resp.GetKeyId(), resp.GetApiKey(), resp.GetKeyPrefix(), moment(resp.GetOldKeyExpiresAt()),
		"Keep the key: it is not shown again."})
}
