package providerapi

import (
	"context"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/auth"
)

// provider returns the user whose session a call carries. The user must have a provider
// account.
func (a *API) provider(ctx context.Context, c Call) (*billingv1.User, error) {
	u, err := a.user(ctx, c)
	if err != nil {
		return nil, err
	}
	if u.GetProviderId() == "" {
		return nil, noProvider()
	}
	return u, nil
}

func noProvider() error {
	return fault.New(fault.NotFound, fault.ProviderNotFound,
		"This user has no provider account. POST /api/v1/consumer/upgrade-to-provider opens one.")
}

// freshProvider is provider for a change of where money goes. The user must have signed in just now,
// because whoever copied the token of a session that is renewed for weeks must not take the money. It
// fails with fresh_sign_in_required, and with service_unavailable where billing-ledger is of an earlier
// release, which does not say how fresh a sign-in is.
func (a *API) freshProvider(ctx context.Context, c Call) (*billingv1.User, error) {
	in, err := a.SignedIn(ctx, c.Header, c.From)
	switch u := in.GetUser(); {
	case err != nil:
		return nil, err
	case u.GetProviderId() == "":
		return nil, noProvider()
	case in.GetFreshUntil() == nil:
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable,
			"A part of the service is being replaced. Try again in a while.")
	case !a.peers.Clock.Now().Before(in.GetFreshUntil().AsTime()):
		return nil, fault.New(fault.Denied, fault.FreshSignInRequired,
			"Sign in again: you can change the payout address or the owner's wallet only within 15 minutes of signing in.")
	default:
		return u, nil
	}
}

// whose finds the user whose session a call carries.
type whose func(context.Context, Call) (*billingv1.User, error)

// orKey is a session's user for a call that may carry a key as well.
func (w whose) orKey(ctx context.Context, c Call) (*billingv1.User, error) {
	u, err := w(ctx, c)
	if fault.Is(err, fault.InvalidSession) {
		return nil, auth.WrongKey() // nobody knows which of the two it was to be
	}
	return u, err
}

// ofUser reads the members of a call's body, and has a hub asked in the name of the user whose session
// the call carries, found by who. The user must have a provider account.
func (a *API) ofUser(
	ctx context.Context, c Call, who whose, ask func(context.Context, *billingv1.User) error, members ...member,
) error {
	u, err := who.orKey(ctx, c)
	if err != nil {
		return err
	}
	if err := c.read(members...); err != nil {
		return err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if err := ask(called, u); err != nil {
		return ofPeer(ctx, err)
	}
	return nil
}

// ownStatus reads the account of the provider that calls: by its key, or by the session of
// the account's user.
func (a *API) ownStatus(ctx context.Context, c Call) (resp *hubv1.GetOwnStatusResponse, err error) {
	if !BySession(c.Header) {
		err = a.withKey(ctx, c, func(ctx context.Context, d apikey.Digest) (err error) {
			resp, err = a.peers.Self.GetOwnStatus(ctx, &hubv1.GetOwnStatusRequest{KeyDigest: d[:]})
			return err
		})
		return resp, err
	}
	err = a.ofUser(ctx, c, a.provider, func(ctx context.Context, u *billingv1.User) (err error) {
		resp, err = a.peers.Self.GetOwnStatus(ctx, &hubv1.GetOwnStatusRequest{ProviderId: u.GetProviderId()})
		return err
	})
	return resp, err
}
