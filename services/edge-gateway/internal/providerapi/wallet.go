package providerapi

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/edge-gateway/internal/apierror"
)

// maxWalletMessage bounds what a wallet has signed in characters, far above the length of a
// challenge.
const maxWalletMessage = 4096

// WalletChallenge answers POST /api/v1/user/wallet/challenge: the text that a wallet signs to
// sign its user in.
func (a *API) WalletChallenge(ctx context.Context, c Call) (Answer, error) {
	return a.askWallet(ctx, c, "")
}

// LinkChallenge answers POST /api/v1/user/me/identities/wallet/challenge: the text that a wallet
// signs to be linked to the user who is signed in. It names the user, so that nobody has a wallet
// linked to another account than its owner has read.
func (a *API) LinkChallenge(ctx context.Context, c Call) (Answer, error) {
	u, err := a.user(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	return a.askWallet(ctx, c, u.GetUserId())
}

func (a *API) askWallet(ctx context.Context, c Call, userID string) (Answer, error) {
	req := &billingv1.CreateWalletChallengeRequest{UserId: userID}
	err := c.read(
		member{name: "address", text: &req.Address, limit: maxAddress, required: true},
		member{name: "chain_id", number: &req.ChainId, limit: math.MaxInt32})
	if err != nil {
		return Answer{}, err
	}
	if req.Origin, err = a.originOf(c.Header); err != nil {
		return Answer{}, err
	}
	var resp *billingv1.CreateWalletChallengeResponse
	err = a.counted(ctx, a.userChallenges, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.CreateWalletChallenge(ctx, req)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return answer(http.StatusOK, struct {
		Message   string     `json:"message"`
		ExpiresAt *time.Time `json:"expires_at"`
	}{resp.GetMessage(), moment(resp.GetExpiresAt())})
}

// originOf returns the origin that a wallet signs for: that of the page that calls, or, of a
// program, the first of ours. It is one of the configured ones and never the host of the call,
// because whoever calls names that: a page of somebody else could have a wallet sign for its own
// domain, where the wallet does not warn, and sign in here.
func (a *API) originOf(h http.Header) (string, error) {
	said := h.Values("Origin")
	switch {
	case len(a.cfg.Origins) == 0:
		return "", noOrigins()
	case len(said) == 0:
		return a.cfg.Origins[0], nil
	case len(said) == 1 && slices.Contains(a.cfg.Origins, said[0]):
		return said[0], nil
	}
	return "", fault.New(fault.Denied, apierror.OriginNotAllowed, "A wallet signs for pages of this site alone.")
}

func noOrigins() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable,
		"No wallet can sign in here, because the installation names no origin of its pages.")
}

// LogInWallet answers POST /api/v1/user/wallet/login: it signs in the user of a wallet, as LogIn
// does. Of a wallet that is seen for the first time it opens a user with a consumer account and its
// first key, which counts as a sign-up.
func (a *API) LogInWallet(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.LogInWalletRequest{Origins: a.cfg.Origins, NetworkShown: shownNetwork(c.From),
		Remember: a.ours(c.Header)}
	if err := a.readProof(c, &req.Message, &req.Signature); err != nil {
		return Answer{}, err
	}
	var resp *billingv1.LogInWalletResponse
	enter := func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.LogInWallet(ctx, req)
		return err
	}
	err := a.counted(ctx, a.logIns, c, enter)
	if fault.Is(err, fault.UserNotFound) {
		req.Open = true // the signature still counts
		err = a.counted(ctx, a.userSigns, c, enter)
	}
	if err != nil {
		return Answer{}, ofWallet(err)
	}
	in := session{Token: resp.GetToken(), ExpiresAt: moment(resp.GetExpiresAt()), User: userOf(resp.GetUser())}
	status := http.StatusOK
	if resp.GetApiKey() != "" {
		status, in.APIKey, in.Message = http.StatusCreated, resp.GetApiKey(), keyShownOnce
	}
	out, err := answer(status, in)
	return withCookie(out, err, resp.GetRefreshToken(), moment(resp.GetRefreshExpiresAt()))
}

// readProof reads what a wallet has signed.
func (a *API) readProof(c Call, message *string, signature *[]byte) error {
	err := c.read(
		member{name: "message", text: message, limit: maxWalletMessage, required: true},
		member{name: "signature", bytes: signature, limit: maxSignature})
	switch {
	case err != nil:
		return err
	case len(*signature) == 0:
		return missing("signature")
	case len(a.cfg.Origins) == 0:
		return noOrigins()
	}
	return nil
}

// ofWallet gives the refusal of a signature the words of the public.
func ofWallet(err error) error {
	if !fault.Is(err, fault.InvalidCredentials) {
		return err
	}
	return fault.Wrap(err, fault.Unauthenticated, fault.InvalidCredentials,
		"The signature does not count: it must be the wallet's own, of a message that was asked for here, within 5 minutes, "+
			"for this purpose, and that was not used before. Signatures of contract wallets are not taken.").On("signature")
}

// LinkWallet answers POST /api/v1/user/me/identities/wallet: it links a wallet to the user who is
// signed in, by a session that began just now.
func (a *API) LinkWallet(ctx context.Context, c Call) (Answer, error) {
	in, err := a.SignedIn(ctx, c.Header, c.From)
	if err != nil {
		return Answer{}, err
	}
	req := &billingv1.LinkWalletRequest{UserId: in.GetUser().GetUserId(), SessionId: in.GetSessionId(),
		Origins: a.cfg.Origins}
	if err := a.readProof(c, &req.Message, &req.Signature); err != nil {
		return Answer{}, err
	}
	var resp *billingv1.LinkWalletResponse
	err = a.counted(ctx, a.logIns, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.LinkWallet(ctx, req)
		return err
	})
	switch {
	case fault.Is(err, fault.AlreadyExists):
		return Answer{}, fault.Wrap(err, fault.Conflict, fault.AlreadyExists, "Another user signs in by this wallet.")
	case err != nil:
		return Answer{}, ofWallet(err)
	}
	one := resp.GetIdentity()
	return answer(http.StatusOK, struct {
		IdentityID string     `json:"identity_id"`
		Issuer     string     `json:"issuer"`
		Subject    string     `json:"subject"`
		CreatedAt  *time.Time `json:"created_at"`
		UsedAt     *time.Time `json:"used_at"`
	}{one.GetIdentityId(), one.GetIssuer(), one.GetSubject(), moment(one.GetCreatedAt()), moment(one.GetUsedAt())})
}
