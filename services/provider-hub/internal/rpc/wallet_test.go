package rpc_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

// purse is a wallet.
type purse struct {
	key     *secp256k1.PrivateKey
	address string
}

func newPurse(seed byte) purse {
	key := secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{seed}, 32))
	return purse{key: key, address: "0x" + hex.EncodeToString(keccak(key.PubKey().SerializeUncompressed()[1:])[12:])}
}

func keccak(data []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(data)
	return h.Sum(nil)
}

// sign is personal_sign.
func (p purse) sign(message string) []byte {
	digest := keccak([]byte(fmt.Sprintf("\x19Ethereum Signed Message:\n%d%s", len(message), message)))
	compact := ecdsa.SignCompact(p.key, digest, false)
	return append(compact[1:], compact[0])
}

// flip gives a signature its other form, whose s is in the upper half.
func flip(signature []byte) []byte {
	n, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	out := bytes.Clone(signature)
	new(big.Int).Sub(n, new(big.Int).SetBytes(signature[32:64])).FillBytes(out[32:64])
	out[64] ^= 27 ^ 28
	return out
}

func (d *desk) challenge(p purse) *hubv1.CreateChallengeResponse {
	d.Helper()
	got, err := d.self.CreateChallenge(d.Context(), &hubv1.CreateChallengeRequest{Address: p.address})
	d.must(err)
	return got
}

// proven is a sign-up that the wallet has signed.
func (d *desk) proven(p purse) *hubv1.SignUpRequest {
	d.Helper()
	c := d.challenge(p)
	return &hubv1.SignUpRequest{Name: "Farm", OwnerAddress: p.address, Signature: p.sign(c.GetMessage()),
		AuthNonce: c.GetNonce()}
}

func (d *desk) signUpWith(p purse) member {
	d.Helper()
	got, err := d.self.SignUp(d.Context(), d.proven(p))
	d.must(err)
	return memberOf(got)
}

// enter connects by a challenge of its own.
func (d *desk) enter(p purse) (session.Grant, error) {
	d.Helper()
	c := d.challenge(p)
	return d.admit(p, c.GetNonce(), p.sign(c.GetMessage()))
}

// nonces is how many nonces are kept.
func (d *desk) nonces() int {
	d.Helper()
	var kept int
	d.must(d.pool.QueryRow(d.Context(), `SELECT count(*) FROM wallet_nonce`).Scan(&kept))
	return kept
}

func (d *desk) admit(p purse, nonce string, signature []byte) (session.Grant, error) {
	return d.registry.Admit(context.Background(), session.Credential{Owner: p.address, Nonce: nonce, Signature: signature})
}

func TestHostile09_AWalletConnectsByItsSignatureOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	c := d.challenge(p)
	for _, part := range []string{"svc.test wants you to sign in", "URI: wss://svc.test/ws", "Chain ID: 8453",
		"Nonce: " + c.GetNonce(), "Expiration Time: 2026-03-01T00:05:00.000Z"} {
		if !strings.Contains(c.GetMessage(), part) {
			t.Errorf("no %q in:\n%s", part, c.GetMessage())
		}
	}
	if !c.GetExpiresAt().AsTime().Equal(start.Add(5 * time.Minute)) {
		t.Errorf("expires: got %v, want %v", c.GetExpiresAt().AsTime(), start.Add(5*time.Minute))
	}
	signature := p.sign(c.GetMessage())
	grant, err := d.admit(p, c.GetNonce(), signature)
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case grant.ProviderID.String() != m.id:
		t.Fatalf("grant.ProviderID: got %q, want %q", grant.ProviderID.String(), m.id)
	case !grant.KeyID.IsZero():
		t.Fatal("grant.KeyID.IsZero(): got false, want true")
	case grant.Epoch == 0:
		t.Fatal("grant.Epoch: got 0, want any but 0")
	case grant.Active:
		t.Fatal("grant.Active: got true, want false")
	case grant.Status != "pending":
		t.Fatalf(`grant.Status: got %q, want "pending"`, grant.Status)
	}
	if _, err := d.admit(p, c.GetNonce(), signature); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a second time: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	again := d.challenge(p)
	later, err := d.admit(p, again.GetNonce(), p.sign(again.GetMessage()))
	if err != nil {
		t.Errorf("another challenge: got the error %v, want none", err)
	} else if later.Epoch <= grant.Epoch {
		t.Errorf("another challenge: later.Epoch: got %d, want more than %d", later.Epoch, grant.Epoch)
	}
}

func TestOneSignatureShownAtOnceLetsOneIn(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	d.signUpWith(p)
	c := d.challenge(p)
	signature := p.sign(c.GetMessage())
	var in atomic.Int32
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if _, err := d.admit(p, c.GetNonce(), signature); err == nil {
				in.Add(1)
			} else if !fault.Is(err, fault.InvalidAPIKey) {
				t.Errorf("refused: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
			}
		})
	}
	group.Wait()
	if in.Load() != 1 {
		t.Errorf("came in: got %d, want 1", in.Load())
	}
}

