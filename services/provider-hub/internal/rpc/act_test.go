package rpc_test

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

const payOut = hubv1.ChallengePurpose_CHALLENGE_PURPOSE_PAYOUT

// moneyAct is a request for 25 dollars of a provider.
func moneyAct(m member) *hubv1.MoneyAct {
	digest := sha256.Sum256([]byte("POST /api/v1/provider/payouts\n" + `{"amount_usd":"25.00"}`))
	return &hubv1.MoneyAct{ProviderId: m.id, AmountUsd: "25.00", RequestSha256: digest[:]}
}

// signs has a wallet sign an act, and returns how the signature is shown.
func (d *desk) signs(p purse, purpose hubv1.ChallengePurpose, act *hubv1.MoneyAct) *hubv1.ProveOwnerRequest {
	d.Helper()
	c, err := d.self.CreateChallenge(d.Context(), &hubv1.CreateChallengeRequest{Address: p.address, Purpose: purpose,
		Act: act})
	d.must(err)
	shown := proto.CloneOf(act)
	shown.ProviderId = "" // the gateway does not know it
	return &hubv1.ProveOwnerRequest{Address: p.address, Signature: p.sign(c.GetMessage()), AuthNonce: c.GetNonce(),
		Purpose: purpose, Act: shown}
}

func TestAWalletSignsForOneActOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	req := d.signs(p, payOut, moneyAct(m))
	got, err := d.self.ProveOwner(t.Context(), req)
	d.must(err)
	if got.GetProviderId() != m.id {
		t.Errorf("provider: got %q, want %q", got.GetProviderId(), m.id)
	}
	if got.GetAddress() != checksummed(p) {
		t.Errorf("address: got %q, want %q", got.GetAddress(), checksummed(p))
	}
	_, err = d.self.ProveOwner(t.Context(), req)
	d.wantReason("the same signature again", err, fault.InvalidSignature)
	fresh := d.signs(p, payOut, moneyAct(m))
	fresh.Act.ProviderId = m.id
	_, err = d.self.ProveOwner(t.Context(), fresh)
	d.must(err)
}

func TestTheTextOfAnActNamesWhatItDoes(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpWith(newPurse(1))
	for purpose, begins := range map[hubv1.ChallengePurpose]string{
		payOut: "Pay out earnings of provider " + m.id + ": 25.00 USD.",
		hubv1.ChallengePurpose_CHALLENGE_PURPOSE_PAYOUT_CANCEL: "Cancel a payout of provider " + m.id,
		hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONVERT:       "Convert earnings to credit, of provider " + m.id + ": 25.0",
		hubv1.ChallengePurpose_CHALLENGE_PURPOSE_COLLATERAL:    "Deposit, move or take back collateral of provider " + m.id,
	} {
		c, err := d.self.CreateChallenge(t.Context(), &hubv1.CreateChallengeRequest{Address: newPurse(1).address,
			Purpose: purpose, Act: moneyAct(m)})
		d.must(err)
		if !strings.Contains(c.GetMessage(), begins) {
			t.Errorf("%v: the text: got %q, want %q in it", purpose, c.GetMessage(), begins)
		}
		if wait := c.GetExpiresAt().AsTime().Sub(d.clock.Now()); wait != 5*time.Minute {
			t.Errorf("%v: good for: got %v, want 5m", purpose, wait)
		}
	}
}

func TestASignatureIsGoodForNothingElse(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p, other := newPurse(1), newPurse(2)
	m, foreign := d.signUpWith(p), d.signUpWith(other)
	for name, change := range map[string]func(*hubv1.ProveOwnerRequest){
		"another act": func(r *hubv1.ProveOwnerRequest) { r.Purpose = hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONVERT },
		"another amount": func(r *hubv1.ProveOwnerRequest) {
			r.Act.AmountUsd = "2500"
		},
		"no amount":        func(r *hubv1.ProveOwnerRequest) { r.Act.AmountUsd = "" },
		"another request":  func(r *hubv1.ProveOwnerRequest) { r.Act.RequestSha256[0] ^= 1 },
		"another provider": func(r *hubv1.ProveOwnerRequest) { r.Act.ProviderId = foreign.id },
		"another wallet":   func(r *hubv1.ProveOwnerRequest) { r.Address = other.address },
		"another nonce":    func(r *hubv1.ProveOwnerRequest) { r.AuthNonce = d.challenge(p).GetNonce() },
		"no nonce":         func(r *hubv1.ProveOwnerRequest) { r.AuthNonce = "" },
		"a forged one":     func(r *hubv1.ProveOwnerRequest) { r.Signature = other.sign("anything") },
		"none":             func(r *hubv1.ProveOwnerRequest) { r.Signature = nil },
		"its other form":   func(r *hubv1.ProveOwnerRequest) { r.Signature = flip(r.Signature) },
		"of no address":    func(r *hubv1.ProveOwnerRequest) { r.Address = "0x1" },
		"of a wallet alone": func(r *hubv1.ProveOwnerRequest) {
			proto.Reset(r)
			proto.Merge(r, d.signs(newPurse(3), payOut, moneyAct(m)))
		},
	} {
		req := d.signs(p, payOut, moneyAct(m))
		change(req)
		_, err := d.self.ProveOwner(t.Context(), req)
		d.wantReason(name, err, fault.InvalidSignature)
	}
	if kept := d.nonces(); kept != 2 {
		t.Errorf("challenges that were spent: got %d, want the 2 of the sign-ups", kept)
	}
	// What was signed for another provider counts for nobody.
	req := d.signs(p, payOut, moneyAct(foreign))
	_, err := d.self.ProveOwner(t.Context(), req)
	d.wantReason("signed for another provider", err, fault.InvalidSignature)
}

