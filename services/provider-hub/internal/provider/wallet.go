package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/siwe"
)

// nonceKept is how long a spent nonce is kept beyond its challenge, because hubs' clocks may
// differ.
const nonceKept = 5 * time.Minute

// Site is the site that wallets sign for. A signature for another site counts for
// nothing.
type Site struct {
	// Domain is the host of the service, and URI the address that agents dial.
	Domain, URI string
	ChainID     int64
}

// Validate fails unless wallets can be asked to sign for the site.
func (s Site) Validate() error {
	now := time.Unix(0, 0)
	return siwe.Challenge{
		Domain: s.Domain, URI: s.URI, ChainID: s.ChainID, Nonce: "00000000", IssuedAt: now, ExpiresAt: now.Add(siwe.Life),
		Purpose: connectText,
	}.Validate()
}

// walletStore is what wallets need of a store. It keeps only challenges that were
// answered.
type walletStore interface {
	// Spend spends a proof, so that nobody can show it again. It fails with
	// invalid_api_key when somebody has.
	Spend(ctx context.Context, p Proof) error
	// Enter spends a proof and reads the account that its wallet is proven to own, with a
	// fresh epoch, in one transaction. known is false when there is none; then nothing is
	// spent. It fails as Spend.
	Enter(ctx context.Context, p Proof) (c Credential, known bool, err error)
}

// Proof is the proof that a wallet has signed a challenge of this fleet in time. It
// counts once.
type Proof struct {
	Address   siwe.Address
	Nonce     siwe.Nonce
	ExpiresAt time.Time
}

// Proven reports whether an address is proven to be the owner's.
func (a *Account) Proven(address siwe.Address) bool {
	return !a.OwnerProvenAt.IsZero() && a.Owner == address.String()
}

// Challenge is a challenge as its wallet is shown it.
type Challenge struct {
	Nonce, Message string
	ExpiresAt      time.Time
}

// Ask makes the challenge that a wallet signs to connect. It keeps nothing, so asking in
// another's name costs that owner nothing. It fails with invalid_value.
func (d *Directory) Ask(_ context.Context, addressText string) (Challenge, error) {
	address, err := parseAddress("address", addressText)
	if err != nil {
		return Challenge{}, err
	}
	return d.ask(address, Act{})
}

// ask makes the challenge of an act.
func (d *Directory) ask(address siwe.Address, act Act) (Challenge, error) {
	c, err := d.challenges[0].Issue(d.challenge(address, act), d.clock.Now(), d.random)
	if err != nil {
		return Challenge{}, err
	}
	return Challenge{Nonce: c.Nonce, Message: siwe.Message(c), ExpiresAt: c.ExpiresAt}, nil
}

// challenge is the challenge of an act, without its nonce and its times.
func (d *Directory) challenge(address siwe.Address, act Act) siwe.Challenge {
	return siwe.Challenge{
		Domain: d.site.Domain, Address: address, URI: d.site.URI, ChainID: d.site.ChainID, Purpose: act.text(),
	}
}

// issued gives a challenge the times of its nonce. It reports whether the fleet made the nonce for this
// challenge, under any of its peppers.
func (d *Directory) issued(c siwe.Challenge, n siwe.Nonce) (siwe.Challenge, bool) {
	for _, sealer := range d.challenges {
		if issued, ours := sealer.Issued(c, n); ours {
			return issued, true
		}
	}
	return c, false
}

// challengeSecret derives the secret of challenges. It says nothing of the pepper.
func challengeSecret(pepper apikey.Pepper) []byte {
	mac := hmac.New(sha256.New, pepper[:])
	mac.Write([]byte("svc.internal/services/provider-hub: secret of wallet challenges"))
	return mac.Sum(nil)
}

// AuthenticateWallet returns the provider whose wallet signed the challenge of a nonce,
// with a fresh epoch. It fails with invalid_api_key or account_frozen.
func (d *Directory) AuthenticateWallet(ctx context.Context, owner, nonce string, signature []byte) (Credential, error) {
	proof, err := d.prove(owner, nonce, signature)
	if err != nil {
		return Credential{}, err
	}
	if err := d.settleOwner(ctx, proof.Address); err != nil {
		return Credential{}, err
	}
	c, known, err := d.store.Enter(ctx, proof)
	switch {
	case err != nil:
		return Credential{}, err
	case !known:
		return Credential{}, unsigned("no provider is proven to have this wallet")
	}
	return c, c.admissible()
}

// prove verifies that a wallet has signed a challenge of ours to connect that has not
// expired.
// Whether the challenge was spent is checked in the store. It fails with invalid_api_key.
func (d *Directory) prove(owner, nonceText string, signature []byte) (Proof, error) {
	return d.proveAct(owner, nonceText, signature, Act{})
}

// proveAct is prove for the challenge of an act.
func (d *Directory) proveAct(owner, nonceText string, signature []byte, act Act) (Proof, error) {
	address, err := siwe.ParseAddress(owner)
	if err != nil {
		return Proof{}, unsigned("owner_address is no wallet address")
	}
	n, ok := siwe.ParseNonce(nonceText)
	if !ok {
		return Proof{}, Spent()
	}
	c, ours := d.issued(d.challenge(address, act), n)
	if !ours {
		return Proof{}, unsigned("the challenge is not known, or was made for another wallet or purpose")
	}
	if !d.clock.Now().Before(c.ExpiresAt) {
		return Proof{}, Spent()
	}
	signer, err := siwe.Recover(siwe.Message(c), signature)
	if err != nil || signer != address {
		return Proof{}, unsigned("the signature is not the wallet's, or not of this challenge")
	}
	return Proof{Address: address, Nonce: n, ExpiresAt: c.ExpiresAt}, nil
}

// Spent is the error of a challenge that does not count any more.
func Spent() error { return unsigned("the challenge is not known, was used, or has expired") }

func unsigned(why string) error {
	return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "%s", why)
}

// parseAddress reads the address of a wallet in a field of a call. The zero address is refused: nobody
// can sign with it, and what is paid to it is lost.
func parseAddress(field, text string) (siwe.Address, error) {
	address, err := siwe.ParseAddress(text)
	if err != nil {
		return siwe.Address{}, fault.New(fault.Invalid, fault.InvalidValue, "%s is no wallet address: %s", field,
			err.Error()).On(field)
	}
	if address.IsZero() {
		return siwe.Address{}, fault.New(fault.Invalid, fault.InvalidValue,
			"%s must not be the zero address, because that belongs to nobody", field).On(field)
	}
	return address, nil
}
