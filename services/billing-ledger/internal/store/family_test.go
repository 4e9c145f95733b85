package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/user"
)

// newFamily is a family that nobody remembers, with its token.
func newFamily(t testing.TB) (user.NewFamily, user.Token) {
	t.Helper()
	id, err := ids.NewAccount(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	token, err := user.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return user.NewFamily{ID: user.FamilyID(id), Token: token.Digest()}, token
}

// remembered is who signs in from a page of our site.
func (e *env) remembered(t testing.TB) user.SignedIn {
	t.Helper()
	in, err := e.users(t).LogIn(t.Context(), "ada@example.com", password, user.From{Network: "home",
		Shown: "192.0.2.0/24", Remember: true})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func (e *env) refresh(t testing.TB, token user.Token) user.SignedIn {
	t.Helper()
	in, err := e.users(t).Refresh(t.Context(), token.Reveal(), "198.51.100.0/24")
	if err != nil {
		t.Fatalf("refresh: got the error %v, want none", err)
	}
	return in
}

// live reports whether a token counts.
func (e *env) live(t testing.TB, token user.Token) bool {
	t.Helper()
	_, _, err := e.users(t).Whose(t.Context(), token.Digest())
	if err != nil && !fault.Is(err, fault.InvalidSession) && !fault.Is(err, fault.SessionExpired) {
		t.Fatal(err)
	}
	return err == nil
}

func TestARefreshTokenGivesATokenAndItsSuccessor(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	first := e.remembered(t)
	next := e.refresh(t, first.Refresh)
	if next.User != first.User {
		t.Errorf("the user: got %+v, want %+v", next.User, first.User)
	}
	if next.Family != first.Family {
		t.Errorf("the family: got %v, want %v", next.Family, first.Family)
	}
	if next.Refresh == first.Refresh {
		t.Error("the successor is the token itself")
	}
	if !e.live(t, next.Token) {
		t.Error("the new token: got over, want live")
	}
	if !e.live(t, first.Token) {
		t.Error("the token of another page of the family: got over, want live")
	}
	if life := time.Until(next.RefreshExpiresAt); life < user.FamilyLife-time.Minute || life > user.FamilyLife {
		t.Errorf("the successor is good for: got %v, want %v", life, user.FamilyLife)
	}
	all, err := e.users(t).ListFamilies(t.Context(), first.User.ID)
	if err != nil || len(all) != 2 {
		t.Fatalf("families: got %d and %v, want 2", len(all), err)
	}
	if all[0].Network != "198.51.100.0/24" {
		t.Errorf("the network of the last use: got %q, want the last", all[0].Network)
	}
}

// Two tabs that refresh at once both stay signed in, however often, in any order.
func TestTwoTabsThatRefreshAtOnceBothStaySignedIn(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	token := e.remembered(t).Refresh
	for range 4 {
		var tabs sync.WaitGroup
		var mu sync.Mutex
		var got []user.SignedIn
		for range 4 {
			tabs.Go(func() {
				in, err := e.users(t).Refresh(context.Background(), token.Reveal(), "")
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("a tab: got the error %v, want none", err)
				}
				got = append(got, in)
			})
		}
		tabs.Wait()
		for _, in := range got {
			if in.Refresh != got[0].Refresh {
				t.Error("two tabs have two successors")
			}
			if !e.live(t, in.Token) {
				t.Error("a tab's token: got over, want live")
			}
		}
		token = got[0].Refresh
	}
}

// A tab that is late by a whole refresh is led to the newest successor.
func TestATabThatIsLateIsLedToTheNewestSuccessor(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	first := e.remembered(t).Refresh
	newest := e.refresh(t, e.refresh(t, first).Refresh).Refresh
	if got := e.refresh(t, first).Refresh; got != newest {
		t.Error("the late tab has another successor than the newest")
	}
	e.refresh(t, newest)
}

// A stolen refresh token ends its family, whoever of the two used it first.
func TestAStolenRefreshTokenEndsItsFamily(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	other, in := e.remembered(t), e.remembered(t)
	e.exec(t, `DELETE FROM mail_outbox`)
	second := e.refresh(t, in.Refresh)
	e.exec(t, `ALTER TABLE refresh_token DISABLE TRIGGER refresh_token_is_used_once`)
	e.exec(t, `UPDATE refresh_token SET used_at = used_at - interval '11 seconds' WHERE used_at IS NOT NULL`)
	e.exec(t, `ALTER TABLE refresh_token ENABLE TRIGGER refresh_token_is_used_once`)
	var alarms int
	users := e.users(t)
	users.ObserveReuse = func(_ context.Context, id user.ID, family user.FamilyID) {
		alarms++
		if id != in.User.ID || family != in.Family {
			t.Errorf("the alarm is about %v and %v, want %v and %v", id, family, in.User.ID, in.Family)
		}
	}
	_, err := users.Refresh(t.Context(), in.Refresh.Reveal(), "")
	if !fault.Is(err, fault.InvalidSession) {
		t.Errorf("the replay: got the error %v, want %s", err, fault.InvalidSession)
	}
	if alarms != 1 {
		t.Errorf("alarms: got %d, want 1", alarms)
	}
	if got := scan[string](t, e, `SELECT kind FROM mail_outbox`); got != string(user.ReuseLetter) {
		t.Errorf("the letter: got %q, want %q", got, user.ReuseLetter)
	}
	if _, err := users.Refresh(t.Context(), second.Refresh.Reveal(), ""); !fault.Is(err, fault.SessionExpired) {
		t.Errorf("the successor: got the error %v, want %s", err, fault.SessionExpired)
	}
	for what, token := range map[string]user.Token{"the first": in.Token, "the second": second.Token} {
		if e.live(t, token) {
			t.Errorf("%s token of the family: got live, want over", what)
		}
	}
	if !e.live(t, other.Token) {
		t.Error("the token of another family: got over, want live")
	}
}

func TestAFamilyEndsThirtyDaysAfterItsLastUse(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	in := e.remembered(t)
	e.exec(t, `UPDATE refresh_token SET created_at = now() - interval '30 days', expires_at = now()`)
	if _, err := e.users(t).Refresh(t.Context(), in.Refresh.Reveal(), ""); !fault.Is(err, fault.SessionExpired) {
		t.Errorf("after 30 days: got the error %v, want %s", err, fault.SessionExpired)
	}
	for _, text := range []string{"", "x", in.Token.Reveal()} {
		if _, err := e.users(t).Refresh(t.Context(), text, ""); !fault.Is(err, fault.InvalidSession) {
			t.Errorf("what is no refresh token: got the error %v, want %s", err, fault.InvalidSession)
		}
	}
	e.exec(t, `UPDATE session_family SET used_at = now() - interval '31 days', expires_at = now() - interval '1 day'`)
	if n, err := e.store.PruneFamilies(t.Context(), 10); n != 2 || err != nil {
		t.Errorf("families forgotten a day after their end: got %d and %v, want 2", n, err)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM refresh_token`); n != 0 {
		t.Errorf("refresh tokens of forgotten families: got %d, want 0", n)
	}
}

// What the store has of a token gives nobody the token, nor its successor.
func TestTheStoreHasNoRefreshTokenInTheClear(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	in := e.remembered(t)
	next := e.refresh(t, in.Refresh)
	rows := scan[string](t, e, `SELECT string_agg(r::text, ' ') FROM (SELECT f::text AS r FROM session_family f
		UNION ALL SELECT t::text FROM refresh_token t UNION ALL SELECT s::text FROM user_session s) x`)
	sealed := scan[[]byte](t, e, `SELECT sealed FROM refresh_token WHERE sealed IS NOT NULL`)
	for _, token := range []user.Token{in.Refresh, next.Refresh, in.Token, next.Token} {
		if bytes.Contains([]byte(rows), []byte(token.Reveal())) {
			t.Error("the store has the text of a token")
		}
		if bytes.Contains(sealed, []byte(token.Reveal())) {
			t.Error("the seal shows the text of a token")
		}
	}
	if sum := sha256.Sum256([]byte(in.Refresh.Reveal())); user.Digest(sum) != in.Refresh.Digest() {
		t.Error("a token is stored by another digest than SHA-256")
	}
}

func TestSigningOutEndsThisFamilyOrAll(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	here, there, agent := e.remembered(t), e.remembered(t), e.remembered(t)
	users := e.users(t)
	if err := users.LogOut(t.Context(), here.Refresh.Digest(), true, false); err != nil {
		t.Errorf("here: got the error %v, want none", err)
	}
	if e.live(t, here.Token) {
		t.Error("the family that was ended: got live, want over")
	}
	if !e.live(t, there.Token) {
		t.Error("another family: got over, want live")
	}
	if err := users.LogOut(t.Context(), here.Refresh.Digest(), true, true); !fault.Is(err, fault.InvalidSession) {
		t.Errorf("everywhere, by a family that is over: got the error %v, want %s", err, fault.InvalidSession)
	}
	if err := users.LogOut(t.Context(), agent.Token.Digest(), false, true); err != nil {
		t.Errorf("everywhere: got the error %v, want none", err)
	}
	for _, in := range []user.SignedIn{there, agent} {
		if e.live(t, in.Token) {
			t.Error("a family after a sign-out everywhere: got live, want over")
		}
	}
}

func TestAUserEndsItsOwnFamiliesAlone(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	bob, _ := e.signUp(t, "bob@example.com")
	in := e.remembered(t)
	if err := e.users(t).EndFamily(t.Context(), bob.User.ID, in.Family); !fault.Is(err, fault.SessionNotFound) {
		t.Errorf("somebody else's: got the error %v, want %s", err, fault.SessionNotFound)
	}
	if !e.live(t, in.Token) {
		t.Error("after somebody else tried: got over, want live")
	}
	if err := e.users(t).EndFamily(t.Context(), in.User.ID, in.Family); err != nil {
		t.Errorf("its own: got the error %v, want none", err)
	}
	if e.live(t, in.Token) {
		t.Error("its own: got live, want over")
	}
}

// A flood of sign-ins by a program takes no page's place: of what lives, what is not
// remembered goes first.
func TestTheFamilyThatMattersLeastMakesRoom(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	up, _ := e.signUp(t, "ada@example.com")
	page := e.remembered(t)
	for range user.MaxFamilies + 3 {
		f, _ := newFamily(t)
		if _, err := e.store.OpenSession(t.Context(), up.User, user.Attempt{Network: user.Digest{1}}, f); err != nil {
			t.Fatal(err)
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM session_family`); n != user.MaxFamilies {
		t.Errorf("families: got %d, want %d", n, user.MaxFamilies)
	}
	all, err := e.users(t).ListFamilies(t.Context(), up.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(f user.Family) bool { return f.ID == page.Family }) {
		t.Error("the page's family made room for programs")
	}
	e.refresh(t, page.Refresh)
}

func TestAPasswordIsChangedByWhoKnowsItAndEndsTheOtherFamilies(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	other, in := e.remembered(t), e.remembered(t)
	users := e.users(t)
	if _, err := users.LinkProvider(t.Context(), in.User.ID, ids.ProviderID{1}); err != nil {
		t.Fatal(err)
	}
	change := func(current, next string) error {
		return users.ChangePassword(t.Context(), in.User.ID, in.Family, current, next, "home")
	}
	if err := change("wrong horse", "battery staple"); !fault.Is(err, fault.InvalidCredentials) {
		t.Errorf("a wrong password: got the error %v, want %s", err, fault.InvalidCredentials)
	}
	if err := change(password, "short"); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a short one: got the error %v, want %s", err, fault.InvalidValue)
	}
	if err := change(password, "battery staple"); err != nil {
		t.Fatalf("the right one: got the error %v, want none", err)
	}
	if !e.live(t, in.Token) {
		t.Error("the family of the change: got over, want live")
	}
	if e.live(t, other.Token) {
		t.Error("another family: got live, want over")
	}
	if _, err := users.LogIn(t.Context(), "ada@example.com", password, user.From{Network: "home"}); !fault.Is(err,
		fault.InvalidCredentials) {
		t.Errorf("the old password: got the error %v, want %s", err, fault.InvalidCredentials)
	}
	if _, err := users.LogIn(t.Context(), "ada@example.com", "battery staple", user.From{Network: "home"}); err != nil {
		t.Errorf("the new password: got the error %v, want none", err)
	}
}

