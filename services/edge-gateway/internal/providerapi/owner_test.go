package providerapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

const payoutPath = "/api/v1/provider/payouts"

// moving is a call that moves money, with an Idempotency-Key.
func moving(credential, body string) Call {
	c := with(credential, body)
	c.Method, c.Path = http.MethodPost, payoutPath
	c.Header.Set("Idempotency-Key", "k1")
	return c
}

// signed is a call that a wallet has signed.
func signed(body string) Call {
	c := moving("", body)
	c.Header.Set(WalletAddress, "0xabc")
	c.Header.Set(WalletNonce, "n1")
	c.Header.Set(WalletSignature, "0x0102")
	return c
}

// signedIn has a session of a user who owns p1.
func signedIn(b *bundle) {
	b.ledger.user = &billingv1.User{UserId: "u1", AccountId: "a1", ProviderId: "p1"}
}

// pays is how a route that pays out reads its call.
func pays(t *testing.T, b *bundle, c Call) (owner, error) {
	t.Helper()
	var amount string
	return b.owner(t.Context(), c, actPayout, member{name: "amount_usd", amount: &amount, required: true})
}

func TestTheUserOfAnAccountActsOnItsMoney(t *testing.T) {
	b := setup(t)
	signedIn(b)
	got, err := pays(t, b, moving("session", `{"amount_usd":"12.50"}`))
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if want := (owner{"p1", "a1", "user:u1", "k1"}); got != want {
		t.Errorf("owner: got %+v, want %+v", got, want)
	}
}

// Whoever has a machine has its key.
func TestAKeyAloneMovesNoMoney(t *testing.T) {
	b := setup(t)
	signedIn(b)
	inHeader := moving("", `{"amount_usd":"12.50"}`)
	inHeader.Header.Set("X-Api-Key", b.key)
	for name, c := range map[string]Call{"bearer": moving(b.key, `{"amount_usd":"12.50"}`), "x-api-key": inHeader} {
		_, err := pays(t, b, c)
		f, _ := fault.As(err)
		if !fault.Is(err, apierror.OwnerRequired) {
			t.Fatalf("%s: got the error %v, want the reason %v", name, err, apierror.OwnerRequired)
		}
		if got := apierror.Of(err).Status; got != http.StatusForbidden {
			t.Errorf("%s: status: got %d, want 403", name, got)
		}
		if strings.Contains(f.Message, b.key) {
			t.Errorf("%s: the message %q: got one with the key, want none", name, f.Message)
		}
	}
	b.hub.status = func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		return nil, fault.New(fault.Unauthenticated, fault.KeyRevoked, "revoked")
	}
	if _, err := pays(t, b, moving(b.key, `{}`)); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("a revoked key: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
}

func TestNobodyElseActsOnMoney(t *testing.T) {
	b := setup(t)
	for name, c := range map[string]struct {
		credential string
		user       *billingv1.User
		want       fault.Reason
	}{
		"nobody":             {"", nil, apierror.MissingAPIKey},
		"a consumer key":     {newKey(t, apikey.Consumer), nil, apierror.WrongKeyType},
		"a session of none":  {"stale", nil, fault.InvalidSession},
		"a user without one": {"session", &billingv1.User{UserId: "u2"}, fault.ProviderNotFound},
	} {
		b.ledger.user = c.user
		if _, err := pays(t, b, moving(c.credential, `{"amount_usd":"1"}`)); !fault.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, c.want)
		}
	}
}

func TestAWalletSignsOneRequest(t *testing.T) {
	b := setup(t)
	c := signed(`{"amount_usd": 12.50}`)
	c.Header.Set("Authorization", "Bearer "+b.key) // says nothing beside the wallet
	got, err := pays(t, b, c)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if want := (owner{"p9", "a9", "wallet:0xAbC", "k1"}); got != want {
		t.Errorf("owner: got %+v, want %+v", got, want)
	}
	asked := b.hub.proofs[0]
	digest := sha256.Sum256([]byte("POST /api/v1/provider/payouts\n" + `{"amount_usd": 12.50}`))
	switch {
	case asked.GetAddress() != "0xabc":
		t.Errorf("address: got %q, want %q", asked.GetAddress(), "0xabc")
	case asked.GetAuthNonce() != "n1":
		t.Errorf("nonce: got %q, want %q", asked.GetAuthNonce(), "n1")
	case !bytes.Equal(asked.GetSignature(), []byte{1, 2}):
		t.Errorf("signature: got %x, want 0102", asked.GetSignature())
	case asked.GetPurpose() != hubv1.ChallengePurpose_CHALLENGE_PURPOSE_PAYOUT:
		t.Errorf("purpose: got %v, want a payout", asked.GetPurpose())
	case asked.GetAct().GetAmountUsd() != "12.50":
		t.Errorf("amount: got %q, want %q", asked.GetAct().GetAmountUsd(), "12.50")
	case !bytes.Equal(asked.GetAct().GetRequestSha256(), digest[:]):
		t.Errorf("digest: got %x, want %x", asked.GetAct().GetRequestSha256(), digest)
	}
}

