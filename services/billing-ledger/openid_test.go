package billingledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/oidctest"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

// awayIssuer is a line of the settings with an issuer that nobody may call: it is on loopback.
const awayIssuer = "away https://127.0.0.1:1 client hush https://api.example.com/api/v1/user/oidc/away/callback"

func TestWithoutIssuersNobodySignsInAtOne(t *testing.T) {
	f := start(t)
	if _, err := f.users.StartOpenID(t.Context(), &billingv1.StartOpenIDRequest{
		Issuer: "google"}); !fault.Is(err, fault.IssuerNotFound) {
		t.Errorf("to start: got the error %v, want %s", err, fault.IssuerNotFound)
	}
	if _, err := f.users.LogInOpenID(t.Context(), &billingv1.LogInOpenIDRequest{Issuer: "google", State: "x", Code: "x",
		Flow: []byte("x"), Open: true}); !fault.Is(err, fault.IssuerNotFound) {
		t.Errorf("to sign in: got the error %v, want %s", err, fault.IssuerNotFound)
	}
}

func TestTheServiceStartsWhileAnIssuerIsAway(t *testing.T) {
	f := start(t, func(c *billingledger.Config) { c.OpenID = config.NewSecret(awayIssuer) })
	if _, err := f.users.StartOpenID(t.Context(), &billingv1.StartOpenIDRequest{
		Issuer: "away"}); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("to start there: got the error %v, want %s", err, fault.ServiceUnavailable)
	}
	if in, _ := f.comesIn(t, newPurse(9)); in.GetToken() == "" {
		t.Error("a wallet meanwhile: got no token, want one")
	}
}

func TestSettingsWithABadIssuerAreRefusedWithoutItsSecret(t *testing.T) {
	cfg := billingledger.DefaultConfig()
	cfg.OpenID = config.NewSecret(strings.Replace(awayIssuer, "https://127", "http://127", 1))
	err := cfg.Validate()
	if err == nil {
		t.Fatal("got no error, want one")
	}
	if !strings.Contains(err.Error(), "OpenID: line 1: its URL is not https") {
		t.Errorf("got the error %v, want one that names the line", err)
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("got the error %v, want it without the secret", err)
	}
}

func TestTheSignInMethodsAreThoseOfTheSettings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*billingledger.Config)
		want   string
	}{
		"none": {func(*billingledger.Config) {}, "[]"},
		"two providers": {func(c *billingledger.Config) {
			c.OpenID = config.NewSecret(awayIssuer + "\n" + strings.ReplaceAll(awayIssuer, "away", "acme-id"))
		}, "[away Away acme-id Acme Id]"},
	} {
		f := start(t, c.change)
		got, err := f.users.GetSignInMethods(t.Context(), &billingv1.GetSignInMethodsRequest{})
		if err != nil {
			t.Fatalf("%s: got the error %v, want none", name, err)
		}
		said := []string{}
		for _, one := range got.GetOpenid() {
			said = append(said, one.GetName(), one.GetLabel())
		}
		if text := fmt.Sprint(said); text != c.want {
			t.Errorf("%s: got %s, want %s", name, text, c.want)
		}
		if !got.GetPlayground() {
			t.Errorf("%s: got.GetPlayground(): got false, want true by default", name)
		}
		if got.GetLetters() {
			t.Errorf("%s: letters: got true, want false where none are sent", name)
		}
	}
}

func TestOpenIDProvidersOnLoopbackAreForAProcessOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{"127.0.0.1:1": true, "": true, "10.0.0.1:1": false, ":1": false} {
		cfg := billingledger.DefaultConfig()
		cfg.OpenIDDevelopmentCA = "ca.pem"
		if err := cfg.CheckListeners(address); (err == nil) != ok {
			t.Errorf("%q: got %v, want it taken %t", address, err, ok)
		}
	}
}

// With the authorities of a developer's machine whoever answers for a real provider's host would sign in as anybody.
func TestWithDevelopmentsAuthoritiesEveryProviderIsOnLoopback(t *testing.T) {
	t.Parallel()
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authorities, oidctest.New(t).Authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	for issuer, ok := range map[string]bool{
		"https://127.0.0.1:9443": true, "https://localhost": true, "https://[::1]": true,
		"https://accounts.example.com": false, "https://127.0.0.1.example.com": false,
	} {
		cfg := billingledger.DefaultConfig()
		cfg.OpenIDDevelopmentCA = authorities
		cfg.OpenID = config.NewSecret("local " + issuer +
			" client hush http://localhost/api/v1/user/oidc/local/callback")
		if err := cfg.Validate(); (err == nil) != ok {
			t.Errorf("%s: got %v, want it taken %t", issuer, err, ok)
		}
	}
}

func TestAServiceWithoutTheAuthoritiesOfItsProvidersDoesNotStart(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, file := range map[string]string{"no file": empty + "x", "no certificate": empty} {
		cfg := billingledger.DefaultConfig()
		cfg.OpenIDDevelopmentCA = file
		if err := cfg.Validate(); err == nil {
			t.Errorf("%s: got no error, want one", what)
		}
	}
}

func TestALinkIsBegunForAUserAndItsSession(t *testing.T) {
	f := start(t)
	in, _ := f.comesIn(t, newPurse(9))
	id, session := in.GetUser().GetUserId(), f.sessionOf(t, in.GetToken())
	for what, c := range map[string]struct {
		issuer, user, session string
		want                  fault.Reason
	}{
		"no user":          {"local", "", session, fault.UserNotFound},
		"a broken user":    {"local", "x", session, fault.UserNotFound},
		"a broken session": {"local", id, "x", fault.InvalidValue},
		"another issuer":   {"local", id, session, fault.IssuerNotFound},
	} {
		_, err := f.users.StartOpenIDLink(t.Context(), &billingv1.StartOpenIDLinkRequest{Issuer: c.issuer, UserId: c.user,
			SessionId: c.session})
		if !fault.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want %s", what, err, c.want)
		}
	}
}
