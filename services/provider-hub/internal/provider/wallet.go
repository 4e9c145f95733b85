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
	// nonceKept is how long a spent nonce is kept beyond its challenge, because hubs'
	// clocks may differ.
	nonceKept = 5 * time.Minute

	// A nonce has 32 bytes: random bytes, the time of issue in milliseconds, and an HMAC
	// by which the fleet recognizes its own nonces.
	nonceRandom = 10
	nonceTime   = 6
	nonceSeed   = nonceRandom + nonceTime
	nonceBytes  = 32
)

// Nonce is the nonce of a challenge. Its text is 64 hexadecimal digits.
type Nonce [nonceBytes]byte

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
	return wallet.Challenge{
		Domain: s.Domain, URI: s.URI, ChainID: s.ChainID, Nonce: "00000000", IssuedAt: now, ExpiresAt: now.Add(challengeTime),
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
	Address   wallet.Address
	Nonce     Nonce
	ExpiresAt time.Time
}

// Proven reports whether an address is proven to be the owner's.
func (a *Account) Proven(address wallet.Address) bool {
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

func (d *Directory) ask(address wallet.Address, act Act) (Challenge, error) {
	var n Nonce
	if _, err := io.ReadFull(d.random, n[:nonceRandom]); err != nil {
		return Challenge{}, fmt.Errorf("read randomness for a nonce: %w", err)
	}
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(d.clock.Now().UnixMilli()))
	copy(n[nonceRandom:nonceSeed], at[len(at)-nonceTime:])
	copy(n[nonceSeed:], d.seal(address, n, act))
	text := hex.EncodeToString(n[:])
	return Challenge{Nonce: text, Message: d.message(address, n, text, act), ExpiresAt: n.expires()}, nil
}

// issued is when the challenge was made, to the millisecond, as in its text.
func (n Nonce) issued() time.Time {
	var at [8]byte
	copy(at[len(at)-nonceTime:], n[nonceRandom:nonceSeed])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(at[:])))
}

func (n Nonce) expires() time.Time { return n.issued().Add(challengeTime) }

// seal is the HMAC of a nonce. It covers the whole text of the challenge, with the
// nonce's bytes before the HMAC in the nonce's place. So it holds for this wallet,
// domain, chain, purpose and time alone, and any hub recognizes it.
func (d *Directory) seal(address wallet.Address, n Nonce, act Act) []byte {
	mac := hmac.New(sha256.New, d.challenges)
	mac.Write([]byte(d.message(address, n, hex.EncodeToString(n[:nonceSeed]), act)))
	return mac.Sum(nil)[:nonceBytes-nonceSeed]
}

// challengeSecret derives the secret of challenges. It says nothing of the pepper.
func challengeSecret(pepper apikey.Pepper) []byte {
	mac := hmac.New(sha256.New, pepper[:])
	mac.Write([]byte("svc.internal/services/provider-hub: secret of wallet challenges"))
	return mac.Sum(nil)
}

func (d *Directory) message(address wallet.Address, n Nonce, nonceText string, act Act) string {
	return wallet.Message(wallet.Challenge{
		Domain: d.site.Domain, Address: address, URI: d.site.URI, ChainID: d.site.ChainID, Nonce: nonceText,
		IssuedAt: n.issued(), ExpiresAt: n.expires(), Purpose: act.text(),
	})
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
	address, err := wallet.ParseAddress(owner)
	if err != nil {
		return Proof{}, unsigned("owner_address is no wallet address")
	}
	var n Nonce
	if len(nonceText) != hex.EncodedLen(nonceBytes) {
		return Proof{}, Spent()
	}
	if _, err := hex.Decode(n[:], []byte(nonceText)); err != nil || !hmac.Equal(d.seal(address, n, act), n[nonceSeed:]) {
		return Proof{}, unsigned("the challenge is not known, or was made for another wallet or purpose")
	}
	if !d.clock.Now().Before(n.expires()) {
		return Proof{}, Spent()
	}
	signer, err := wallet.Recover(d.message(address, n, nonceText, act), signature)
	if err != nil || signer != address {
		return Proof{}, unsigned("the signature is not the wallet's, or not of this challenge")
	}
	return Proof{Address: address, Nonce: n, ExpiresAt: n.expires()}, nil
}

// Spent is the error of a challenge that does not count any more.
func Spent() error { return unsigned("the challenge is not known, was used, or has expired") }

func unsigned(why string) error {
	return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "%s", why)
}

// parseAddress reads the address of a wallet in a field of a call.
func parseAddress(field, text string) (wallet.Address, error) {
	address, err := wallet.ParseAddress(text)
	if err != nil {
		return wallet.Address{}, fault.New(fault.Invalid, fault.InvalidValue, "%s is no wallet address: %s", field,
			err.Error()).On(field)
	}
	return address, nil
}