func TestTheDigestOfARequestIsOfAllThatItDoes(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, digest := range map[string][]byte{
		"as it is":       requestDigest("POST", payoutPath, []byte(`{"amount_usd":"1"}`)),
		"another amount": requestDigest("POST", payoutPath, []byte(`{"amount_usd":"2"}`)),
		"another path":   requestDigest("POST", payoutPath+"/x/cancel", []byte(`{"amount_usd":"1"}`)),
		"another method": requestDigest("DELETE", payoutPath, []byte(`{"amount_usd":"1"}`)),
		"without a body": requestDigest("POST", payoutPath, nil),
	} {
		if other := seen[string(digest)]; other != "" {
			t.Errorf("%s and %s: got one digest, want two", name, other)
		}
		seen[string(digest)] = name
	}
}

func TestARefusedSignatureIsABadRequest(t *testing.T) {
	b := setup(t)
	b.hub.proveErr = fault.New(fault.Invalid, fault.InvalidSignature, "used before")
	_, err := pays(t, b, signed(`{"amount_usd":"1"}`))
	if a := apierror.Of(err); a.Status != http.StatusBadRequest {
		t.Errorf("status: got %d, want 400", a.Status)
	}
	if !fault.Is(err, fault.InvalidSignature) {
		t.Errorf("got the error %v, want the reason %v", err, fault.InvalidSignature)
	}
}

func TestAHalfSignedCallIsNoCallOfAnybodyElse(t *testing.T) {
	b := setup(t)
	signedIn(b)
	for _, name := range []string{WalletAddress, WalletNonce, WalletSignature} {
		for form, change := range map[string]func(http.Header){
			"missing": func(h http.Header) { h.Del(name) },
			"empty":   func(h http.Header) { h.Set(name, "") },
			"twice":   func(h http.Header) { h.Add(name, "0x01") },
			"large":   func(h http.Header) { h.Set(name, "0x"+strings.Repeat("00", 4096)) },
		} {
			c := signed(`{"amount_usd":"1"}`)
			c.Header.Set("Authorization", "Bearer session")
			change(c.Header)
			if _, err := pays(t, b, c); !fault.Is(err, fault.InvalidSignature) {
				t.Errorf("%s %s: got the error %v, want the reason %v", name, form, err, fault.InvalidSignature)
			}
		}
	}
	for _, text := range []string{"0102", "0x0", "0xzz"} {
		c := signed(`{"amount_usd":"1"}`)
		c.Header.Set(WalletSignature, text)
		if _, err := pays(t, b, c); !fault.Is(err, fault.InvalidSignature) {
			t.Errorf("%s: got the error %v, want the reason %v", text, err, fault.InvalidSignature)
		}
	}
	if len(b.hub.proofs) != 0 {
		t.Errorf("signatures that a hub was asked about: got %d, want 0", len(b.hub.proofs))
	}
}

// A signature is good once: it must not be spent on a call that can only fail.
func TestACallThatCanOnlyFailSpendsNoSignature(t *testing.T) {
	b := setup(t)
	keyless := signed(`{"amount_usd":"1"}`)
	keyless.Header.Del("Idempotency-Key")
	long := signed(`{"amount_usd":"1"}`)
	long.Header.Set("Idempotency-Key", strings.Repeat("k", 256))
	unread := signed(`{"amount_usd":"1"}`)
	unread.Unread = fault.New(fault.Invalid, apierror.UnsupportedEncoding, "no")
	for name, c := range map[string]struct {
		call Call
		want fault.Reason
	}{
		"no key":       {keyless, apierror.IdempotencyKeyMissing},
		"a long key":   {long, fault.InvalidValue},
		"a bad body":   {signed(`{`), fault.InvalidRequest},
		"no amount":    {signed(`{}`), apierror.MissingRequired},
		"a bad amount": {signed(`{"amount_usd":"1e9"}`), fault.InvalidValue},
		"an odd type":  {unread, apierror.UnsupportedEncoding},
	} {
		if _, err := pays(t, b, c.call); !fault.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, c.want)
		}
	}
	if len(b.hub.proofs) != 0 {
		t.Errorf("signatures that a hub was asked about: got %d, want 0", len(b.hub.proofs))
	}
}

