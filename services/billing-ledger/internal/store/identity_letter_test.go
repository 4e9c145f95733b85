package store_test

import (
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/oidctest"
	"svc.internal/services/billing-ledger/internal/user"
)

// newPassword is what a reset sets.
const newPassword = "battery staple"

// resets sets a user's password by a letter.
func (e *env) resets(t testing.TB, email string) {
	t.Helper()
	users := e.users(t)
	if err := users.AskReset(t.Context(), email); err != nil {
		t.Fatal(err)
	}
	sent, _ := e.deliver(t, &letters{})
	if err := users.ResetPassword(t.Context(), tokenIn(t, only(t, sent, user.ResetLetter)), newPassword,
		"net"); err != nil {
		t.Fatal(err)
	}
}

// tellingLetters is how many letters wait that tell of identities.
func (e *env) tellingLetters(t testing.TB) int {
	t.Helper()
	return scan[int](t, e, `SELECT count(*) FROM mail_outbox WHERE kind IN ('identity_linked', 'identity_ended')`)
}

// Whoever had the account may have linked a wallet of its own, by which it would come back.
func TestAWalletThatWasLinkedBeforeAResetSignsNobodyInAfterIt(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users, p := e.users(t), newPurse(1)
	ada := e.member(t, "ada@example.com")
	e.links(t, ada, p)
	e.exec(t, `DELETE FROM mail_outbox`)
	e.resets(t, "ada@example.com")
	_, _, err := users.EnterByWallet(t.Context(), p.fresh(t, users, user.ID{}), false, atHome)
	wantReason(t, "the wallet", err, fault.UserNotFound)
	_, err = users.LinkWallet(t.Context(), ada.User.ID, ada.Family, newPurse(2).fresh(t, users, ada.User.ID))
	wantReason(t, "a link by a session from before", err, fault.FreshSignInRequired)
	if in := e.comesIn(t, p); in.User.ID == ada.User.ID {
		t.Error("the wallet, which may open a user: got its former user, want another")
	}
	if n := scan[int](t, e, `SELECT count(*) FROM account_mark WHERE account_id = $1 AND cause = 'wallet'`,
		[16]byte(ada.User.Account)); n != 1 {
		t.Errorf("marks of the account: got %d, want 1", n)
	}
	if _, err := users.LogIn(t.Context(), "ada@example.com", newPassword, user.From{Network: "net"}); err != nil {
		t.Errorf("the new password: got the error %v, want none", err)
	}
	sent, _ := e.deliver(t, &letters{})
	const unlinked = "All wallets and accounts at OpenID providers were unlinked"
	if text := only(t, sent, user.ResetDoneLetter).Text; !strings.Contains(text, unlinked) {
		t.Errorf("the letter: got %q, want it to say that all identities were unlinked", text)
	}
	e.sound(t)
}

// Somebody who signs up with the e-mail of another would have a way in that the other knows nothing of.
func TestAWalletIsLinkedOnceTheEmailIsConfirmedWhereLettersAreSent(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users := e.users(t)
	ada, _ := e.signUp(t, "ada@example.com")
	proof := newPurse(1).fresh(t, users, ada.User.ID)
	_, err := users.LinkWallet(t.Context(), ada.User.ID, ada.Family, proof)
	wantReason(t, "an e-mail that is not confirmed", err, fault.EmailNotConfirmed)
	if n := scan[int](t, e, `SELECT count(*) FROM user_identity`); n != 0 {
		t.Errorf("identities: got %d, want 0", n)
	}
	sent, _ := e.deliver(t, &letters{})
	if err := users.ConfirmEmail(t.Context(), tokenIn(t, only(t, sent, user.ConfirmLetter))); err != nil {
		t.Fatal(err)
	}
	if _, err := users.LinkWallet(t.Context(), ada.User.ID, ada.Family, proof); err != nil {
		t.Errorf("the same signature, once it is confirmed: got the error %v, want none", err)
	}
	bob, _ := e.signUp(t, "bob@example.com")
	users.SendsLetters = false
	if _, err := users.LinkWallet(t.Context(), bob.User.ID, bob.Family, newPurse(2).fresh(t, users,
		bob.User.ID)); err != nil {
		t.Errorf("where no letters are sent: got the error %v, want none", err)
	}
}

