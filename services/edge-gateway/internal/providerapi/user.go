package providerapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/pkg/address"
)

// maxPassword bounds a password in characters, as billing-ledger does.
const maxPassword = 256

// user is a user as agents know it.
type user struct {
	ID          string `json:"id"`
	Email       string `json:"email"`
	DisplayName string `json:"display_name"`
	AccountType string `json:"account_type"`
	AccountID   string `json:"account_id"`
	ProviderID  string `json:"provider_id,omitempty"`
}

func userOf(u *billingv1.User) user {
	kind := "consumer"
	if u.GetProviderId() != "" {
		kind = "provider"
	}
	return user{u.GetUserId(), u.GetEmail(), u.GetDisplayName(), kind, u.GetAccountId(), u.GetProviderId()}
}

// session is a user who is signed in.
type session struct {
	Token     string     `json:"token"`
	ExpiresAt *time.Time `json:"expires_at"`
	User      user       `json:"user"`
	APIKey    string     `json:"api_key,omitempty"`
	Message   string     `json:"message,omitempty"`
}

// UserSignUp answers POST /api/v1/user/signup: it makes a user, a consumer account and
// its first key, and signs the user in. A page of ours gets a cookie besides; programs get
// none.
func (a *API) UserSignUp(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.SignUpUserRequest{Network: NetworkOf(c.From), NetworkShown: shownNetwork(c.From),
		Remember: a.ours(c.Header)}
	err := c.read(
		member{name: "email", text: &req.Email, limit: maxText, required: true},
		member{name: "password", text: &req.Password, limit: maxPassword, required: true},
		member{name: "display_name", text: &req.DisplayName, limit: maxName})
	if err != nil {
		return Answer{}, err
	}
	var resp *billingv1.SignUpUserResponse
	err = a.counted(ctx, a.userSigns, c, func(ctx context.Context) error {
		resp, err = a.peers.Users.SignUpUser(ctx, req)
		return err
	})
	if fault.Is(err, fault.AlreadyExists) {
		return Answer{}, fault.Wrap(err, fault.Conflict, fault.AlreadyExists,
			"This e-mail address has an account. Sign in instead.")
	}
	if err != nil {
		return Answer{}, err
	}
	out, err := answer(http.StatusCreated, session{resp.GetToken(), moment(resp.GetExpiresAt()), userOf(resp.GetUser()),
		resp.GetApiKey(), keyShownOnce})
	return withCookie(out, err, resp.GetRefreshToken(), moment(resp.GetRefreshExpiresAt()))
}

// LogIn answers POST /api/v1/user/login: it signs a user in, as UserSignUp does.
func (a *API) LogIn(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.LogInUserRequest{Network: NetworkOf(c.From), NetworkShown: shownNetwork(c.From),
		Remember: a.ours(c.Header)}
	err := c.read(
		member{name: "email", text: &req.Email, limit: maxText, required: true},
		member{name: "password", text: &req.Password, limit: maxPassword, required: true})
	if err != nil {
		return Answer{}, err
	}
	var resp *billingv1.LogInUserResponse
	err = a.counted(ctx, a.logIns, c, func(ctx context.Context) error {
		resp, err = a.peers.Users.LogInUser(ctx, req)
		return err
	})
	if fault.Is(err, fault.InvalidCredentials) {
		// An unknown e-mail address and a wrong password get the same text.
		return Answer{}, fault.New(fault.Unauthenticated, fault.InvalidCredentials,
			"The e-mail address or the password is wrong.")
	}
	if err != nil {
		return Answer{}, err
	}
	out, err := answer(http.StatusOK, session{Token: resp.GetToken(), ExpiresAt: moment(resp.GetExpiresAt()),
		User: userOf(resp.GetUser())})
	return withCookie(out, err, resp.GetRefreshToken(), moment(resp.GetRefreshExpiresAt()))
}

// NetworkOf returns a digest of a caller's network (of IPv6, a /64). billing-ledger
// counts failed sign-ins of an e-mail address by it and knows the networks that a user
// has signed in from, without knowing an address.
func NetworkOf(from netip.Addr) string {
	digest := sha256.Sum256([]byte(address.Network(from).String()))
	return hex.EncodeToString(digest[:])
}

