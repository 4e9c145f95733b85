package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/oidc"
)

// flowKept is how long the nonce of a used sign-in is remembered beyond its end. With oidc.Life it is
// less than the 15 minutes for which the database keeps a proof at most.
const flowKept = time.Minute

// StartOpenID begins a sign-in at an OpenID provider. It fails with issuer_not_found and
// service_unavailable.
func (u *Users) StartOpenID(ctx context.Context, issuer string) (oidc.Started, error) {
	return u.startOpenID(ctx, issuer, oidc.Link{})
}

// StartOpenIDLink has a user who is signed in begin to link an identity of an OpenID provider. What
// the link needs of the user and the session is looked at when it ends. It fails as StartOpenID does.
func (u *Users) StartOpenIDLink(ctx context.Context, issuer string, id ID, family FamilyID) (oidc.Started, error) {
	return u.startOpenID(ctx, issuer, oidc.Link{User: id.String(), Session: family.String()})
}

func (u *Users) startOpenID(ctx context.Context, issuer string, link oidc.Link) (oidc.Started, error) {
	started, err := u.OpenID.Start(ctx, issuer, link)
	if err != nil {
		return oidc.Started{}, ofOpenID(err)
	}
	return started, nil
}

// SignInMethods are how users may sign in beside a password and a wallet, as the installation is set up.
type SignInMethods struct {
	// Issuers are the names of the OpenID providers.
	Issuers []string
	// Letters reports whether letters are sent.
	Letters bool
}

// SignInMethods returns how users may sign in.
func (u *Users) SignInMethods() SignInMethods {
	return SignInMethods{Issuers: u.OpenID.Names(), Letters: u.SendsLetters}
}

// OpenIDEnd is what came of a sign-in or a link at an OpenID provider. Exactly one of the two is not
// zero.
type OpenIDEnd struct {
	SignedIn
	Linked OwnedIdentity
}

// FinishOpenID ends what StartOpenID or StartOpenIDLink has begun. The flow says which of the two,
// and no browser can change it. A sign-in signs in the user of the identity that the provider names,
// and opens one if there is none and open is set. A link links the identity to the user who began it
// (see link), and signs nobody in. An account that is opened here has no key, because the browser
// comes from the provider and could not be shown it. FinishOpenID fails with issuer_not_found,
// user_not_found, invalid_credentials, rate_limit_exceeded and service_unavailable, and as link does.
func (u *Users) FinishOpenID(ctx context.Context, r oidc.Returned, open bool, from From) (end OpenIDEnd, err error) {
	who, err := u.OpenID.Finish(ctx, r)
	if err != nil {
		return OpenIDEnd{}, ofOpenID(err)
	}
	shown := proven{
		Identity: Identity{Issuer(who.Issuer), who.Subject},
		proof:    Proof{Nonce: who.Nonce, ForgetAt: who.EndsAt.Add(flowKept)}, account: "user of " + r.Name, keyless: true,
	}
	if who.Link == (oidc.Link{}) {
		end.SignedIn, _, err = u.enter(ctx, shown, open, from)
		return end, err
	}
	id, errID := ParseID(who.Link.User)
	family, errFamily := ParseFamily(who.Link.Session)
	if err := errors.Join(errID, errFamily); err != nil {
		return OpenIDEnd{}, fmt.Errorf("read the flow of a link: %w", err)
	}
	end.Linked, err = u.link(ctx, id, family, shown)
	return end, err
}

func ofOpenID(err error) error {
	switch {
	case errors.Is(err, oidc.ErrUnknown):
		return fault.New(fault.NotFound, fault.IssuerNotFound, "there is no such issuer").On("issuer")
	case errors.Is(err, oidc.ErrRefused):
		return fault.Wrap(err, fault.Unauthenticated, fault.InvalidCredentials, "the sign-in does not count; begin again")
	case errors.Is(err, oidc.ErrAway):
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "the OpenID provider does not answer")
	}
	return err
}
