package store_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/user"
)

const password = "correct horse"

func (e *env) users(t testing.TB) *user.Users {
	t.Helper()
	if _, err := e.store.LedgerSecret(t.Context(), [32]byte{1}); err != nil { // as the service does when it starts
		t.Fatal(err)
	}
	return &user.Users{
		Store: e.store, Families: e.store, Letters: e.store, Passwords: user.NewPasswords(), Accounts: e.accounts,
		Identities: e.store, Wallets: user.NewWallets(apikey.Only(apikey.Pepper{1}), user.Chains{1, 8453}),
		Keys: e.keys, Clock: clock.System, Random: rand.Reader, Lookups: limit.NewSemaphore(1), SendsLetters: true,
	}
}

func (e *env) signUp(t testing.TB, email string) (user.SignedIn, string) {
	t.Helper()
	in, keyText, err := e.users(t).SignUp(t.Context(), email, password, "Ada", user.From{Network: "home"})
	if err != nil {
		t.Fatal(err)
	}
	return in, keyText
}

func TestSigningUpOpensAnAccountWithAKeyThatWorks(t *testing.T) {
	e := setup(t, unlimited)
	in, keyText := e.signUp(t, " Ada@Example.com ")
	switch {
	case in.User.Email != "ada@example.com":
		t.Errorf(`in.User.Email: got %q, want "ada@example.com"`, in.User.Email)
	case in.User.DisplayName != "Ada":
		t.Errorf(`in.User.DisplayName: got %q, want "Ada"`, in.User.DisplayName)
	case !in.User.Provider.IsZero():
		t.Error("in.User.Provider.IsZero(): got false, want true")
	case in.User.CreatedAt.IsZero():
		t.Error("in.User.CreatedAt.IsZero(): got true, want false")
	}
	if life := time.Until(in.ExpiresAt); life <= 14*time.Minute || life > user.SessionLife {
		t.Errorf("the token is good for: got %v, want more than %v and at most %v", life, 14*time.Minute, user.SessionLife)
	}
	a, err := e.accounts.Get(t.Context(), in.User.Account)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case a.Name != "Ada":
		t.Errorf(`the account: a.Name: got %q, want "Ada"`, a.Name)
	case a.Balance != 0:
		t.Errorf("the account: a.Balance: got %v, want 0", a.Balance)
	}
	k, err := e.keys.Authenticate(t.Context(), apikey.Sum(keyText))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if k.Account != in.User.Account {
		t.Errorf("the key: k.Account: got %v, want %v", k.Account, in.User.Account)
	}
	whose, _, err := e.users(t).Whose(t.Context(), in.Token.Digest())
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if whose != in.User {
		t.Errorf("the token: got %+v, want %+v", whose, in.User)
	}
	e.sound(t)
}

func TestOfRacingSignUpsWithOneEmailOneStandsAndTheOthersLeaveNothing(t *testing.T) {
	e := setup(t, unlimited)
	var racers sync.WaitGroup
	var mu sync.Mutex
	opened := 0
	for i := range 4 {
		racers.Go(func() {
			// Places of its own, as another replica has them.
			_, _, err := e.users(t).SignUp(t.Context(), []string{"ada@example.com", "ADA@example.com"}[i%2], password, "",
				user.From{Network: "net"})
			mu.Lock()
			defer mu.Unlock()
			if f, ok := fault.As(err); err == nil {
				opened++
			} else if !ok {
				t.Errorf("got the error %v, want a fault", err)
			} else if f.Kind != fault.Conflict {
				t.Errorf("f.Kind: got %d, want %d", f.Kind, fault.Conflict)
			} else if f.Reason != fault.AlreadyExists {
				t.Errorf("f.Reason: got %q, want %q", f.Reason, fault.AlreadyExists)
			} else if f.Param != "email" {
				t.Errorf(`f.Param: got %q, want "email"`, f.Param)
			}
		})
	}
	racers.Wait()
	if opened != 1 {
		t.Errorf("signed up: got %d, want 1", opened)
	}
	for _, table := range []string{"app_user", "account", "wallet", "consumer_key", "user_session", "known_network"} {
		if n := scan[int](t, e, `SELECT count(*) FROM `+table); n != 1 {
			t.Errorf("%s: got %d, want 1", table, n)
		}
	}
	if name := scan[string](t, e, `SELECT name FROM account`); name != "ada" {
		t.Errorf(`without a name to show the account is called: got %q, want "ada"`, name)
	}
}

