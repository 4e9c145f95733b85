package store_test

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/user"
)

// The pages of the installation, and who signs in from one.
const (
	console = "https://console.example.com"
	shop    = "http://localhost:8080"
)

var (
	ourPages = []string{console, shop}
	atHome   = user.From{Shown: "192.0.2.0/24"}
)

// purse is somebody's wallet.
type purse struct {
	key     *secp256k1.PrivateKey
	address ethereum.Address
}

func newPurse(seed byte) purse {
	k := secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{seed}, 32))
	return purse{k, ethereum.AddressOf(k.PubKey().SerializeUncompressed())}
}

// sign is personal_sign.
func (p purse) sign(message string) []byte {
	digest := ethereum.PersonalDigest(message)
	compact := ecdsa.SignCompact(p.key, digest[:], false)
	return append(compact[1:], compact[0])
}

// textFor is what a wallet is asked to sign at the console.
func textFor(t testing.TB, users *user.Users, p purse, of user.ID) string {
	t.Helper()
	got, err := users.AskWallet(t.Context(), user.WalletAsk{Address: p.address.String(), Origin: console, User: of})
	if err != nil {
		t.Fatal(err)
	}
	return got.Message
}

// shown is a message that a wallet has signed.
func (p purse) shown(message string) user.WalletProof {
	return user.WalletProof{Message: message, Signature: p.sign(message), Origins: ourPages}
}

// fresh is a proof of a wallet: to sign in for the zero user, and else to be linked to that user.
func (p purse) fresh(t testing.TB, users *user.Users, of user.ID) user.WalletProof {
	t.Helper()
	return p.shown(textFor(t, users, p, of))
}

// comesIn signs a wallet's user in, who is opened at first.
func (e *env) comesIn(t testing.TB, p purse) user.SignedIn {
	t.Helper()
	users := e.users(t)
	in, _, err := users.EnterByWallet(t.Context(), p.fresh(t, users, user.ID{}), true, atHome)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// member signs a user up who has confirmed its e-mail.
func (e *env) member(t testing.TB, email string) user.SignedIn {
	t.Helper()
	in, _ := e.signUp(t, email)
	e.exec(t, `UPDATE app_user SET email_confirmed_at = now() WHERE email = $1`, email)
	return in
}

// links links a wallet to a user who is signed in.
func (e *env) links(t testing.TB, in user.SignedIn, p purse) user.OwnedIdentity {
	t.Helper()
	users, id := e.users(t), in.User.ID
	linked, err := users.LinkWallet(t.Context(), id, in.Family, p.fresh(t, users, id))
	if err != nil {
		t.Fatal(err)
	}
	return linked
}

func TestAWalletOpensItsUserOnceAndSignsItInLater(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	proof := p.fresh(t, users, user.ID{})
	_, _, err := users.EnterByWallet(t.Context(), proof, false, atHome)
	wantReason(t, "a wallet without a user", err, fault.UserNotFound)
	in, keyText, err := users.EnterByWallet(t.Context(), proof, true, user.From{Shown: "192.0.2.0/24", Remember: true})
	if err != nil {
		t.Fatalf("the same signature, to open a user: got the error %v, want none", err)
	}
	if in.User.Email != "" {
		t.Errorf("the e-mail: got %q, want none", in.User.Email)
	}
	if in.User.HasPassword {
		t.Error("a password: got true, want false")
	}
	if in.Refresh.Reveal() == "" {
		t.Error("the refresh token: got none, want one")
	}
	if k, err := e.keys.Authenticate(t.Context(), apikey.Sum(keyText)); err != nil {
		t.Errorf("the key: got the error %v, want none", err)
	} else if k.Account != in.User.Account {
		t.Errorf("the key's account: got %v, want %v", k.Account, in.User.Account)
	}
	if name := scan[string](t, e, `SELECT name FROM account`); name != p.address.String() {
		t.Errorf("the account: got %q, want %q", name, p.address.String())
	}
	again, keyText, err := users.EnterByWallet(t.Context(), p.fresh(t, users, user.ID{}), true, atHome)
	if err != nil {
		t.Fatal(err)
	}
	if again.User.ID != in.User.ID {
		t.Errorf("later: got the user %v, want %v", again.User.ID, in.User.ID)
	}
	if keyText != "" {
		t.Error("later: got a key, want none")
	}
	if who, _, err := users.Whose(t.Context(), again.Token.Digest()); err != nil {
		t.Errorf("the token: got the error %v, want none", err)
	} else if who.ID != in.User.ID {
		t.Errorf("the token: got the user %v, want %v", who.ID, in.User.ID)
	}
	for _, table := range []string{"app_user", "account", "consumer_key", "user_identity"} {
		if n := scan[int](t, e, `SELECT count(*) FROM `+table); n != 1 {
			t.Errorf("%s: got %d, want 1", table, n)
		}
	}
	e.sound(t)
}

func TestASignatureOfAWalletCountsOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	proof := p.fresh(t, users, user.ID{})
	if _, _, err := users.EnterByWallet(t.Context(), proof, true, atHome); err != nil {
		t.Fatal(err)
	}
	_, _, err := users.EnterByWallet(t.Context(), proof, true, atHome)
	wantReason(t, "a replay", err, fault.InvalidCredentials)
	other := proof
	other.Signature = slices.Clone(proof.Signature)
	other.Signature[64] -= 27 // the other way to write v
	_, _, err = users.EnterByWallet(t.Context(), other, true, atHome)
	wantReason(t, "a replay in another form", err, fault.InvalidCredentials)
	if n := scan[int](t, e, `SELECT count(*) FROM session_family`); n != 1 {
		t.Errorf("sessions: got %d, want 1", n)
	}
	// Another replica finds it, too.
	_, _, err = e.users(t).EnterByWallet(t.Context(), proof, true, atHome)
	wantReason(t, "a replay at another replica", err, fault.InvalidCredentials)
}