func TestHostile09_ASignatureOfAnythingElseLetsNobodyIn(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p, thief := newPurse(1), newPurse(2)
	d.signUpWith(p)
	d.signUpWith(thief)
	changed := func(from, to string) func(c *hubv1.CreateChallengeResponse) []byte {
		return func(c *hubv1.CreateChallengeResponse) []byte {
			if !strings.Contains(c.GetMessage(), from) {
				t.Fatalf("the challenge's message: got %q, want %q in it", c.GetMessage(), from)
			}
			return p.sign(strings.Replace(c.GetMessage(), from, to, 1))
		}
	}
	for name, sign := range map[string]func(*hubv1.CreateChallengeResponse) []byte{
		"nothing":               func(*hubv1.CreateChallengeResponse) []byte { return nil },
		"the other form":        func(c *hubv1.CreateChallengeResponse) []byte { return flip(p.sign(c.GetMessage())) },
		"without its last byte": func(c *hubv1.CreateChallengeResponse) []byte { return p.sign(c.GetMessage())[:64] },
		"with a byte more":      func(c *hubv1.CreateChallengeResponse) []byte { return append(p.sign(c.GetMessage()), 0) },
		"a thief's":             func(c *hubv1.CreateChallengeResponse) []byte { return thief.sign(c.GetMessage()) },
		"another domain":        changed("svc.test wants", "evil.test wants"),
		"another address":       changed("URI: wss://svc.test/ws", "URI: wss://svc.test/other"),
		"another chain":         changed("Chain ID: 8453", "Chain ID: 1"),
		"another purpose":       changed("Connect a provider agent", "Pay somebody"),
		"a later end":           changed("00:05:00.000Z", "23:05:00.000Z"),
		"another challenge's":   func(*hubv1.CreateChallengeResponse) []byte { return p.sign(d.challenge(p).GetMessage()) },
		"a contract's (EIP-6492)": func(c *hubv1.CreateChallengeResponse) []byte {
			return append(p.sign(c.GetMessage()), bytes.Repeat([]byte{0x64, 0x92}, 16)...)
		},
		"zeros":                   func(*hubv1.CreateChallengeResponse) []byte { return make([]byte, 65) },
		"the text and not its id": func(c *hubv1.CreateChallengeResponse) []byte { return []byte(c.GetMessage()) },
	} {
		c := d.challenge(p)
		if _, err := d.admit(p, c.GetNonce(), sign(c)); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidAPIKey)
		}
		// A bad one takes nothing from the owner.
		if _, err := d.admit(p, c.GetNonce(), p.sign(c.GetMessage())); err != nil {
			t.Errorf("after %s, the right one: %v", name, err)
		}
	}
	kept := d.nonces()
	c := d.challenge(p)
	if _, err := d.admit(thief, c.GetNonce(), thief.sign(c.GetMessage())); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a thief with the owner's challenge: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	for _, nonce := range []string{"", "0", strings.Repeat("a", 32), strings.Repeat("a", 1000), "'; --"} {
		if _, err := d.admit(p, nonce, make([]byte, 65)); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("nonce %q: got the error %v, want the reason %v", nonce, err, fault.InvalidAPIKey)
		}
	}
	stranger := newPurse(3)
	c = d.challenge(stranger)
	if _, err := d.admit(stranger, c.GetNonce(), stranger.sign(c.GetMessage())); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a wallet without a provider: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	if _, err := d.registry.Admit(t.Context(), session.Credential{Owner: "nobody", Nonce: c.GetNonce()}); !fault.Is(err,
		fault.InvalidAPIKey) {
		t.Errorf("no wallet: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	if got := d.nonces(); got != kept {
		t.Errorf("nonces kept: got %d, want %d", got, kept)
	}
}