func TestASignatureToConnectMovesNoMoneyAndTheOtherWayRound(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	c := d.challenge(p)
	_, err := d.self.ProveOwner(t.Context(), &hubv1.ProveOwnerRequest{Address: p.address, AuthNonce: c.GetNonce(),
		Signature: p.sign(c.GetMessage()), Purpose: payOut, Act: moneyAct(m)})
	d.wantReason("a signature to connect", err, fault.InvalidSignature)
	req := d.signs(p, payOut, moneyAct(m))
	_, err = d.admit(p, req.GetAuthNonce(), req.GetSignature())
	d.wantReason("a signature for a payout connects", err, fault.InvalidAPIKey)
	_, err = d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest, BeneficiaryAddress: thief,
		OwnerAddress: p.address, AuthNonce: req.GetAuthNonce(), Signature: req.GetSignature()})
	d.wantReason("a signature for a payout moves where earnings go", err, fault.InvalidAPIKey)
}

func TestASignatureForAnActExpires(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	req := d.signs(p, payOut, moneyAct(m))
	d.clock.Advance(5*time.Minute - time.Millisecond)
	last := d.signs(p, payOut, moneyAct(m))
	_, err := d.self.ProveOwner(t.Context(), req)
	d.must(err)
	d.clock.Advance(5 * time.Minute)
	_, err = d.self.ProveOwner(t.Context(), last)
	d.wantReason("after 5 minutes", err, fault.InvalidSignature)
}

// Its money is the provider's also when it may not connect.
func TestTheOwnerOfASuspendedOrRemovedProviderActsOnItsMoney(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	_, err := d.set(m, suspended)
	d.must(err)
	_, err = d.self.ProveOwner(t.Context(), d.signs(p, payOut, moneyAct(m)))
	d.must(err)
	d.must(d.expel(m, verdictA))
	_, err = d.self.ProveOwner(t.Context(), d.signs(p, payOut, moneyAct(m)))
	d.must(err)
}

func TestAWalletThatIsUnboundActsOnNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	req := d.signs(p, payOut, moneyAct(m))
	_, err := d.admin.UnbindProvider(t.Context(), &hubv1.UnbindProviderRequest{ProviderId: m.id, Wallet: true})
	d.must(err)
	_, err = d.self.ProveOwner(t.Context(), req)
	d.wantReason("an unbound wallet", err, fault.InvalidSignature)
}

func TestAMalformedActIsRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	for name, change := range map[string]func(*hubv1.CreateChallengeRequest){
		"no provider":    func(r *hubv1.CreateChallengeRequest) { r.Act.ProviderId = "" },
		"a bad provider": func(r *hubv1.CreateChallengeRequest) { r.Act.ProviderId = "p1" },
		"no act":         func(r *hubv1.CreateChallengeRequest) { r.Act = nil },
		"no digest":      func(r *hubv1.CreateChallengeRequest) { r.Act.RequestSha256 = nil },
		"a short digest": func(r *hubv1.CreateChallengeRequest) { r.Act.RequestSha256 = []byte{1} },
		"zeroes":         func(r *hubv1.CreateChallengeRequest) { r.Act.RequestSha256 = bytes.Repeat([]byte{0}, 32) },
		"two lines":      func(r *hubv1.CreateChallengeRequest) { r.Act.AmountUsd = "1\nNonce: 2" },
		"a long amount":  func(r *hubv1.CreateChallengeRequest) { r.Act.AmountUsd = strings.Repeat("9", 33) },
		"a negative one": func(r *hubv1.CreateChallengeRequest) { r.Act.AmountUsd = "-1" },
		"no purpose":     func(r *hubv1.CreateChallengeRequest) { r.Purpose = 99 },
		"a bad address":  func(r *hubv1.CreateChallengeRequest) { r.Address = "0x1" },
		"to connect, with an act": func(r *hubv1.CreateChallengeRequest) {
			r.Purpose = hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONNECT
		},
	} {
		req := &hubv1.CreateChallengeRequest{Address: p.address, Purpose: payOut, Act: moneyAct(m)}
		change(req)
		_, err := d.self.CreateChallenge(t.Context(), req)
		d.wantReason(name, err, fault.InvalidValue)
	}
	connects := d.signs(p, payOut, moneyAct(m))
	connects.Purpose, connects.Act = hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONNECT, nil
	_, err := d.self.ProveOwner(t.Context(), connects)
	d.wantReason("proven to connect", err, fault.InvalidValue)
}

func TestOneOfManyWithTheSameSignatureActs(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	req := d.signs(p, payOut, moneyAct(m))
	var group sync.WaitGroup
	var acted atomic.Int32
	begin := make(chan struct{})
	for range 8 {
		group.Go(func() {
			<-begin
			switch _, err := d.self.ProveOwner(t.Context(), proto.CloneOf(req)); {
			case err == nil:
				acted.Add(1)
			case !fault.Is(err, fault.InvalidSignature):
				t.Errorf("got the error %v, want the reason %v", err, fault.InvalidSignature)
			}
		})
	}
	close(begin)
	group.Wait()
	if acted.Load() != 1 {
		t.Errorf("calls that act: got %d, want 1", acted.Load())
	}
}