// flipped gives a signature its second form, whose s is in the upper half.
func flipped(signature []byte) []byte {
	n, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	out := slices.Clone(signature)
	new(big.Int).Sub(n, new(big.Int).SetBytes(signature[32:64])).FillBytes(out[32:64])
	out[64] ^= 27 ^ 28
	return out
}

func TestAMessageThatWasNotAskedForOrSignedSignsNobodyIn(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	in := e.comesIn(t, p)
	good := textFor(t, users, p, user.ID{})
	foreign := e.users(t)
	foreign.Wallets = user.NewWallets(apikey.Only(apikey.Pepper{9}), user.Chains{1, 8453})
	altered := func(old, with string) user.WalletProof {
		if !strings.Contains(good, old) {
			t.Fatalf("the message has no %q:\n%s", old, good)
		}
		return p.shown(strings.ReplaceAll(good, old, with))
	}
	withSignature := func(change func([]byte) []byte) user.WalletProof {
		proof := p.shown(good)
		proof.Signature = change(proof.Signature)
		return proof
	}
	for what, proof := range map[string]user.WalletProof{
		"another domain":        altered("console.example.com", "evil.example.com"),
		"another page of ours":  altered(console, shop),
		"another domain alone":  altered("console.example.com wants", "localhost:8080 wants"),
		"another URI":           altered("URI: "+console, "URI: "+console+"/"),
		"another chain of ours": altered("Chain ID: 1\n", "Chain ID: 8453\n"),
		"a chain not of ours":   altered("Chain ID: 1\n", "Chain ID: 5\n"),
		"another purpose":       altered("Sign in to your account.", "Send all that you have."),
		"the hub's purpose": altered("Sign in to your account. This moves nothing and costs nothing.",
			"Connect a provider agent to this service. It costs nothing and moves nothing."),
		"another page of ours in all": p.shown(strings.NewReplacer(console, shop, "console.example.com", "localhost:8080").
			Replace(good)),
		"another wallet":                altered(p.address.String(), newPurse(2).address.String()),
		"another nonce":                 altered("Nonce: ", "Nonce: 0"),
		"a line more":                   p.shown(good + "\nRequest ID: 1"),
		"no message":                    p.shown(""),
		"another wallet's":              newPurse(2).shown(good),
		"another installation's":        p.shown(textFor(t, foreign, p, user.ID{})),
		"a link":                        p.shown(textFor(t, users, p, in.User.ID)),
		"a changed digit":               withSignature(func(s []byte) []byte { s[5] ^= 1; return s }),
		"its second form":               withSignature(flipped),
		"a signature cut off":           withSignature(func(s []byte) []byte { return s[:64] }),
		"a contract's signature":        withSignature(func(s []byte) []byte { return append(s, s...) }),
		"no signature":                  withSignature(func([]byte) []byte { return nil }),
		"a page that is ours no longer": {Message: good, Signature: p.sign(good), Origins: []string{shop}},
		"no pages":                      {Message: good, Signature: p.sign(good)},
	} {
		_, _, err := users.EnterByWallet(t.Context(), proof, true, atHome)
		wantReason(t, what, err, fault.InvalidCredentials)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM app_user`); n != 1 {
		t.Errorf("users: got %d, want 1", n)
	}
	if _, _, err := users.EnterByWallet(t.Context(), p.shown(good), true, atHome); err != nil {
		t.Errorf("the message as it was asked for: got the error %v, want none", err)
	}
}

func TestAChallengeOfAWalletIsOverAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	at := clock.NewManual(time.Now())
	users, p := e.users(t), newPurse(1)
	users.Clock = at
	late, soon := p.fresh(t, users, user.ID{}), p.fresh(t, users, user.ID{})
	at.Advance(5*time.Minute - time.Second)
	if _, _, err := users.EnterByWallet(t.Context(), soon, true, atHome); err != nil {
		t.Errorf("before its end: got the error %v, want none", err)
	}
	at.Advance(time.Second)
	_, _, err := users.EnterByWallet(t.Context(), late, true, atHome)
	wantReason(t, "at its end", err, fault.InvalidCredentials)

	behind := e.users(t)
	behind.Clock = clock.NewManual(at.Now().Add(-time.Hour))
	_, _, err = behind.EnterByWallet(t.Context(), p.fresh(t, users, user.ID{}), true, atHome)
	wantReason(t, "of an hour ahead", err, fault.InvalidCredentials)
}

func TestWhatAWalletCannotBeAskedIsRefusedByField(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	address := newPurse(1).address.String()
	for field, ask := range map[string]user.WalletAsk{
		"address":  {Address: "0x5aAEb6053F3E94C9b9A09f33669435E7Ef1BeAed", Origin: console},
		"chain_id": {Address: address, Origin: console, ChainID: 5},
		"origin":   {Address: address, Origin: console + "/"},
	} {
		_, err := e.users(t).AskWallet(t.Context(), ask)
		f := refusal(t, err)
		if f.Reason != fault.InvalidValue {
			t.Errorf("%s: got the reason %s, want %s", field, f.Reason, fault.InvalidValue)
		}
		if f.Param != field {
			t.Errorf("%s: got the field %q, want %q", field, f.Param, field)
		}
	}
	for _, origin := range []string{"", "console.example.com", "ftp://console.example.com", console + "?", "https://a b"} {
		_, err := e.users(t).AskWallet(t.Context(), user.WalletAsk{Address: address, Origin: origin})
		wantReason(t, origin, err, fault.InvalidValue)
	}
}

func TestAnyFormOfAnAddressIsOneWallet(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	in := e.comesIn(t, p)
	for _, text := range []string{strings.ToLower(p.address.String()), "0x" + strings.ToUpper(p.address.String()[2:])} {
		got, err := users.AskWallet(t.Context(), user.WalletAsk{Address: text, Origin: console})
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := users.EnterByWallet(t.Context(), p.shown(got.Message), true, atHome)
		if err != nil {
			t.Fatalf("%s: got the error %v, want none", text, err)
		}
		if again.User.ID != in.User.ID {
			t.Errorf("%s: got the user %v, want %v", text, again.User.ID, in.User.ID)
		}
	}
}

func TestOfRacingFirstSignInsOfAWalletOneOpensTheUser(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	p := newPurse(1)
	var racers sync.WaitGroup
	var mu sync.Mutex
	found := map[user.ID]int{}
	shownKeys := 0
	for range 6 {
		users := e.users(t)
		proof := p.fresh(t, users, user.ID{})
		racers.Go(func() {
			in, keyText, err := users.EnterByWallet(t.Context(), proof, true, atHome)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("got the error %v, want none", err)
			}
			found[in.User.ID]++
			if keyText != "" {
				shownKeys++
			}
		})
	}
	racers.Wait()
	if len(found) != 1 {
		t.Errorf("users: got %d, want 1", len(found))
	}
	if shownKeys != 1 {
		t.Errorf("keys that were shown: got %d, want 1", shownKeys)
	}
	for _, table := range []string{"app_user", "account", "consumer_key", "user_identity"} {
		if n := scan[int](t, e, `SELECT count(*) FROM `+table); n != 1 {
			t.Errorf("%s: got %d, want 1", table, n)
		}
	}
	e.sound(t)
}

func TestAWalletIsLinkedToOneUserWhoIsSignedInByEitherWay(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	ada, bob := e.member(t, "ada@example.com"), e.member(t, "bob@example.com")
	linked := e.links(t, ada, p)
	if want := strings.ToLower(p.address.String()); linked.Subject != want {
		t.Errorf("the subject: got %q, want %q", linked.Subject, want)
	}
	if again := e.links(t, ada, p); again.ID != linked.ID {
		t.Errorf("linked again: got %v, want %v", again.ID, linked.ID)
	}
	if in := e.comesIn(t, p); in.User.ID != ada.User.ID {
		t.Errorf("by the wallet: got the user %v, want %v", in.User.ID, ada.User.ID)
	}
	in, err := users.LogIn(t.Context(), "ada@example.com", password, user.From{Network: "home"})
	if err != nil {
		t.Errorf("by the password: got the error %v, want none", err)
	}
	if in.User.ID != ada.User.ID {
		t.Errorf("by the password: got the user %v, want %v", in.User.ID, ada.User.ID)
	}
	_, err = users.LinkWallet(t.Context(), bob.User.ID, bob.Family, p.fresh(t, users, bob.User.ID))
	wantReason(t, "another user", err, fault.AlreadyExists)
	_, err = users.LinkWallet(t.Context(), user.ID{1}, ada.Family, p.fresh(t, users, user.ID{1}))
	wantReason(t, "nobody", err, fault.UserNotFound)
	if n := scan[int](t, e, `SELECT count(*) FROM user_identity`); n != 1 {
		t.Errorf("identities: got %d, want 1", n)
	}
	e.sound(t)
}

// Whoever has somebody sign a text gets that wallet linked to no account that the text does not
// name.
func TestAProofToLinkIsGoodForItsUserAlone(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	ada, eve := e.member(t, "ada@example.com"), e.member(t, "eve@example.com")
	for what, proof := range map[string]user.WalletProof{
		"of another user": p.fresh(t, users, ada.User.ID), "of a sign-in": p.fresh(t, users, user.ID{}),
	} {
		_, err := users.LinkWallet(t.Context(), eve.User.ID, eve.Family, proof)
		wantReason(t, what, err, fault.InvalidCredentials)
	}
	if message := textFor(t, users, p, ada.User.ID); !strings.Contains(message, ada.User.ID.String()) {
		t.Errorf("the text: got %q, want the user's id in it", message)
	}
	proof := p.fresh(t, users, ada.User.ID)
	if _, err := users.LinkWallet(t.Context(), ada.User.ID, ada.Family, proof); err != nil {
		t.Fatal(err)
	}
	_, err := users.LinkWallet(t.Context(), ada.User.ID, ada.Family, proof)
	wantReason(t, "a replay", err, fault.InvalidCredentials)
}

func TestEndingAnIdentityEndsItsSessionsAndTellsTheUser(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	ada := e.member(t, "ada@example.com")
	e.exec(t, `DELETE FROM mail_outbox`)
	linked := e.links(t, ada, p)
	thief := e.comesIn(t, p)
	if err := users.EndIdentity(t.Context(), ada.User.ID, linked.ID, ada.Family); err != nil {
		t.Fatal(err)
	}
	_, _, err := users.Whose(t.Context(), thief.Token.Digest())
	wantReason(t, "a session of the wallet", err, fault.SessionExpired)
	if _, _, err := users.Whose(t.Context(), ada.Token.Digest()); err != nil {
		t.Errorf("the session that ended it: got the error %v, want none", err)
	}
	_, _, err = users.EnterByWallet(t.Context(), p.fresh(t, users, user.ID{}), false, atHome)
	wantReason(t, "the wallet", err, fault.UserNotFound)
	err = users.EndIdentity(t.Context(), ada.User.ID, linked.ID, ada.Family)
	wantReason(t, "ended again", err, fault.IdentityNotFound)
	sent, _ := e.deliver(t, &letters{})
	if len(sent) != 2 {
		t.Fatalf("letters: got %d, want 2", len(sent))
	}
	for i, want := range []user.LetterKind{user.LinkedLetter, user.EndedLetter} {
		if sent[i].Kind != want {
			t.Errorf("letter %d: got %s, want %s", i, sent[i].Kind, want)
		}
	}
	if in := e.comesIn(t, p); in.User.ID == ada.User.ID {
		t.Error("the wallet, later: got its former user, want another")
	}
}

func TestAnIdentityOfAnotherUserDoesNotExist(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users := e.users(t)
	ada := e.member(t, "ada@example.com")
	bob := e.comesIn(t, newPurse(1))
	linked := e.links(t, ada, newPurse(2))
	wantReason(t, "another's", users.EndIdentity(t.Context(), bob.User.ID, linked.ID, bob.Family), fault.IdentityNotFound)
	all, err := users.ListIdentities(t.Context(), ada.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("identities: got %d, want 1", len(all))
	}
	if all[0] != linked {
		t.Errorf("got %+v, want %+v", all[0], linked)
	}
}

// A token that was copied from a session of weeks takes no account over.
func TestOnlyASessionThatBeganJustNowChangesHowItsUserSignsIn(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	in := e.comesIn(t, p)
	linked := e.links(t, in, newPurse(2))
	e.exec(t, `UPDATE session_family SET created_at = now() - interval '15 minutes'`)
	_, err := users.LinkWallet(t.Context(), in.User.ID, in.Family, newPurse(3).fresh(t, users, in.User.ID))
	wantReason(t, "another wallet", err, fault.FreshSignInRequired)
	wantReason(t, "one wallet less", users.EndIdentity(t.Context(), in.User.ID, linked.ID, in.Family),
		fault.FreshSignInRequired)
	wantReason(t, "by no session", users.EndIdentity(t.Context(), in.User.ID, linked.ID, user.FamilyID{}),
		fault.FreshSignInRequired)
	stranger := e.comesIn(t, newPurse(9))
	wantReason(t, "by another's session", users.EndIdentity(t.Context(), in.User.ID, linked.ID, stranger.Family),
		fault.FreshSignInRequired)
	again := e.comesIn(t, p)
	if err := users.EndIdentity(t.Context(), in.User.ID, linked.ID, again.Family); err != nil {
		t.Errorf("after another sign-in: got the error %v, want none", err)
	}
}

func TestTheLastWayToSignInStays(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users := e.users(t)
	in := e.comesIn(t, newPurse(1))
	e.links(t, in, newPurse(2))
	all, err := users.ListIdentities(t.Context(), in.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	var racers sync.WaitGroup
	var mu sync.Mutex
	var refused []error
	for _, one := range all {
		racers.Go(func() {
			err := e.users(t).EndIdentity(t.Context(), in.User.ID, one.ID, in.Family)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
			}
		})
	}
	racers.Wait()
	if len(refused) != 1 {
		t.Fatalf("refusals: got %d, want 1", len(refused))
	}
	wantReason(t, "the last wallet", refused[0], fault.TransitionNotAllowed)
	if n := scan[int](t, e, `SELECT count(*) FROM user_identity`); n != 1 {
		t.Errorf("identities: got %d, want 1", n)
	}
	refusedSQL(t, e, "has no way to sign in", `DELETE FROM user_identity`)
	refusedSQL(t, e, "has no e-mail",
		`UPDATE app_user SET password_hash = '$argon2id$v=19$m=1' WHERE email IS NULL`)
}

func TestIdentitiesAndProofsOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users := e.users(t)
	in := e.comesIn(t, newPurse(1))
	for i := range user.MaxIdentities - 1 {
		e.links(t, in, newPurse(byte(i+2)))
	}
	ninth := newPurse(100)
	_, err := users.LinkWallet(t.Context(), in.User.ID, in.Family, ninth.fresh(t, users, in.User.ID))
	wantReason(t, "a ninth identity", err, fault.TransitionNotAllowed)
	for used := user.MaxIdentities; used < user.MaxProofs; used++ {
		e.comesIn(t, newPurse(1))
	}
	_, _, err = users.EnterByWallet(t.Context(), newPurse(1).fresh(t, users, user.ID{}), true, atHome)
	f := refusal(t, err)
	if f.Reason != fault.RateLimitExceeded {
		t.Errorf("one sign-in too many: got the reason %s, want %s", f.Reason, fault.RateLimitExceeded)
	}
	if f.RetryAfter <= 0 {
		t.Errorf("the wait: got %v, want more than 0", f.RetryAfter)
	}
	// Nobody else waits, and the user does not once the proofs are over.
	e.comesIn(t, ninth)
	e.exec(t, `ALTER TABLE used_proof DISABLE TRIGGER used_proof_stands`)
	e.exec(t, `UPDATE used_proof SET expires_at = now()`)
	e.exec(t, `ALTER TABLE used_proof ENABLE TRIGGER used_proof_stands`)
	e.comesIn(t, newPurse(1))
	n, err := e.store.PruneProofs(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Errorf("proofs that are forgotten: got %d, want 1", n)
	}
	if kept := scan[int](t, e, `SELECT count(*) FROM used_proof`); kept != 1 {
		t.Errorf("proofs that are kept: got %d, want 1", kept)
	}
}

func TestAUserWithoutAnEmailGetsNoLetterAndHasNoPassword(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	in := e.comesIn(t, p)
	e.links(t, in, newPurse(2))
	wantReason(t, "to confirm an e-mail", users.AskConfirm(t.Context(), in.User.ID), fault.TransitionNotAllowed)
	wantReason(t, "another password", users.ChangePassword(t.Context(), in.User.ID, in.Family, password, "another horse",
		"net"), fault.TransitionNotAllowed)
	if n := scan[int](t, e, `SELECT count(*) FROM mail_outbox`); n != 0 {
		t.Errorf("letters: got %d, want 0", n)
	}
	if _, err := users.LogIn(t.Context(), "", password, user.From{Network: "net"}); !fault.Is(err,
		fault.InvalidCredentials) {
		t.Errorf("without an e-mail: got the error %v, want the reason %s", err, fault.InvalidCredentials)
	}
	_, _, err := e.ownKeys.Make(t.Context(), in.User.Account, key.Settings{Name: "second"})
	wantReason(t, "a second key of an account that never paid", err, fault.EmailNotConfirmed)
}
