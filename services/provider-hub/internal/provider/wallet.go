package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/services/provider-hub/internal/wallet"
)

const (
	challengeTime = 5 * time.Minute
	// nonceKept is how long a spent nonce is kept beyond its challenge: hubs'
	// clocks may differ.
	nonceKept = 5 * time.Minute
	purpose   = "Connect a provider agent to this service. It costs nothing and moves nothing."

	// A nonce is 32 bytes: random ones, the time of issue in milliseconds, and
	// an HMAC by which the fleet knows it for its own.
	nonceRandom = 10
	nonceTime   = 6
	nonceSeed   = nonceRandom + nonceTime
	nonceBytes  = 32
)

// Nonce is that of a challenge. Its text is 64 hexadecimal digits.
type Nonce [nonceBytes]byte

// Site is what wallets sign for: a signature for another one counts for nothing.
type Site struct {
	// Domain is the host of the service, and URI the address that agents dial.
	Domain, URI string
	ChainID     int64
}

// Validate reports whether wallets can be asked to sign for the site.
func (s Site) Validate() error {
	now := time.Unix(0, 0)
	return wallet.Challenge{
		Domain: s.Domain, URI: s.URI, ChainID: s.ChainID, Nonce: "00000000", IssuedAt: now, ExpiresAt: now.Add(challengeTime),
		Purpose: purpose,
	}.Validate()
}

// walletStore lets wallets in. Of challenges it keeps those that were answered.
type walletStore interface {
	// Spend takes a proof, which nobody can after it. It fails with
	// invalid_api_key when somebody has.
	Spend(ctx context.Context, p Proof) error
	// Enter spends a proof and reads the account that its wallet is proven to own,
	// with a fresh epoch, in one transaction. known is false when there is none;
	// then nothing is spent. It fails as Spend.
	Enter(ctx context.Context, p Proof) (c Credential, known bool, err error)
}

// Proof is that a wallet has signed a challenge of this fleet in time. It counts
// once.
type Proof struct {
	Address   wallet.Address
	Nonce     Nonce
	ExpiresAt time.Time
}

// Proven reports whether an address is known to be the owner's.
func (a *Account) Proven(address wallet.Address) bool {
	return !a.OwnerProvenAt.IsZero() && a.Owner == address.String()
}

// Challenge is a challenge as its wallet is shown it.
type Challenge struct {
	Nonce, Message string
	ExpiresAt      time.Time
}

// Ask makes what a wallet signs to connect, and keeps nothing: whoever asks in
// another's name takes nothing from him. It fails with invalid_value.
func (d *Directory) Ask(_ context.Context, addressText string) (Challenge, error) {
	address, err := parseAddress("address", addressText)
	if err != nil {
		return Challenge{}, err
	}
	var n Nonce
	if _, err := io.ReadFull(d.random, n[:nonceRandom]); err != nil {
		return Challenge{}, fmt.Errorf("read randomness for a nonce: %w", err)
	}
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(d.clock.Now().UnixMilli()))
	copy(n[nonceRandom:nonceSeed], at[len(at)-nonceTime:])
	copy(n[nonceSeed:], d.seal(address, n))
	text := hex.EncodeToString(n[:])
	return Challenge{Nonce: text, Message: d.message(address, n, text), ExpiresAt: n.expires()}, nil
}

// issued is when the challenge was made, to the millisecond, as its text has it.
func (n Nonce) issued() time.Time {
	var at [8]byte
	copy(at[len(at)-nonceTime:], n[nonceRandom:nonceSeed])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(at[:])))
}

func (n Nonce) expires() time.Time { return n.issued().Add(challengeTime) }

// seal is the HMAC of a nonce. It covers the whole text of the challenge, with
// what comes before the HMAC in the nonce's place: so it holds for this wallet,
// domain, chain, purpose and time alone.
func (d *Directory) seal(address wallet.Address, n Nonce) []byte {
	mac := hmac.New(sha256.New, d.challenges)
	mac.Write([]byte(d.message(address, n, hex.EncodeToString(n[:nonceSeed]))))
	return mac.Sum(nil)[:nonceBytes-nonceSeed]
}

// challengeSecret says nothing of the pepper that it is derived from.
func challengeSecret(pepper apikey.Pepper) []byte {
	mac := hmac.New(sha256.New, pepper[:])
	mac.Write([]byte("svc.internal/services/provider-hub: secret of wallet challenges"))
	return mac.Sum(nil)
}

func (d *Directory) message(address wallet.Address, n Nonce, nonceText string) string {
	return wallet.Message(wallet.Challenge{
		Domain: d.site.Domain, Address: address, URI: d.site.URI, ChainID: d.site.ChainID, Nonce: nonceText,
		IssuedAt: n.issued(), ExpiresAt: n.expires(), Purpose: purpose,
	})
}

// AuthenticateWallet answers whose wallet signed the challenge of a nonce, with
// a fresh epoch. It fails with invalid_api_key or account_frozen.
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

// prove tells that a wallet has signed a challenge of ours that has not expired.
// Whether it was spent is the store's to say. It fails with invalid_api_key.
func (d *Directory) prove(owner, nonceText string, signature []byte) (Proof, error) {
	address, err := wallet.ParseAddress(owner)
	if err != nil {
		return Proof{}, unsigned("owner_address is no wallet address")
	}
	var n Nonce
	if len(nonceText) != hex.EncodedLen(nonceBytes) {
		return Proof{}, Spent()
	}
	if _, err := hex.Decode(n[:], []byte(nonceText)); err != nil || !hmac.Equal(d.seal(address, n), n[nonceSeed:]) {
		return Proof{}, unsigned("the challenge is not known, or was made for another wallet")
	}
	if !d.clock.Now().Before(n.expires()) {
		return Proof{}, Spent()
	}
	signer, err := wallet.Recover(d.message(address, n, nonceText), signature)
	if err != nil || signer != address {
		return Proof{}, unsigned("the signature is not the wallet's, or not of this challenge")
	}
	return Proof{Address: address, Nonce: n, ExpiresAt: n.expires()}, nil
}

// Spent is that a challenge counts no more.
func Spent() error { return unsigned("the challenge is not known, was used, or has expired") }

func unsigned(why string) error {
	return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "%s", why)
}
