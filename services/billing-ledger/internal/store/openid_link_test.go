package store_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/oidctest"
	"svc.internal/services/billing-ledger/internal/oidc"
	"svc.internal/services/billing-ledger/internal/user"
)

// beginsLink begins a link of a user who is signed in, to which the provider's user agrees.
func beginsLink(
	t testing.TB, users *user.Users, p *oidctest.Provider, in user.SignedIn,
) (url string, back oidc.Returned) {
	t.Helper()
	started, err := users.StartOpenIDLink(t.Context(), "local", in.User.ID, in.Family)
	if err != nil {
		t.Fatal(err)
	}
	state, code := p.Agrees(t, started.URL)
	return started.URL, oidc.Returned{Name: "local", State: state, Code: code, Flow: started.Flow}
}

// linksOpenID links the provider's user to a user who is signed in.
func linksOpenID(t testing.TB, users *user.Users, p *oidctest.Provider, in user.SignedIn) user.OwnedIdentity {
	t.Helper()
	_, back := beginsLink(t, users, p, in)
	end, err := users.FinishOpenID(t.Context(), back, true, atHome)
	if err != nil {
		t.Fatal(err)
	}
	return end.Linked
}

// entersByOpenID signs the provider's user in.
func entersByOpenID(t testing.TB, users *user.Users, p *oidctest.Provider, open bool) (user.SignedIn, error) {
	t.Helper()
	_, back := begins(t, users, p)
	end, err := users.FinishOpenID(t.Context(), back, open, atHome)
	return end.SignedIn, err
}

// openIDIdentities is how many identities of OpenID providers a user has.
func (e *env) openIDIdentities(t testing.TB, in user.SignedIn) int {
	t.Helper()
	return scan[int](t, e, `SELECT count(*) FROM user_identity WHERE user_id = $1 AND issuer <> 'wallet'`,
		[16]byte(in.User.ID))
}