func TestWhatCannotSignUpIsRefusedByField(t *testing.T) {
	e := setup(t, unlimited)
	for _, c := range []struct{ field, email, password, name string }{
		{"email", "ada", password, ""}, {"password", "a@b", "seven77", ""}, {"password", "a@b", "\xff1234567", ""},
		{"password", "a@b", fmt.Sprintf("%0257d", 1), ""}, {"display_name", "a@b", password, "a\nb"},
		{"display_name", "a@b", password, fmt.Sprintf("%065d", 1)},
	} {
		_, _, err := e.users(t).SignUp(t.Context(), c.email, c.password, c.name, user.From{Network: "net"})
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("%+v: got the error %v, want a fault", c, err)
		case f.Kind != fault.Invalid:
			t.Errorf("%+v: f.Kind: got %d, want %d", c, f.Kind, fault.Invalid)
		case f.Reason != fault.InvalidValue:
			t.Errorf("%+v: f.Reason: got %q, want %q", c, f.Reason, fault.InvalidValue)
		case f.Param != c.field:
			t.Errorf("%+v: f.Param: got %q, want %q", c, f.Param, c.field)
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM account`); n != 0 {
		t.Errorf("accounts opened: got %d, want 0", n)
	}
	if _, _, err := e.users(t).SignUp(t.Context(), "a@b", fmt.Sprintf("%0256d", 1), fmt.Sprintf("%064d", 1),
		user.From{Network: "net"}); err != nil {
		t.Errorf("at every bound: %v", err)
	}
}

func refusal(t *testing.T, err error) *fault.Fault {
	t.Helper()
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("refused with %v", err)
	}
	return f
}

func TestAnUnknownEmailIsRefusedLikeAWrongPassword(t *testing.T) {
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	users := e.users(t)
	for i := range user.NetworkPace.AtOnce + 1 {
		var texts []string
		for _, email := range []string{"ada@example.com", "eve@example.com"} {
			_, err := users.LogIn(t.Context(), email, "wrong horse", user.From{Network: "net"})
			f := refusal(t, err)
			want := fault.InvalidCredentials
			if i == user.NetworkPace.AtOnce {
				want = fault.RateLimitExceeded
				if f.Kind != fault.Exhausted {
					t.Errorf("%s may come again: f.Kind: got %d, want %d", email, f.Kind, fault.Exhausted)
				} else if f.RetryAfter <= 0 || f.RetryAfter > user.NetworkPace.Interval {
					t.Errorf("%s may come again: f.RetryAfter: got %v, want more than 0 and at most %v", email, f.RetryAfter,
						user.NetworkPace.Interval)
				}
			} else if f.Kind != fault.Unauthenticated {
				t.Errorf("%s: f.Kind: got %d, want %d", email, f.Kind, fault.Unauthenticated)
			}
			if f.Reason != want {
				t.Errorf("attempt %d of %s: got %q, want %q", i+1, email, f.Reason, want)
			}
			texts = append(texts, err.Error())
		}
		if texts[0] != texts[1] {
			t.Errorf("what the two e-mails are told: got %q, want %q", texts[0], texts[1])
		}
	}
	if _, err := users.LogIn(t.Context(), "ada@example.com", password, user.From{Network: "net"}); refusal(t,
		err).Reason != fault.RateLimitExceeded {
		t.Errorf("the right password after ten failures: %v", err)
	}
	e.exec(t, `UPDATE sign_in_count SET full_at = full_at - interval '40 seconds'`)
	if _, err := users.LogIn(t.Context(), "ada@example.com", password, user.From{Network: "net"}); err != nil {
		t.Errorf("40 seconds later: %v", err)
	}
}

func TestWhatCannotBeRightCostsNoComparisonAndSaysTheSame(t *testing.T) {
	e := setup(t, unlimited)
	_, wrong := e.users(t).LogIn(t.Context(), "eve@example.com", "wrong horse", user.From{Network: "net"})
	for _, c := range [][2]string{{"no address", password}, {"ada@example.com", "short"}, {"", ""},
		{"ada@example.com", "\xff1234567"}} {
		if _, err := e.users(t).LogIn(t.Context(), c[0], c[1], user.From{Network: "net"}); err == nil {
			t.Errorf("%q: got no error, want one", c)
		} else if err.Error() != wrong.Error() {
			t.Errorf("%q: got the error %q, want %q", c, err, wrong.Error())
		}
	}
	if n := scan[int](t, e, `SELECT count(DISTINCT email_sha256) FROM sign_in_count`); n != 1 {
		t.Errorf("e-mails that have attempts: got %d, want 1", n)
	}
}

func TestTheThirtyThirdSessionEndsTheOldest(t *testing.T) {
	e := setup(t, unlimited)
	first, _ := e.signUp(t, "ada@example.com")
	open := func() user.Token {
		t.Helper()
		f, token := newFamily(t)
		if _, err := e.store.OpenSession(t.Context(), first.User, user.Attempt{Network: user.Digest{1}}, f); err != nil {
			t.Error(err)
		}
		return token
	}
	live := func(token user.Token) bool {
		t.Helper()
		_, _, err := e.users(t).Whose(t.Context(), token.Digest())
		if err != nil && !fault.Is(err, fault.InvalidSession) {
			t.Fatal(err)
		}
		return err == nil
	}
	second := open()
	for range user.MaxSessions - 2 {
		open()
	}
	if !live(first.Token) {
		t.Error("the first of 32 is over")
	}
	open()
	if live(first.Token) {
		t.Error("after the 33rd session: live(first.Token): got true, want false")
	} else if !live(second) {
		t.Error("after the 33rd session: live(second): got false, want true")
	}
	var racers sync.WaitGroup
	for range 20 {
		racers.Go(func() { open() })
	}
	racers.Wait()
	if n := scan[int](t, e, `SELECT count(*) FROM user_session`); n != user.MaxSessions {
		t.Errorf("sessions kept: got %d, want %d", n, user.MaxSessions)
	}
}

func TestASessionIsOverAfterItsTimeAndForgotten(t *testing.T) {
	e := setup(t, unlimited)
	in, _ := e.signUp(t, "ada@example.com")
	e.exec(t, `UPDATE user_session SET created_at = now() - interval '15 minutes', expires_at = now()`)
	_, _, err := e.users(t).Whose(t.Context(), in.Token.Digest())
	if f := refusal(t, err); f.Kind != fault.Unauthenticated {
		t.Errorf("after 15 minutes: f.Kind: got %d, want %d", f.Kind, fault.Unauthenticated)
	} else if f.Reason != fault.SessionExpired {
		t.Errorf("after 15 minutes: f.Reason: got %q, want %q", f.Reason, fault.SessionExpired)
	}
	if _, _, err = e.users(t).Whose(t.Context(), user.Digest{1}); !fault.Is(err, fault.InvalidSession) {
		t.Errorf("nobody's session: got the error %v, want the reason %v", err, fault.InvalidSession)
	}
	if n, err := e.store.PruneSessions(t.Context(), 10); n != 0 {
		t.Errorf("sessions that are forgotten at once: got %d, want 0", n)
	} else if err != nil {
		t.Errorf("%d sessions are forgotten at once: got the error %v, want none", n, err)
	}
	e.exec(t, `UPDATE user_session SET created_at = now() - interval '24 hours 15 minutes',
		expires_at = now() - interval '24 hours'`)
	for _, want := range []int{1, 0} {
		sessions, err := e.store.PruneSessions(t.Context(), 10)
		if err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if sessions != want {
			t.Errorf("sessions: got %d, want %d", sessions, want)
		}
	}
	if _, _, err = e.users(t).Whose(t.Context(), in.Token.Digest()); !fault.Is(err, fault.InvalidSession) {
		t.Errorf("a session that is forgotten: got the error %v, want the reason %v", err, fault.InvalidSession)
	}
}

func TestAUserOwnsOneProviderAndAProviderHasOneUser(t *testing.T) {
	e := setup(t, unlimited)
	users := e.users(t)
	ada, _ := e.signUp(t, "ada@example.com")
	bob, _ := e.signUp(t, "bob@example.com")
	var providers [2]ids.ProviderID
	for i := range providers {
		var err error
		if providers[i], err = ids.NewProvider(time.Now(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		linked, err := users.LinkProvider(t.Context(), ada.User.ID, providers[0])
		switch {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case linked.Provider != providers[0]:
			t.Errorf("linked.Provider: got %v, want %v", linked.Provider, providers[0])
		case linked.Email != ada.User.Email:
			t.Errorf("linked.Email: got %q, want %q", linked.Email, ada.User.Email)
		}
	}
	for what, link := range map[string]struct {
		id       user.ID
		provider ids.ProviderID
	}{"another provider": {ada.User.ID, providers[1]}, "another's provider": {bob.User.ID, providers[0]}} {
		_, err := users.LinkProvider(t.Context(), link.id, link.provider)
		if f := refusal(t, err); f.Kind != fault.Precondition {
			t.Errorf("%s: f.Kind: got %d, want %d", what, f.Kind, fault.Precondition)
		} else if f.Reason != fault.TransitionNotAllowed {
			t.Errorf("%s: f.Reason: got %q, want %q", what, f.Reason, fault.TransitionNotAllowed)
		}
	}
	if _, err := users.LinkProvider(t.Context(), user.ID{1}, providers[1]); !fault.Is(err, fault.UserNotFound) {
		t.Errorf("nobody's: got the error %v, want the reason %v", err, fault.UserNotFound)
	}
	in, err := users.LogIn(t.Context(), "ada@example.com", password, user.From{Network: "net"})
	if err != nil {
		t.Errorf("signed: got the error %v, want none", err)
	} else if in.User.Provider != providers[0] {
		t.Errorf("signed: in.User.Provider: got %v, want %v", in.User.Provider, providers[0])
	}
	e.sound(t)
}

func TestUsersWithoutTheirStoreAreUnavailable(t *testing.T) {
	e := setup(t, unlimited)
	users := e.users(t)
	e.pool.Close()
	_, _, signUp := users.SignUp(t.Context(), "a@b", password, "", user.From{Network: "net"})
	_, logIn := users.LogIn(t.Context(), "a@b", password, user.From{Network: "net"})
	_, _, whose := users.Whose(t.Context(), user.Digest{})
	_, link := users.LinkProvider(t.Context(), user.ID{}, ids.ProviderID{1})
	for name, err := range map[string]error{"sign up": signUp, "log in": logIn, "whose": whose, "link": link} {
		switch {
		case err == nil:
			t.Errorf("%s: got no error, want one", name)
		case errors.Is(err, user.ErrNotFound):
			t.Errorf("%s: got the error %v, want any but %v", name, err, user.ErrNotFound)
		case fault.Is(err, fault.InvalidCredentials):
			t.Errorf("%s: got the error %v, want any but the reason %v", name, err, fault.InvalidCredentials)
		case fault.Is(err, fault.InvalidSession):
			t.Errorf("%s: got the error %v, want any but the reason %v", name, err, fault.InvalidSession)
		}
	}
}

func TestTheExportHasNoHashOfAPasswordOrToken(t *testing.T) {
	e := setup(t, unlimited)
	in, _ := e.signUp(t, "ada@example.com")
	var out strings.Builder
	if err := e.store.Export(t.Context(), &out, func(string, int64) {}); err != nil {
		t.Fatal(err)
	}
	digest := in.Token.Digest()
	switch text := out.String(); {
	case !strings.Contains(text, "ada@example.com"):
		t.Errorf(`exported: text: got %q, want "ada@example.com" in it`, text)
	case !strings.Contains(text, `"user_session"`):
		t.Errorf("exported: text: got %q, want %q in it", text, `"user_session"`)
	case strings.Contains(text, "argon2id"):
		t.Errorf(`exported: text: got %q, want it without "argon2id"`, text)
	case strings.Contains(text, hex.EncodeToString(digest[:])):
		t.Errorf("exported: text: got %q, want it without %q", text, hex.EncodeToString(digest[:]))
	}
}

// BenchmarkARefusedSignIn signs in with a wrong password, under an e-mail that has a
// user and under an e-mail that has none. Both must take the same time.
func BenchmarkARefusedSignIn(b *testing.B) {
	e := setup(b, unlimited)
	e.signUp(b, "ada@example.com")
	users := e.users(b)
	for name, email := range map[string]string{"user": "ada@example.com", "nobody": "eve@example.com"} {
		b.Run(name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				if n%user.NetworkPace.AtOnce == 0 {
					b.StopTimer()
					e.exec(b, `DELETE FROM sign_in_count`)
					b.StartTimer()
				}
				if _, err := users.LogIn(b.Context(), email, "wrong horse", user.From{Network: "net"}); !fault.Is(err,
					fault.InvalidCredentials) {
					b.Fatalf("got the error %v, want the reason %v", err, fault.InvalidCredentials)
				}
			}
		})
	}
}

// A sign-in does not become fresh again by a refresh of its session.
func TestASignInIsFreshForAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	in := e.remembered(t)
	left := func(token user.Token) time.Duration {
		t.Helper()
		_, sign, err := e.users(t).Whose(t.Context(), token.Digest())
		if err != nil {
			t.Fatal(err)
		}
		if sign.Family != in.Family {
			t.Errorf("the family: got %v, want %v", sign.Family, in.Family)
		}
		return time.Until(sign.FreshUntil)
	}
	if got := left(in.Token); got <= user.FreshFor-5*time.Minute || got > user.FreshFor {
		t.Errorf("just signed in: fresh for another: got %v, want %v", got, user.FreshFor)
	}
	e.exec(t, `UPDATE session_family SET created_at = created_at - interval '15 minutes'`)
	if got := left(e.refresh(t, in.Refresh).Token); got > 0 {
		t.Errorf("refreshed after a quarter of an hour: fresh for another: got %v, want none", got)
	}
	e.exec(t, `UPDATE user_session SET family_id = NULL`) // as the release before sessions had families
	_, sign, err := e.users(t).Whose(t.Context(), in.Token.Digest())
	if err != nil {
		t.Fatal(err)
	}
	if !sign.FreshUntil.Before(time.Now()) {
		t.Errorf("a session without a family: fresh until: got %v, want before now", sign.FreshUntil)
	}
}
