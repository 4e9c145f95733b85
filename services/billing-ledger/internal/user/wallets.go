package user

import (
	"context"
	"slices"

	"svc.internal/pkg/siwe"
)

// AskWallet makes the text that a wallet signs. It keeps nothing, and says nothing of who has the
// wallet, so anybody may ask. It fails with invalid_value.
func (u *Users) AskWallet(_ context.Context, ask WalletAsk) (WalletChallenge, error) {
	address, err := siwe.ParseAddress(ask.Address)
	if err != nil {
		return WalletChallenge{}, invalid("address", "is no wallet address: %s", err.Error())
	}
	if ask.ChainID == 0 {
		ask.ChainID = u.Wallets.Chains[0]
	}
	if !slices.Contains(u.Wallets.Chains, ask.ChainID) {
		return WalletChallenge{}, invalid("chain_id", "must be one of %v", u.Wallets.Chains)
	}
	domain, ok := domainOf(ask.Origin)
	if !ok {
		return WalletChallenge{}, invalid("origin", "must be the origin of a page")
	}
	c, err := u.Wallets.sealers[0].Issue(siwe.Challenge{
		Domain: domain, Address: address, URI: ask.Origin, ChainID: ask.ChainID, Purpose: purposeFor(ask.User),
	}, u.Clock.Now(), u.Random)
	if err != nil {
		return WalletChallenge{}, err
	}
	if err := c.Validate(); err != nil {
		return WalletChallenge{}, invalid("origin", "cannot be shown by a wallet: %s", err.Error())
	}
	return WalletChallenge{Message: siwe.Message(c), ExpiresAt: c.ExpiresAt}, nil
}

// EnterByWallet signs in the user of a wallet; see enter.
func (u *Users) EnterByWallet(
	ctx context.Context, p WalletProof, open bool, from From,
) (in SignedIn, keyText string, err error) {
	who, err := u.Wallets.proven(p, ID{}, u.Clock.Now())
	if err != nil {
		return SignedIn{}, "", err
	}
	return u.enter(ctx, who, open, from)
}

// LinkWallet links a wallet to a user who is signed in; see link.
func (u *Users) LinkWallet(ctx context.Context, id ID, family FamilyID, p WalletProof) (OwnedIdentity, error) {
	who, err := u.Wallets.proven(p, id, u.Clock.Now())
	if err != nil {
		return OwnedIdentity{}, err
	}
	return u.link(ctx, id, family, who)
}