func TestAChallengeIsGoodForFiveMinutes(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	d.signUpWith(p)
	early, late := d.challenge(p), d.challenge(p)
	d.clock.Advance(5*time.Minute - time.Millisecond)
	if _, err := d.admit(p, early.GetNonce(), p.sign(early.GetMessage())); err != nil {
		t.Errorf("in time: %v", err)
	}
	d.clock.Advance(time.Millisecond)
	if _, err := d.admit(p, late.GetNonce(), p.sign(late.GetMessage())); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("too late: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	d.sweep()
	if kept := d.nonces(); kept != 2 {
		t.Errorf("nonces kept while another hub's clock may take them: got %d, want 2", kept)
	}
	d.clock.Advance(5 * time.Minute)
	d.sweep()
	if kept := d.nonces(); kept != 0 {
		t.Errorf("nonces kept when they expired: got %d, want 0", kept)
	}
}

func TestWhoeverAsksInAWalletsNameTakesNothingFromIt(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	d.signUpWith(p)
	first, kept := d.challenge(p), d.nonces()
	seen := map[string]bool{}
	for range 200 {
		nonce := d.challenge(p).GetNonce()
		switch {
		case seen[nonce]:
			t.Fatalf("seen[nonce]: got true, want false, with %q", nonce)
		case len(nonce) > 64:
			t.Fatalf("len(nonce): got %d, want at most 64, in %q", len(nonce), nonce)
		case strings.Trim(nonce, "0123456789abcdef") != "":
			t.Fatalf(`nonce: strings.Trim(…): got %q, want ""`, strings.Trim(nonce, "0123456789abcdef"))
		}
		seen[nonce] = true
	}
	if got := d.nonces(); got != kept {
		t.Errorf("challenges kept that nobody answered: got %d, want %d", got, kept)
	}
	if _, err := d.admit(p, first.GetNonce(), p.sign(first.GetMessage())); err != nil {
		t.Errorf("the first: %v", err)
	}
}

func TestANonceThatIsNotTheFleetsLetsNobodyIn(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	d.signUpWith(p)
	other := provider.NewDirectory(d.tables, provider.SecretsOf(apikey.Pepper{2}), provider.Site{Domain: "svc.test",
		URI: "wss://svc.test/ws", ChainID: 8453}, d.clock, rand.Reader)
	elsewhere := provider.NewDirectory(d.tables, provider.SecretsOf(apikey.Pepper{1}), provider.Site{Domain: "evil.test",
		URI: "wss://evil.test/ws", ChainID: 8453}, d.clock, rand.Reader)
	for name, from := range map[string]*provider.Directory{"another secret": other, "another domain": elsewhere} {
		c, err := from.Ask(t.Context(), p.address)
		d.must(err)
		text := strings.ReplaceAll(c.Message, "evil.test", "svc.test")
		if _, err := d.admit(p, c.Nonce, p.sign(text)); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidAPIKey)
		}
	}
	// Every part of a nonce is sealed: the owner's own signature of a changed one
	// is none.
	c := d.challenge(p)
	for i := range len(c.GetNonce()) / 2 {
		raw, err := hex.DecodeString(c.GetNonce())
		d.must(err)
		raw[i] ^= 1
		nonce := hex.EncodeToString(raw)
		if _, err := d.admit(p, nonce, p.sign(strings.Replace(c.GetMessage(), c.GetNonce(), nonce, 1))); !fault.Is(err,
			fault.InvalidAPIKey) {
			t.Errorf("byte %d changed: got the error %v, want the reason %v", i, err, fault.InvalidAPIKey)
		}
	}
}

func TestAWalletSignsThroughAChangeOfThePepper(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	d.signUpWith(p)
	c := d.challenge(p)
	restarted := provider.NewDirectory(d.tables, provider.Secrets{
		Peppers: apikey.Numbered(apikey.Pepper{2}, 2, apikey.Pepper{1}, 1),
	}, provider.Site{Domain: "svc.test", URI: "wss://svc.test/ws", ChainID: 8453}, d.clock, rand.Reader)
	if _, err := restarted.AuthenticateWallet(t.Context(), p.address, c.GetNonce(), p.sign(c.GetMessage())); err != nil {
		t.Errorf("a challenge of the older pepper: got the error %v, want none", err)
	}
}

func TestASuspendedProvidersWalletDoesNotConnect(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	_, err := d.set(m, suspended)
	d.must(err)
	c := d.challenge(p)
	if _, err := d.admit(p, c.GetNonce(), p.sign(c.GetMessage())); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("suspended: got the error %v, want the reason %v", err, fault.AccountFrozen)
	}
}

func TestAWarmUpIsToldToAllHubs(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	told := make(chan *eventsv1.WarmUp, 4)
	sub, err := d.bus.Subscribe(bus.SubjectWarmUp, "", func(_ context.Context, got bus.Message) {
		w := &eventsv1.WarmUp{}
		if err := proto.Unmarshal(got.Data, w); err != nil {
			t.Error(err)
		}
		told <- w
	})
	d.must(err)
	defer func() { d.must(sub.Stop()) }()
	for _, id := range []string{"", m.id} {
		_, err := d.admin.WarmUp(t.Context(), &hubv1.WarmUpRequest{ModelId: "acme/tiny", ProviderId: id})
		d.must(err)
		if w := <-told; w.GetModelId() != "acme/tiny" {
			t.Errorf(`told: w.GetModelId(): got %q, want "acme/tiny"`, w.GetModelId())
		} else if w.GetProviderId() != id {
			t.Errorf("told: w.GetProviderId(): got %q, want %q", w.GetProviderId(), id)
		}
	}
	for _, bad := range []*hubv1.WarmUpRequest{
		{}, {ModelId: strings.Repeat("x", 257)}, {ModelId: "a\nb"}, {ModelId: "m", ProviderId: "me"},
	} {
		if _, err := d.admin.WarmUp(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%v: got the error %v, want the reason %v", bad, err, fault.InvalidValue)
		}
	}
}