func TestASessionNeedsAKeyForAPostAlone(t *testing.T) {
	b := setup(t)
	signedIn(b)
	c := moving("session", `{"amount_usd":"1"}`)
	c.Header.Del("Idempotency-Key")
	if _, err := pays(t, b, c); !fault.Is(err, apierror.IdempotencyKeyMissing) {
		t.Errorf("a POST: got the error %v, want the reason %v", err, apierror.IdempotencyKeyMissing)
	}
	c.Method, c.Body = http.MethodDelete, nil
	got, err := b.owner(t.Context(), c, actCollateral)
	if err != nil {
		t.Errorf("a DELETE: got the error %v, want none", err)
	}
	if got.IdempotencyKey != "" {
		t.Errorf("a DELETE: key: got %q, want none", got.IdempotencyKey)
	}
}

func TestSignedCallsOfANetworkAreBounded(t *testing.T) {
	b := setup(t)
	b.hub.proveErr = fault.New(fault.Invalid, fault.InvalidSignature, "no")
	for n := range 5 {
		want := fault.InvalidSignature
		if n >= testConfig.Challenges.Calls {
			want = fault.RateLimitExceeded
		}
		if _, err := pays(t, b, signed(`{"amount_usd":"1"}`)); !fault.Is(err, want) {
			t.Errorf("call %d: got the error %v, want the reason %v", n, err, want)
		}
	}
}

func TestAnAmountIsAPositiveDecimal(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"1": true, "0.000001": true, "12.50": true, "10000": true, strings.Repeat("9", 32): true,
		"": false, "0": false, "0.00": false, "-1": false, "+1": false, "1e3": false, "01": false, ".5": false, "5.": false,
		"1,000": false, " 1": false, "0x1": false, "١": false, strings.Repeat("9", 33): false, "1\n2": false,
	} {
		if got := isAmount(text); got != good {
			t.Errorf("%q: got %t, want %t", text, got, good)
		}
	}
}

func TestAChallengeNamesItsAct(t *testing.T) {
	digest := strings.Repeat("0f", sha256.Size)
	raw, err := hex.DecodeString(digest)
	if err != nil {
		t.Fatal(err)
	}
	for purpose, what := range acts {
		b := setup(t)
		if _, err := b.Challenge(t.Context(), with("", `{"address":"0x1","purpose":"`+purpose+
			`","provider_id":"p1","amount_usd":"2.50","request_sha256":"`+digest+`"}`)); err != nil {
			t.Fatalf("%s: got the error %v, want none", purpose, err)
		}
		asked := b.hub.challenged[0]
		switch {
		case asked.GetPurpose() != hubv1.ChallengePurpose(what):
			t.Errorf("%s: purpose: got %v, want %v", purpose, asked.GetPurpose(), what)
		case asked.GetAct().GetProviderId() != "p1":
			t.Errorf("%s: provider: got %q, want p1", purpose, asked.GetAct().GetProviderId())
		case asked.GetAct().GetAmountUsd() != "2.50":
			t.Errorf("%s: amount: got %q, want 2.50", purpose, asked.GetAct().GetAmountUsd())
		case !bytes.Equal(asked.GetAct().GetRequestSha256(), raw):
			t.Errorf("%s: digest: got %x, want %x", purpose, asked.GetAct().GetRequestSha256(), raw)
		}
	}
	const named = `{"address":"0x1","purpose":"payout","provider_id":"p1"`
	for body, want := range map[string]fault.Reason{
		`{"address":"0x1","purpose":"steal"}`:               fault.InvalidValue,
		`{"address":"0x1","purpose":"payout"}`:              apierror.MissingRequired,
		named + `}`:                                         fault.InvalidValue,
		named + `,"request_sha256":"0f"}`:                   fault.InvalidValue,
		named + `,"request_sha256":"` + digest[2:] + `zz"}`: fault.InvalidValue,
	} {
		b := setup(t)
		if _, err := b.Challenge(t.Context(), with("", body)); !fault.Is(err, want) {
			t.Errorf("%s: got the error %v, want the reason %v", body, err, want)
		}
	}
}

// Agents in the field send an address and nothing else.
func TestAChallengeWithoutPurposeConnects(t *testing.T) {
	b := setup(t)
	if _, err := b.Challenge(t.Context(), with("", `{"address":"0x1"}`)); err != nil {
		t.Fatal(err)
	}
	asked := b.hub.challenged[0]
	if asked.GetPurpose() != hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONNECT {
		t.Errorf("purpose: got %v, want to connect", asked.GetPurpose())
	}
	if asked.GetAct() != nil {
		t.Errorf("act: got %v, want none", asked.GetAct())
	}
}
