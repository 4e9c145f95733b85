package user

import (
	"context"
	"errors"
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
	started, err := u.OpenID.Start(ctx, issuer)
	if err != nil {
		return oidc.Started{}, ofOpenID(err)
	}
	return started, nil
}

// EnterByOpenID signs in the user whom an OpenID provider names, and opens one if open is set. An
// account that is opened so has no key, because nobody could be shown it: a browser comes here from
// the provider. It fails with issuer_not_found, user_not_found, invalid_credentials,
// rate_limit_exceeded and service_unavailable.
func (u *Users) EnterByOpenID(ctx context.Context, r oidc.Returned, open bool, from From) (SignedIn, error) {
	who, err := u.OpenID.Finish(ctx, r)
	if err != nil {
		return SignedIn{}, ofOpenID(err)
	}
	in, _, err := u.enter(ctx, proven{
		Identity: Identity{Issuer(who.Issuer), who.Subject},
		proof:    Proof{Nonce: who.Nonce, ForgetAt: who.EndsAt.Add(flowKept)}, account: "user of " + r.Name, keyless: true,
	}, open, from)
	return in, err
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
