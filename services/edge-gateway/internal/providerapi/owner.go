package providerapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/idempotency"
)

// The headers of a call that the owner's wallet has signed.
const (
	// WalletAddress is the wallet's address.
	WalletAddress = "X-Svc-Wallet-Address"
	// WalletNonce is the nonce of the challenge that the wallet signed.
	WalletNonce = "X-Svc-Wallet-Nonce"
	// WalletSignature is the signature: 0x and hexadecimal digits.
	WalletSignature = "X-Svc-Wallet-Signature"
)

// owner is who acts on a provider's money.
type owner struct {
	ProviderID string
	// AccountID is the consumer account of the user who owns the provider; empty where no
	// user does.
	AccountID string
	// Actor names the owner in records: user:<user id> or wallet:<address>.
	Actor string
	// IdempotencyKey is the call's key; empty for methods that need none.
	IdempotencyKey string
}

// owner returns who acts on a provider's money by a call, and reads the members of the
// call's body. It is the only place that decides this: every route that moves money calls
// it, and passes on what it returns.
//
// Two credentials do. One is the session of the user who owns the provider, in
// Authorization. The other is a signature of the owner's wallet over a challenge of this
// very request: of its act, its amount (the member that reads one), its method, path and
// body. The signature travels in headers, because it covers the body. With it, the wallet's
// provider is the one that is acted for, whatever Authorization says. A provider key lies
// on every machine and may leak, so a key alone only reads: it is refused with
// owner_required.
//
// A POST needs an Idempotency-Key: without one it fails with idempotency_key_missing. A
// signature is good once, so whatever else is wrong with a call is found before the
// signature is spent. A call that is repeated needs a fresh signature and the same key.
func (a *API) owner(ctx context.Context, c Call, what act, members ...member) (owner, error) {
	switch {
	case byWallet(c.Header):
		return a.walletOwner(ctx, c, what, members)
	case byKey(c.Header):
		if err := a.withKey(ctx, c, a.checkKey); err != nil {
			return owner{}, err
		}
		return owner{}, ownerRequired()
	}
	u, err := a.provider(ctx, c)
	if err != nil {
		return owner{}, err
	}
	key, err := moneyKey(c)
	if err != nil {
		return owner{}, err
	}
	return owner{u.GetProviderId(), u.GetAccountId(), "user:" + u.GetUserId(), key}, c.read(members...)
}

func ownerRequired() error {
	return fault.New(fault.Denied, apierror.OwnerRequired,
		"A provider key only reads. To move money, sign in as the account's user (POST /api/v1/user/login) and send the "+
			"session's token, or have the owner's wallet sign this request (POST /api/v1/provider/ws-challenge with its "+
			"purpose) and send %s, %s and %s.", WalletAddress, WalletNonce, WalletSignature)
}

// moneyKey reads the Idempotency-Key of a call that moves money. Only a POST needs one.
func moneyKey(c Call) (string, error) {
	if c.Method != http.MethodPost {
		return "", nil
	}
	if !idempotency.Given(c.Header) {
		return "", fault.New(fault.Invalid, apierror.IdempotencyKeyMissing,
			"This call moves money: send an %s, and the same one when you repeat the call.", idempotency.Header).On(
			idempotency.Header)
	}
	token, err := idempotency.ParseToken(c.Header)
	return string(token), err
}

// byWallet reports whether a call carries a part of a wallet's signature.
func byWallet(h http.Header) bool {
	return len(h.Values(WalletAddress))+len(h.Values(WalletNonce))+len(h.Values(WalletSignature)) > 0
}

// byKey reports whether a call carries what begins like a provider key.
func byKey(h http.Header) bool {
	key, err := auth.Credential(h)
	return err == nil && strings.HasPrefix(key, string(apikey.Provider))
}

// walletOwner has a hub verify and spend the signature that a call carries. Signatures are
// counted for each network, good and bad ones.
func (a *API) walletOwner(ctx context.Context, c Call, what act, members []member) (owner, error) {
	key, err := moneyKey(c)
	if err != nil {
		return owner{}, err
	}
	if err := c.read(members...); err != nil {
		return owner{}, err
	}
	req := &hubv1.ProveOwnerRequest{
		Purpose: hubv1.ChallengePurpose(what),
		Act:     &hubv1.MoneyAct{AmountUsd: amountOf(members), RequestSha256: requestDigest(c.Method, c.Path, c.Body)},
	}
	if err := readSignature(c.Header, req); err != nil {
		return owner{}, err
	}
	now := a.peers.Clock.Now()
	if err := a.signatures.Take(c.From, now); err != nil {
		return owner{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Self.ProveOwner(called, req)
	if fault.Is(err, fault.InvalidSignature) {
		return owner{}, badSignature(err)
	}
	if err != nil {
		return owner{}, ofPeer(ctx, err)
	}
	return owner{resp.GetProviderId(), resp.GetAccountId(), "wallet:" + resp.GetAddress(), key}, nil
}

// badSignature is the refusal of a signature.
func badSignature(cause error) error {
	return fault.Wrap(cause, fault.Invalid, fault.InvalidSignature,
		"The signature does not allow this request: it is not of the wallet that owns a provider, was made for another act, "+
			"amount, method, path or body, was used before, or is older than 5 minutes. Ask for a fresh challenge.").On(
		WalletSignature)
}

// readSignature reads the headers of a wallet's signature. Each stands once.
func readSignature(h http.Header, into *hubv1.ProveOwnerRequest) error {
	var digits string
	for _, part := range []struct {
		name string
		text *string
	}{{WalletAddress, &into.Address}, {WalletNonce, &into.AuthNonce}, {WalletSignature, &digits}} {
		values := h.Values(part.name)
		if len(values) != 1 || values[0] == "" || len(values[0]) > maxNonce+2*maxSignature {
			return fault.New(fault.Invalid, fault.InvalidSignature,
				"A signed call has the headers %s, %s and %s, each once.", WalletAddress, WalletNonce, WalletSignature).On(
				part.name)
		}
		*part.text = values[0]
	}
	hexadecimal, prefixed := strings.CutPrefix(digits, "0x")
	raw, err := hex.DecodeString(hexadecimal)
	if !prefixed || err != nil || len(raw) > maxSignature {
		return fault.New(fault.Invalid, fault.InvalidSignature, "%s must be 0x and the hexadecimal digits of the signature.",
			WalletSignature).On(WalletSignature)
	}
	into.Signature = raw
	return nil
}

// requestDigest is the SHA-256 digest of a request: of its method, a space, its path as it
// was sent, a line feed, and its body.
func requestDigest(method, path string, body []byte) []byte {
	sum := sha256.New()
	sum.Write([]byte(method + " " + path + "\n"))
	sum.Write(body)
	return sum.Sum(nil)
}

// amountOf returns the amount that the members read; empty for none.
func amountOf(members []member) string {
	for _, m := range members {
		if m.amount != nil {
			return *m.amount
		}
	}
	return ""
}