// alreadyProvider has the words by which agents know that they should ask for a key
// instead.
func alreadyProvider(cause error) error {
	return fault.Wrap(cause, fault.Conflict, fault.AlreadyExists, "This user is already a provider.")
}

// Upgrade answers POST /api/v1/consumer/upgrade-to-provider: it opens a provider account
// for a user. A user has one account, however often the call is made. A call that broke
// off is completed by the next call, whatever that says, and the further key of the
// account is shown then.
func (a *API) Upgrade(ctx context.Context, c Call) (Answer, error) {
	u, err := a.user(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	// A hub knows an account that was begun by its user, whatever else differs now.
	req := &hubv1.SignUpRequest{UserId: u.GetUserId(), AccountId: u.GetAccountId()}
	var worker, description string // known members that nobody keeps
	err = c.read(
		member{name: "name", text: &req.Name, limit: maxName, required: true},
		member{name: "wallet_address", text: &req.OwnerAddress, limit: maxAddress},
		member{name: "signature", bytes: &req.Signature, limit: maxSignature},
		member{name: "auth_nonce", text: &req.AuthNonce, limit: maxNonce},
		member{name: "beneficiary_address", text: &req.BeneficiaryAddress, limit: maxAddress},
		member{name: "worker_address", text: &worker, limit: maxAddress},
		member{name: "description", text: &description, limit: maxText})
	if err != nil {
		return Answer{}, err
	}
	if u.GetProviderId() != "" {
		return Answer{}, alreadyProvider(nil)
	}
	resp, err := a.open(ctx, a.upgrades, c, req, "wallet_address")
	if err != nil {
		return Answer{}, err
	}
	p := resp.GetProvider()
	if err := a.link(ctx, u, p); err != nil {
		return Answer{}, err
	}
	return answer(http.StatusCreated, struct {
		ProviderID        string   `json:"provider_id"`
		ProviderAPIKey    string   `json:"provider_api_key"`
		ProviderKeyPrefix string   `json:"provider_key_prefix"`
		Status            string   `json:"status"`
		CanConnect        bool     `json:"can_connect"`
		Message           string   `json:"message"`
		NextSteps         []string `json:"next_steps"`
	}{p.GetProviderId(), resp.GetApiKey(), resp.GetKeyPrefix(), statusWord(p.GetStatus()), canConnect(p.GetStatus()),
		keyShownOnce, firstSteps})
}

// link binds the account to the user. Its failure does not uncount the call, because each
// call makes a key.
func (a *API) link(ctx context.Context, u *billingv1.User, p *hubv1.Provider) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	_, err := a.peers.Users.LinkProvider(ctx, &billingv1.LinkProviderRequest{UserId: u.GetUserId(),
		ProviderId: p.GetProviderId()})
	if fault.Is(err, fault.TransitionNotAllowed) {
		return alreadyProvider(err)
	}
	if err != nil {
		return ofPeer(ctx, err)
	}
	return nil
}

// CreateProviderKey answers POST /api/v1/user/me/provider-keys: it makes a further key
// for the user's provider account. It is not idempotent.
func (a *API) CreateProviderKey(ctx context.Context, c Call) (Answer, error) {
	u, err := a.user(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	req := &hubv1.IssueKeyRequest{ProviderId: u.GetProviderId()}
	if err := c.read(member{name: "name", text: &req.Name, limit: maxName}); err != nil {
		return Answer{}, err
	}
	if req.GetProviderId() == "" {
		return Answer{}, noProvider()
	}
	var resp *hubv1.IssueKeyResponse
	err = a.counted(ctx, a.keys, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Self.IssueKey(ctx, req)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return answer(http.StatusCreated, struct {
		APIKey     string `json:"api_key"`
		ProviderID string `json:"provider_id"`
		KeyID      string `json:"key_id"`
		KeyPrefix  string `json:"key_prefix"`
		Message    string `json:"message"`
	}{resp.GetApiKey(), u.GetProviderId(), resp.GetKeyId(), resp.GetKeyPrefix(), "Keep the key: it is not shown again."})
}