func TestALinkedOpenIDIdentitySignsItsUserInUntilItIsUnlinked(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users, ada := e.openID(t, p), e.member(t, "ada@example.com")
	e.exec(t, `DELETE FROM mail_outbox`)
	_, back := beginsLink(t, users, p, ada)
	end, err := users.FinishOpenID(t.Context(), back, true, user.From{Remember: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := end.Linked.Identity, (user.Identity{Issuer: user.Issuer(p.URL), Subject: "ada"}); got != want {
		t.Errorf("linked: got %v, want %v", got, want)
	}
	if end.SignedIn != (user.SignedIn{}) {
		t.Errorf("a link: got somebody signed in, want nobody")
	}
	sent, _ := e.deliver(t, &letters{})
	only(t, sent, user.LinkedLetter)
	in, err := entersByOpenID(t, users, p, false)
	if err != nil {
		t.Fatal(err)
	}
	if in.User.ID != ada.User.ID {
		t.Errorf("a sign-in: got the user %v, want %v", in.User.ID, ada.User.ID)
	}
	if err := users.EndIdentity(t.Context(), ada.User.ID, end.Linked.ID, ada.Family); err != nil {
		t.Fatal(err)
	}
	sent, _ = e.deliver(t, &letters{})
	only(t, sent, user.EndedLetter)
	_, err = entersByOpenID(t, users, p, false)
	wantReason(t, "a sign-in after the end, which opens nobody", err, fault.UserNotFound)
	if in, err = entersByOpenID(t, users, p, true); err != nil {
		t.Fatal(err)
	}
	if in.User.ID == ada.User.ID {
		t.Error("a sign-in after the end: got the former user, want another")
	}
	e.sound(t)
}

func TestAnOpenIDIdentityOfAnotherUserIsNotLinked(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users, ada := e.openID(t, p), e.member(t, "ada@example.com")
	bob, err := entersByOpenID(t, users, p, true)
	if err != nil {
		t.Fatal(err)
	}
	_, back := beginsLink(t, users, p, ada)
	_, err = users.FinishOpenID(t.Context(), back, true, atHome)
	wantReason(t, "the identity of another", err, fault.AlreadyExists)
	if err != nil && strings.Contains(err.Error(), bob.User.ID.String()) {
		t.Errorf("the identity of another: got the error %v, want it without the user", err)
	}
	if n := e.openIDIdentities(t, ada); n != 0 {
		t.Errorf("identities: got %d, want 0", n)
	}
	again, err := entersByOpenID(t, users, p, false)
	if err != nil {
		t.Fatal(err)
	}
	if again.User.ID != bob.User.ID {
		t.Errorf("a sign-in: got the user %v, want %v", again.User.ID, bob.User.ID)
	}
}

func TestALinkCountsOnce(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users, ada := e.openID(t, p), e.member(t, "ada@example.com")
	url, back := beginsLink(t, users, p, ada)
	end, err := users.FinishOpenID(t.Context(), back, true, atHome)
	if err != nil {
		t.Fatal(err)
	}
	if err := users.EndIdentity(t.Context(), ada.User.ID, end.Linked.ID, ada.Family); err != nil {
		t.Fatal(err)
	}
	_, err = users.FinishOpenID(t.Context(), back, true, atHome)
	wantReason(t, "the same code", err, fault.InvalidCredentials)
	_, back.Code = p.Agrees(t, url) // the provider gives another code for the same link
	_, err = users.FinishOpenID(t.Context(), back, true, atHome)
	wantReason(t, "another code", err, fault.InvalidCredentials)
	if n := e.openIDIdentities(t, ada); n != 0 {
		t.Errorf("identities: got %d, want 0", n)
	}
}

// Two replicas are sent the same callback.
func TestALinkThatComesBackTwiceAtOnceLinksOneIdentity(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users, ada := e.openID(t, p), e.member(t, "ada@example.com")
	url, first := beginsLink(t, users, p, ada)
	second := first
	_, second.Code = p.Agrees(t, url) // the provider would take each code once
	var linked atomic.Int32
	var replicas sync.WaitGroup
	for _, back := range []oidc.Returned{first, second} {
		replica := e.openID(t, p)
		replicas.Go(func() {
			_, err := replica.FinishOpenID(t.Context(), back, true, atHome)
			if err == nil {
				linked.Add(1)
			} else if !fault.Is(err, fault.InvalidCredentials) {
				t.Errorf("got the error %v, want %s", err, fault.InvalidCredentials)
			}
		})
	}
	replicas.Wait()
	if n := linked.Load(); n != 1 {
		t.Errorf("links: got %d, want 1", n)
	}
	if n := e.openIDIdentities(t, ada); n != 1 {
		t.Errorf("identities: got %d, want 1", n)
	}
}

// Whoever ends the link of another would sign in to the account of the other, or have the other's
// identity sign in to its own.
func TestALinkIsOfTheUserWhoBeganItAlone(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users, ada, eve := e.openID(t, p), e.member(t, "ada@example.com"), e.member(t, "eve@example.com")
	for what, mix := range map[string]func(ada, eve, sign oidc.Returned) oidc.Returned{
		"the state of another user": func(ada, eve, _ oidc.Returned) oidc.Returned {
			ada.State = eve.State
			return ada
		},
		"the state and the code of another user": func(ada, eve, _ oidc.Returned) oidc.Returned {
			ada.State, ada.Code = eve.State, eve.Code
			return ada
		},
		"the code of another user": func(ada, eve, _ oidc.Returned) oidc.Returned {
			ada.Code = eve.Code
			return ada
		},
		"the flow of another user": func(ada, eve, _ oidc.Returned) oidc.Returned {
			ada.Flow = eve.Flow
			return ada
		},
		"no flow": func(ada, _, _ oidc.Returned) oidc.Returned {
			ada.Flow = nil
			return ada
		},
		"the flow of a sign-in": func(ada, _, sign oidc.Returned) oidc.Returned {
			ada.Flow = sign.Flow
			return ada
		},
		"a sign-in by a link's flow": func(ada, _, sign oidc.Returned) oidc.Returned {
			sign.Flow = ada.Flow
			return sign
		},
	} {
		_, adas := beginsLink(t, users, p, ada)
		_, eves := beginsLink(t, users, p, eve)
		_, sign := begins(t, users, p)
		_, err := users.FinishOpenID(t.Context(), mix(adas, eves, sign), true, atHome)
		wantReason(t, what, err, fault.InvalidCredentials)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM user_identity`); n != 0 {
		t.Errorf("identities: got %d, want 0", n)
	}
}

func TestALinkHasTheRulesOfWallets(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users := e.openID(t, p)
	finishes := func(in user.SignedIn) error {
		_, back := beginsLink(t, users, p, in)
		_, err := users.FinishOpenID(t.Context(), back, true, atHome)
		return err
	}
	ann, _ := e.signUp(t, "ann@example.com")
	wantReason(t, "an e-mail that is not confirmed", finishes(ann), fault.EmailNotConfirmed)

	bob := e.member(t, "bob@example.com")
	if err := users.LogOut(t.Context(), bob.Token.Digest(), false, true); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "a session that was ended", finishes(bob), fault.FreshSignInRequired)

	cat := e.member(t, "cat@example.com")
	e.exec(t, `UPDATE session_family SET created_at = now() - interval '15 minutes'`)
	wantReason(t, "a session that began long ago", finishes(cat), fault.FreshSignInRequired)

	dan := e.member(t, "dan@example.com")
	for n := range user.MaxIdentities {
		e.links(t, dan, newPurse(byte(n+1)))
	}
	wantReason(t, "one identity too many", finishes(dan), fault.TransitionNotAllowed)
	if n := scan[int](t, e, `SELECT count(*) FROM user_identity WHERE issuer <> 'wallet'`); n != 0 {
		t.Errorf("identities: got %d, want 0", n)
	}
}

func TestTheOnlyOpenIDIdentityOfAUserWithoutAPasswordStays(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users := e.openID(t, p)
	in, err := entersByOpenID(t, users, p, true)
	if err != nil {
		t.Fatal(err)
	}
	all, err := users.ListIdentities(t.Context(), in.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("identities: got %d, want 1", len(all))
	}
	end := func() error { return users.EndIdentity(t.Context(), in.User.ID, all[0].ID, in.Family) }
	wantReason(t, "the last way in", end(), fault.TransitionNotAllowed)
	e.links(t, in, newPurse(1))
	if err := end(); err != nil {
		t.Errorf("beside a wallet: got the error %v, want none", err)
	}
}

func TestAnOpenIDIdentityThatWasLinkedBeforeAResetSignsNobodyInAfterIt(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users, ada := e.openID(t, p), e.member(t, "ada@example.com")
	linksOpenID(t, users, p, ada)
	e.exec(t, `DELETE FROM mail_outbox`)
	e.resets(t, "ada@example.com")
	_, err := entersByOpenID(t, users, p, false)
	wantReason(t, "the identity", err, fault.UserNotFound)
}
