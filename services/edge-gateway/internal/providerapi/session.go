package providerapi

import (
	"context"
	"net/http"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// Bounds of what letters' readers send, in characters.
const maxLetterToken = 64

// done is the answer of a call that has nothing else to say.
type done struct {
	Message string `json:"message"`
}

// Refresh answers POST /api/v1/user/refresh: a token for the cookie, and the next cookie.
func (a *API) Refresh(ctx context.Context, c Call) (Answer, error) {
	if !a.ours(c.Header) {
		return Answer{}, notOurs()
	}
	token := cookieOf(c.Header)
	if token == "" {
		return Answer{}, noSession()
	}
	var resp *billingv1.RefreshSessionResponse
	err := a.counted(ctx, a.refreshes, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Users.RefreshSession(ctx, &billingv1.RefreshSessionRequest{RefreshToken: token,
			NetworkShown: shownNetwork(c.From)})
		return err
	})
	if fault.Is(err, fault.InvalidSession) || fault.Is(err, fault.SessionExpired) {
		return Answer{}, noSession()
	}
	if err != nil {
		return Answer{}, err
	}
	out, err := answer(http.StatusOK, session{Token: resp.GetToken(), ExpiresAt: moment(resp.GetExpiresAt()),
		User: userOf(resp.GetUser())})
	return withCookie(out, err, resp.GetRefreshToken(), moment(resp.GetRefreshExpiresAt()))
}

// LogOut answers POST /api/v1/user/logout: it ends the session of the bearer token, or of
// the cookie where there is no such token, or all sessions of its user.
func (a *API) LogOut(ctx context.Context, c Call) (Answer, error) {
	var everywhere bool
	req := &billingv1.EndSessionRequest{}
	token := cookieOf(c.Header)
	switch {
	case len(c.Header.Values("Authorization")) == 0 && token != "":
		if !a.ours(c.Header) {
			return Answer{}, notOurs()
		}
		digest := apikey.Sum(token)
		req.RefreshDigest = digest[:]
	default:
		if _, err := a.SignedIn(ctx, c.Header, c.From); err != nil {
			return Answer{}, err
		}
		digest, err := bearerDigest(c.Header)
		if err != nil {
			return Answer{}, err
		}
		req.TokenDigest = digest[:]
	}
	if err := c.read(member{name: "everywhere", flag: &everywhere}); err != nil {
		return Answer{}, err
	}
	req.Everywhere = everywhere
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if _, err := a.peers.Users.EndSession(called, req); err != nil && !fault.Is(err, fault.InvalidSession) {
		return Answer{}, ofPeer(ctx, err)
	}
	out, err := answer(http.StatusOK, done{"You are signed out."})
	out.Header = http.Header{}
	setCookie(out.Header, "", time.Time{})
	return out, err
}

// AskPasswordReset answers POST /api/v1/user/password/forgot: a letter goes to the e-mail
// address, if it has an account. The answer is the same for every address.
func (a *API) AskPasswordReset(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.AskPasswordResetRequest{}
	if err := c.read(member{name: "email", text: &req.Email, limit: maxText, required: true}); err != nil {
		return Answer{}, err
	}
	err := a.counted(ctx, a.letters, c, func(ctx context.Context) error {
		_, err := a.peers.Users.AskPasswordReset(ctx, req)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return answer(http.StatusOK, done{"If the address has an account, a letter is on its way."})
}

// ResetPassword answers POST /api/v1/user/password/reset: it sets a password by the token
// of a letter.
func (a *API) ResetPassword(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.ResetPasswordRequest{Network: NetworkOf(c.From)}
	err := c.read(
		member{name: "token", text: &req.Token, limit: maxLetterToken, required: true},
		member{name: "new_password", text: &req.NewPassword, limit: maxPassword, required: true})
	if err != nil {
		return Answer{}, err
	}
	return a.byLetter(ctx, c, func(ctx context.Context) error {
		_, err := a.peers.Users.ResetPassword(ctx, req)
		return err
	})
}

// ConfirmEmail answers POST /api/v1/user/email/confirm: it confirms an e-mail address by
// the token of a letter.
func (a *API) ConfirmEmail(ctx context.Context, c Call) (Answer, error) {
	req := &billingv1.ConfirmEmailRequest{}
	if err := c.read(member{name: "token", text: &req.Token, limit: maxLetterToken, required: true}); err != nil {
		return Answer{}, err
	}
	return a.byLetter(ctx, c, func(ctx context.Context) error {
		_, err := a.peers.Users.ConfirmEmail(ctx, req)
		return err
	})
}

// byLetter does what the token of a letter is for. Tries are counted by network.
func (a *API) byLetter(ctx context.Context, c Call, do func(context.Context) error) (Answer, error) {
	if err := a.counted(ctx, a.letterTokens, c, do); err != nil {
		return Answer{}, err
	}
	return answer(http.StatusOK, done{"It is done."})
}
