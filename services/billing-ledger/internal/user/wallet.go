package user

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/siwe"
)

// A wallet signs in by a challenge (EIP-4361) of a page of the installation. The wallet shows its
// owner the page's domain and a sentence. The sentence of a sign-in is another than that of a link,
// which names the user, and both differ from those of provider-hub. So a signature is good for
// one wallet, page, chain and purpose, once, for siwe.Life.
//
// Nothing is kept of a challenge until it is answered: its nonce is sealed under a secret of the
// installation.
const (
	signInText = "Sign in to your account. This moves nothing and costs nothing."
	linkText   = "Link this wallet, whose owner may sign in from then on, to the account of the user "
)

// maxWalletSkew is how far ahead the clock may be of the replica that issued a challenge.
const maxWalletSkew = time.Minute

// Chains are the chains of which wallets may name one. Nothing is asked of a chain, and a wallet has
// one address on all of them.
type Chains []int64

// Wallets makes and recognizes the challenges of wallets.
type Wallets struct {
	// Chains has at least one chain. The first is for those that name none.
	Chains Chains
	// sealers recognize challenges. The first one makes them.
	sealers []siwe.Sealer
}

// NewWallets makes the challenges of an installation, whose secret follows from its current pepper.
func NewWallets(peppers apikey.Peppers, chains Chains) *Wallets {
	w := &Wallets{Chains: chains}
	for pepper := range peppers.Each {
		mac := hmac.New(sha256.New, pepper[:])
		mac.Write([]byte("svc.internal/services/billing-ledger: secret of wallet challenges"))
		w.sealers = append(w.sealers, siwe.NewSealer(mac.Sum(nil)))
	}
	return w
}

// issued gives a challenge the times of its nonce. It reports whether the installation made the nonce
// for this challenge, under any of its peppers.
func (w *Wallets) issued(c siwe.Challenge, n siwe.Nonce) (siwe.Challenge, bool) {
	for _, sealer := range w.sealers {
		if issued, ours := sealer.Issued(c, n); ours {
			return issued, true
		}
	}
	return c, false
}

// WalletAsk says what a wallet is asked to sign.
type WalletAsk struct {
	Address string
	// ChainID is 0 for the first of the chains.
	ChainID int64
	// Origin is that of the page that asks, such as https://console.example.com. The gateway
	// vouches that it is one of the installation.
	Origin string
	// User is the user whom the wallet shall be linked to; zero to sign in.
	User ID
}

// WalletChallenge is a text for a wallet to sign.
type WalletChallenge struct {
	Message   string
	ExpiresAt time.Time
}

// WalletProof is a text that a wallet has signed.
type WalletProof struct {
	Message   string
	Signature []byte
	// Origins are those of the installation's pages.
	Origins []string
}

// proven finds the wallet that has signed a challenge of this installation: to sign in for the zero
// user, and else to be linked to that user. Whether the challenge was used before is for the store
// to find. It fails with invalid_credentials.
func (w *Wallets) proven(p WalletProof, id ID, now time.Time) (proven, error) {
	c, err := siwe.Parse(p.Message)
	if err != nil {
		return proven{}, unproven("the message is none that was asked for here")
	}
	domain, _ := domainOf(c.URI)
	switch {
	case c.Domain != domain || !slices.Contains(p.Origins, c.URI):
		return proven{}, unproven("the message is for another site")
	case !slices.Contains(w.Chains, c.ChainID):
		return proven{}, unproven("the message is for another chain")
	case c.Purpose != purposeFor(id):
		return proven{}, unproven("the message is for another purpose")
	}
	nonce, ok := siwe.ParseNonce(c.Nonce)
	if !ok {
		return proven{}, unproven("the message is none that was asked for here")
	}
	// The sealer gives the challenge the times of its nonce, so other times make another text.
	issued, ours := w.issued(c, nonce)
	switch {
	case !ours || siwe.Message(issued) != p.Message:
		return proven{}, unproven("the message is none that was asked for here")
	case !now.Before(issued.ExpiresAt) || issued.IssuedAt.After(now.Add(maxWalletSkew)):
		return proven{}, unproven("the challenge is over; ask for a fresh one")
	}
	signer, err := siwe.Recover(p.Message, p.Signature)
	switch {
	case errors.Is(err, siwe.ErrContractWallet):
		return proven{}, unproven(siwe.ErrContractWallet.Error())
	case err != nil || signer != c.Address:
		return proven{}, unproven("it is not the wallet's, or not of this message")
	}
	return proven{
		Identity: Identity{Wallet, strings.ToLower(signer.String())},
		proof:    Proof{Nonce: Digest(nonce), ForgetAt: issued.ExpiresAt.Add(proofKept)}, account: signer.String(),
	}, nil
}

// purposeFor is the sentence that a wallet shows: to sign in for the zero user.
func purposeFor(id ID) string {
	if id.IsZero() {
		return signInText
	}
	return linkText + id.String() + "."
}

// domainOf returns the host of an origin, with its port.
func domainOf(origin string) (string, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || origin != u.Scheme+"://"+u.Host {
		return "", false
	}
	return u.Host, true
}