func TestAUserWithoutAnEmailLinksAWallet(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users := e.openID(t, p)
	_, back := begins(t, users, p)
	in, err := users.FinishOpenID(t.Context(), back, true, user.From{Remember: true})
	if err != nil {
		t.Fatal(err)
	}
	for what, who := range map[string]user.SignedIn{"of OpenID": in.SignedIn, "of a wallet": e.comesIn(t, newPurse(1))} {
		wallet := newPurse(byte(len(what)))
		if linked := e.links(t, who, wallet); linked.Issuer != user.Wallet {
			t.Errorf("a user %s: got an identity of %s, want one of %s", what, linked.Issuer, user.Wallet)
		}
		if again := e.comesIn(t, wallet); again.User.ID != who.User.ID {
			t.Errorf("a user %s, by the wallet: got the user %v, want %v", what, again.User.ID, who.User.ID)
		}
	}
}

// linksAndEnds makes twice as many changes as the pace has letters at once.
func (e *env) linksAndEnds(t testing.TB, in user.SignedIn) {
	t.Helper()
	for range user.LetterPace.AtOnce {
		linked := e.links(t, in, newPurse(1))
		if err := e.users(t).EndIdentity(t.Context(), in.User.ID, linked.ID, in.Family); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManyLinksAndEndsLeaveNoMoreLettersThanThePace(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	users := e.users(t)
	ada, bob := e.member(t, "ada@example.com"), e.member(t, "bob@example.com")
	e.exec(t, `DELETE FROM mail_outbox`)
	e.linksAndEnds(t, ada)
	if n := e.tellingLetters(t); n != user.LetterPace.AtOnce {
		t.Errorf("letters of %d changes: got %d, want %d", 2*user.LetterPace.AtOnce, n, user.LetterPace.AtOnce)
	}
	if err := users.AskReset(t.Context(), "ada@example.com"); err != nil {
		t.Errorf("a letter that sets a password: got the error %v, want none", err)
	}
	e.exec(t, `UPDATE sign_in_count SET full_at = full_at - $1::interval`, user.LetterPace.Interval)
	e.links(t, ada, newPurse(1))
	if n := e.tellingLetters(t); n != user.LetterPace.AtOnce+1 {
		t.Errorf("letters after the interval: got %d, want %d", n, user.LetterPace.AtOnce+1)
	}

	e.exec(t, `DELETE FROM mail_outbox`)
	for range user.LetterPace.AtOnce {
		if err := users.AskReset(t.Context(), "bob@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	e.links(t, bob, newPurse(2))
	if n := e.tellingLetters(t); n != 1 {
		t.Errorf("letters of a link after many resets were asked for: got %d, want 1", n)
	}
}

func TestLettersThatOnlyTellLeaveRoomForLettersWithAToken(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	ada := e.member(t, "ada@example.com")
	e.exec(t, `DELETE FROM mail_outbox`)
	e.exec(t, `INSERT INTO mail_outbox (kind, recipient) SELECT 'reset', 'x@example.com' FROM generate_series(1, 1499)`)
	linked := e.links(t, ada, newPurse(1))
	if err := e.users(t).EndIdentity(t.Context(), ada.User.ID, linked.ID, ada.Family); err != nil {
		t.Errorf("to end an identity without a letter: got the error %v, want none", err)
	}
	if n := e.tellingLetters(t); n != 1 {
		t.Errorf("letters that tell, with room for one: got %d, want 1", n)
	}
	if err := e.users(t).AskReset(t.Context(), "ada@example.com"); err != nil {
		t.Errorf("a letter that sets a password: got the error %v, want none", err)
	}
}