// Whoever has a token may not guess the password behind it without a bound.
func TestGuessesByAPasswordChangeAreCountedAsThoseToSignIn(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	in, _ := e.signUp(t, "ada@example.com")
	for range user.NetworkPace.AtOnce {
		err := e.users(t).ChangePassword(t.Context(), in.User.ID, in.Family, "wrong horse", "battery staple", "net")
		if !fault.Is(err, fault.InvalidCredentials) {
			t.Fatalf("a guess: got the error %v, want %s", err, fault.InvalidCredentials)
		}
	}
	err := e.users(t).ChangePassword(t.Context(), in.User.ID, in.Family, password, "battery staple", "net")
	if !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("one more: got the error %v, want %s", err, fault.RateLimitExceeded)
	}
	if _, err := e.users(t).LogIn(t.Context(), "ada@example.com", password, user.From{Network: "net"}); !fault.Is(err,
		fault.RateLimitExceeded) {
		t.Errorf("signing in from there: got the error %v, want %s", err, fault.RateLimitExceeded)
	}
}

func TestTokensPrintAsRedacted(t *testing.T) {
	t.Parallel()
	token, err := user.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	in := user.SignedIn{Token: token, Refresh: token}
	if text := fmt.Sprintf("%v %+v %#v", in, in, in); bytes.Contains([]byte(text), []byte(token.Reveal())) {
		t.Errorf("printed: got %s, want no token", text)
	}
}
