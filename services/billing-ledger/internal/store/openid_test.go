package store_test

import (
	"testing"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/oidctest"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/oidc"
	"svc.internal/services/billing-ledger/internal/user"
)

// openID are users of an OpenID provider.
func (e *env) openID(t testing.TB, p *oidctest.Provider) *user.Users {
	t.Helper()
	users := e.users(t)
	client, err := oidc.New([]oidc.Issuer{{Name: "local", URL: p.URL, ClientID: "client",
		Secret: config.NewSecret("hush"), RedirectURL: "https://api.example.com" + oidc.CallbackPath("local")}},
		[][]byte{[]byte("secret")}, clock.System, p.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	users.OpenID = client
	return users
}

// begins begins a sign-in to which the provider's user agrees.
func begins(t testing.TB, users *user.Users, p *oidctest.Provider) (url string, back oidc.Returned) {
	t.Helper()
	started, err := users.StartOpenID(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	state, code := p.Agrees(t, started.URL)
	return started.URL, oidc.Returned{Name: "local", State: state, Code: code, Flow: started.Flow}
}

func TestWhomAnOpenIDProviderNamesIsOneUser(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users := e.openID(t, p)
	ada, _ := e.signUp(t, "ada@example.com") // the provider knows this e-mail, and nobody believes it
	_, back := begins(t, users, p)
	_, err := users.FinishOpenID(t.Context(), back, false, atHome)
	wantReason(t, "a stranger", err, fault.UserNotFound)
	_, back = begins(t, users, p)
	in, err := users.FinishOpenID(t.Context(), back, true, user.From{Remember: true})
	if err != nil {
		t.Fatal(err)
	}
	if in.User.ID == ada.User.ID {
		t.Error("the user: got the user of that e-mail, want another")
	}
	if !in.Opened {
		t.Error("opened: got false, want true")
	}
	if in.User.Email != "" {
		t.Errorf("the e-mail: got %q, want none", in.User.Email)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM consumer_key WHERE account_id = $1`, [16]byte(in.User.Account)); n != 0 {
		t.Errorf("keys of the account: got %d, want 0", n)
	}
	e.own(t, in.User.Account, key.Settings{Name: "the first"}) // which its user makes in a session
	_, back = begins(t, users, p)
	again, err := users.FinishOpenID(t.Context(), back, true, atHome)
	if err != nil {
		t.Fatal(err)
	}
	if again.User.ID != in.User.ID {
		t.Errorf("later: got the user %v, want %v", again.User.ID, in.User.ID)
	}
	if again.Opened {
		t.Error("later: got a user who was opened, want none")
	}
	e.sound(t)
}

func TestASignInAtAnOpenIDProviderCountsOnce(t *testing.T) {
	t.Parallel()
	e, p := setup(t, unlimited), oidctest.New(t)
	users := e.openID(t, p)
	url, back := begins(t, users, p)
	if _, err := users.FinishOpenID(t.Context(), back, true, atHome); err != nil {
		t.Fatal(err)
	}
	_, back.Code = p.Agrees(t, url) // the provider gives another code for the same sign-in
	_, err := users.FinishOpenID(t.Context(), back, true, atHome)
	wantReason(t, "again", err, fault.InvalidCredentials)
	_, err = users.StartOpenID(t.Context(), "nobody")
	wantReason(t, "an unknown issuer", err, fault.IssuerNotFound)
	p.Close()
	_, err = e.openID(t, p).StartOpenID(t.Context(), "local")
	wantReason(t, "a provider that is away", err, fault.ServiceUnavailable)
}
