package billingledger_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

const console = "https://console.example.com"

// purse is somebody's wallet.
type purse struct {
	key     *secp256k1.PrivateKey
	address string
}

func newPurse(seed byte) purse {
	k := secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{seed}, 32))
	return purse{k, ethereum.AddressOf(k.PubKey().SerializeUncompressed()).String()}
}

// sign is personal_sign.
func (p purse) sign(message string) []byte {
	digest := ethereum.PersonalDigest(message)
	compact := ecdsa.SignCompact(p.key, digest[:], false)
	return append(compact[1:], compact[0])
}

// asked is what the wallet is asked to sign: to sign in, or to be linked to a user.
func (f *fleet) asked(t *testing.T, p purse, userID string) string {
	t.Helper()
	resp, err := f.users.CreateWalletChallenge(t.Context(), &billingv1.CreateWalletChallengeRequest{Address: p.address,
		Origin: console, UserId: userID})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetMessage()
}

// sessionOf is the session of a token.
func (f *fleet) sessionOf(t *testing.T, token string) string {
	t.Helper()
	who, err := f.users.GetUser(t.Context(), &billingv1.GetUserRequest{TokenDigest: digestOf(token)})
	if err != nil {
		t.Fatal(err)
	}
	return who.GetSessionId()
}

// comesIn signs a wallet's user in, who is opened at first.
func (f *fleet) comesIn(t *testing.T, p purse) (*billingv1.LogInWalletResponse, context.Context) {
	t.Helper()
	message := f.asked(t, p, "")
	in, err := f.users.LogInWallet(t.Context(), &billingv1.LogInWalletRequest{Message: message, Open: true,
		Signature: p.sign(message), Origins: []string{console}, NetworkShown: "192.0.2.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	return in, metadata.NewOutgoingContext(t.Context(), serve.UserMetadata(serve.Caller{
		User: in.GetUser().GetUserId(), Account: in.GetUser().GetAccountId(), Session: f.sessionOf(t, in.GetToken())}))
}

// linkWallet has a user who is signed in link a wallet, and returns the identity.
func (f *fleet) linkWallet(t *testing.T, in *billingv1.LogInWalletResponse, p purse) *billingv1.UserIdentity {
	t.Helper()
	id := in.GetUser().GetUserId()
	message := f.asked(t, p, id)
	linked, err := f.users.LinkWallet(t.Context(), &billingv1.LinkWalletRequest{UserId: id, Message: message,
		Signature: p.sign(message), Origins: []string{console}, SessionId: f.sessionOf(t, in.GetToken())})
	if err != nil {
		t.Fatal(err)
	}
	return linked.GetIdentity()
}

// The calls of a gateway, one after the other: a wallet opens a user, signs in again, links
// another wallet, and is unlinked.
func TestAUserOfAWalletSignsInLinksAnotherAndEndsTheFirst(t *testing.T) {
	f := start(t, func(*billingledger.Config) {})
	first, second := newPurse(1), newPurse(2)
	in, as := f.comesIn(t, first)
	if in.GetApiKey() == "" {
		t.Error("the first key: got none, want one")
	}
	id := in.GetUser().GetUserId()
	linked := f.linkWallet(t, in, second)
	if got := linked.GetSubject(); got != second.address {
		t.Errorf("linked: got %q, want %q", got, second.address)
	}
	if again, _ := f.comesIn(t, second); again.GetUser().GetUserId() != id {
		t.Errorf("by the second wallet: got the user %q, want %q", again.GetUser().GetUserId(), id)
	}
	all, err := f.self.ListIdentities(as, &billingv1.ListIdentitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all.GetIdentities()); n != 2 {
		t.Fatalf("identities: got %d, want 2", n)
	}
	if got := all.GetIdentities()[0].GetSubject(); got != first.address {
		t.Errorf("the oldest identity: got %q, want %q", got, first.address)
	}
	for i, want := range []fault.Reason{"", fault.TransitionNotAllowed} {
		_, err := f.self.DeleteIdentity(as, &billingv1.DeleteIdentityRequest{
			IdentityId: all.GetIdentities()[i].GetIdentityId()})
		if want == "" && err != nil {
			t.Errorf("identity %d: got the error %v, want none", i, err)
		} else if want != "" && !fault.Is(err, want) {
			t.Errorf("identity %d: got the error %v, want %s", i, err, want)
		}
	}
	if other, _ := f.comesIn(t, first); other.GetUser().GetUserId() == id {
		t.Error("by the wallet that was unlinked: got its former user, want another")
	}
}

func TestMalformedIdsOfUsersAndIdentitiesAreRefused(t *testing.T) {
	f := start(t, func(*billingledger.Config) {})
	_, as := f.comesIn(t, newPurse(1))
	_, ask := f.users.CreateWalletChallenge(t.Context(), &billingv1.CreateWalletChallengeRequest{
		Address: newPurse(1).address, Origin: console, UserId: "nobody"})
	_, link := f.users.LinkWallet(t.Context(), &billingv1.LinkWalletRequest{UserId: "nobody"})
	_, end := f.self.DeleteIdentity(as, &billingv1.DeleteIdentityRequest{IdentityId: "none"})
	_, list := f.self.ListIdentities(t.Context(), &billingv1.ListIdentitiesRequest{})
	for what, c := range map[string]struct {
		err  error
		want fault.Reason
	}{
		"ask": {ask, fault.InvalidValue}, "link": {link, fault.UserNotFound}, "end": {end, fault.IdentityNotFound},
		"list for nobody": {list, fault.InvalidSession},
	} {
		if !fault.Is(c.err, c.want) {
			t.Errorf("%s: got the error %v, want %s", what, c.err, c.want)
		}
	}
}

func TestWalletChainsThatAreNoChainIDsAreRefusedAtStart(t *testing.T) {
	cfg := billingledger.DefaultConfig()
	cfg.Pepper[0] = 1
	if err := cfg.Validate(); err != nil {
		t.Fatalf("the defaults: got the error %v, want none", err)
	}
	for _, chains := range []string{"", "0", "-1", "1,", "1,x", "0x1", "9223372036854775808"} {
		cfg.WalletChains = chains
		if err := cfg.Validate(); err == nil {
			t.Errorf("%q: got no error, want one", chains)
		}
	}
}
