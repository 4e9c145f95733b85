package edgegateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

const (
	consoleOrigin = "https://console.example.com"
	shopOrigin    = "https://shop.example.com"
	walletAddress = "0x52908400098527886E0F7030069857D2E4169EE7"
)

// The messages of the wallets that the people know, and of one that is new.
const (
	knownMessage = "console.example.com wants you to sign in: known"
	newMessage   = "console.example.com wants you to sign in: new"
)

// CreateWalletChallenge answers with what was asked.
func (p *people) CreateWalletChallenge(
	_ context.Context, req *billingv1.CreateWalletChallengeRequest,
) (*billingv1.CreateWalletChallengeResponse, error) {
	return &billingv1.CreateWalletChallengeResponse{
		Message: req.GetOrigin() + " " + req.GetAddress() + " for " + req.GetUserId(), ExpiresAt: timestamppb.Now(),
	}, nil
}

func (p *people) LogInWallet(
	_ context.Context, req *billingv1.LogInWalletRequest,
) (*billingv1.LogInWalletResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.walletLogIns = append(p.walletLogIns, req)
	resp := &billingv1.LogInWalletResponse{User: p.ann(), Token: sessionToken, ExpiresAt: timestamppb.Now()}
	if req.GetRemember() {
		resp.RefreshToken, resp.RefreshExpiresAt = refreshToken, timestamppb.New(time.Now().Add(time.Hour))
	}
	switch {
	case !bytes.Equal(req.GetSignature(), walletSignature()):
		return nil, fault.New(fault.Unauthenticated, fault.InvalidCredentials, "a secret reason").On("signature")
	case req.GetMessage() == newMessage && !req.GetOpen():
		return nil, fault.New(fault.NotFound, fault.UserNotFound, "there is no such user")
	case req.GetMessage() == newMessage:
		resp.ApiKey = "sk-svc-first"
	}
	return resp, nil
}

func (p *people) LinkWallet(
	_ context.Context, req *billingv1.LinkWalletRequest,
) (*billingv1.LinkWalletResponse, error) {
	switch {
	case req.GetMessage() == newMessage:
		return nil, fault.New(fault.Conflict, fault.AlreadyExists, "taken")
	case !bytes.Equal(req.GetSignature(), walletSignature()):
		return nil, fault.New(fault.Unauthenticated, fault.InvalidCredentials, "a secret reason")
	}
	return &billingv1.LinkWalletResponse{Identity: &billingv1.UserIdentity{IdentityId: "identity-1",
		Issuer: "wallet", Subject: req.GetUserId() + " in " + req.GetSessionId(), CreatedAt: timestamppb.Now(),
		UsedAt: timestamppb.Now()}}, nil
}

func (p *people) ListIdentities(
	context.Context, *billingv1.ListIdentitiesRequest,
) (*billingv1.ListIdentitiesResponse, error) {
	return &billingv1.ListIdentitiesResponse{Identities: []*billingv1.UserIdentity{{IdentityId: "identity-1"}}}, nil
}

func (p *people) DeleteIdentity(
	_ context.Context, req *billingv1.DeleteIdentityRequest,
) (*billingv1.DeleteIdentityResponse, error) {
	if req.GetIdentityId() != "identity-1" {
		return nil, fault.New(fault.NotFound, fault.IdentityNotFound, "there is no such identity")
	}
	return &billingv1.DeleteIdentityResponse{}, nil
}

// walletSignature is the signature that the people take: that of the description's examples.
func walletSignature() []byte { return append(bytes.Repeat([]byte{0x11}, 64), 0x1b) }

func walletLogIn(message string) string {
	return `{"message":"` + message + `","signature":"0x` + hex.EncodeToString(walletSignature()) + `"}`
}

func withOrigins(c *Config) { c.Origins = consoleOrigin + "," + shopOrigin }

const (
	walletChallengePath = "/api/v1/user/wallet/challenge"
	walletLogInPath     = "/api/v1/user/wallet/login"
	linkPath            = "/api/v1/user/me/identities/wallet"
	challengeBody       = `{"address":"` + walletAddress + `"}`
)

// A page of somebody else has no wallet sign for its own domain here, and says nothing by the host
// that it calls.
func TestAWalletSignsForThePagesOfTheInstallationAlone(t *testing.T) {
	f := start(t, withOrigins)
	for want, header := range map[string][]string{
		consoleOrigin: {"X-Forwarded-Host", "evil.example.com", "Referer", "https://evil.example.com/"},
		shopOrigin:    {"Origin", shopOrigin},
	} {
		var asked struct{ Message string }
		wantJSON(t, f.do(http.MethodPost, walletChallengePath, challengeBody, header...), http.StatusOK, &asked)
		if got := want + " " + walletAddress + " for "; asked.Message != got {
			t.Errorf("asked: got %q, want %q", asked.Message, got)
		}
	}
	for what, header := range map[string][]string{
		"another page":      {"Origin", "https://evil.example.com"},
		"no page":           {"Origin", "null"},
		"an origin's begin": {"Origin", consoleOrigin + ".evil.example.com"},
		"a plain page":      {"Origin", "http://console.example.com"},
		"two pages":         {"Origin", consoleOrigin, "Origin", "https://evil.example.com"},
	} {
		t.Log(what)
		wantError(t, f.do(http.MethodPost, walletChallengePath, challengeBody, header...), http.StatusForbidden,
			"origin_not_allowed")
	}
}

func TestWithoutAnOriginNoWalletSignsIn(t *testing.T) {
	f := start(t)
	wantError(t, f.do(http.MethodPost, walletChallengePath, challengeBody), http.StatusServiceUnavailable,
		"service_unavailable")
	wantError(t, f.do(http.MethodPost, walletLogInPath, walletLogIn(knownMessage)), http.StatusServiceUnavailable,
		"service_unavailable")
	if n := len(f.people.walletLogIns); n != 0 {
		t.Errorf("sign-ins that billing-ledger was asked for: got %d, want 0", n)
	}
}

func TestAWalletSignsInAndOpensAUserAtFirst(t *testing.T) {
	f := start(t, withOrigins)
	var in struct {
		Token  string
		APIKey string `json:"api_key"`
	}
	resp := f.do(http.MethodPost, walletLogInPath, walletLogIn(knownMessage), fromPage...)
	if n := len(resp.Cookies()); n != 2 {
		t.Errorf("cookies: got %d, want 2", n)
	}
	wantJSON(t, resp, http.StatusOK, &in)
	if in.Token != sessionToken {
		t.Errorf("the token: got %q, want %q", in.Token, sessionToken)
	}
	if in.APIKey != "" {
		t.Errorf("the key: got %q, want none", in.APIKey)
	}
	resp = f.do(http.MethodPost, walletLogInPath, walletLogIn(newMessage))
	if n := len(resp.Cookies()); n != 0 {
		t.Errorf("cookies of a program: got %d, want 0", n)
	}
	wantJSON(t, resp, http.StatusCreated, &in)
	if in.APIKey != "sk-svc-first" {
		t.Errorf(`the key: got %q, want "sk-svc-first"`, in.APIKey)
	}
	f.people.mu.Lock()
	defer f.people.mu.Unlock()
	for i, open := range []bool{false, false, true} {
		if got := f.people.walletLogIns[i].GetOpen(); got != open {
			t.Errorf("call %d: open: got %t, want %t", i, got, open)
		}
		if got := strings.Join(f.people.walletLogIns[i].GetOrigins(), ","); got != consoleOrigin+","+shopOrigin {
			t.Errorf("call %d: origins: got %s, want those of the installation", i, got)
		}
	}
}

func TestASignatureThatDoesNotCountSaysNothingElse(t *testing.T) {
	f := start(t, withOrigins)
	body := strings.Replace(walletLogIn(knownMessage), "0x11", "0x12", 1)
	resp := f.do(http.MethodPost, walletLogInPath, body)
	if text := read(t, resp); strings.Contains(text, "secret reason") {
		t.Errorf("the answer: got %s, want it without the reason", text)
	}
	wantError(t, f.do(http.MethodPost, walletLogInPath, body), http.StatusUnauthorized, "invalid_credentials")
	for what, body := range map[string]string{
		"no message": `{"signature":"0x1b"}`, "no signature": `{"message":"x"}`,
		"no hexadecimal": `{"message":"x","signature":"1b"}`,
		"a long message": `{"message":"` + strings.Repeat("x", 4097) + `","signature":"0x1b"}`,
	} {
		resp := f.do(http.MethodPost, walletLogInPath, body)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", what, resp.StatusCode)
		}
		read(t, resp)
	}
}

func TestSignaturesAndSignUpsByWalletsAreCounted(t *testing.T) {
	f := start(t, withOrigins, func(c *Config) { c.SignUpsPerHour = 4 })
	for i := range 4 { // as many as sign up within an hour
		resp := f.do(http.MethodPost, walletLogInPath, walletLogIn(newMessage))
		if resp.StatusCode != http.StatusCreated {
			t.Errorf("sign-up %d: got %d, want 201", i+1, resp.StatusCode)
		}
		read(t, resp)
	}
	wantError(t, f.do(http.MethodPost, walletLogInPath, walletLogIn(newMessage)), http.StatusTooManyRequests,
		"rate_limit_exceeded")
	for i := range 5 { // as many as sign in within a minute, with the five before
		resp := f.do(http.MethodPost, walletLogInPath, walletLogIn(knownMessage))
		if resp.StatusCode != http.StatusOK {
			t.Errorf("sign-in %d: got %d, want 200", i+1, resp.StatusCode)
		}
		read(t, resp)
	}
	wantError(t, f.do(http.MethodPost, walletLogInPath, walletLogIn(knownMessage)), http.StatusTooManyRequests,
		"rate_limit_exceeded")
}

func TestSignUpsPerHourHaveABound(t *testing.T) {
	for n, want := range map[int]bool{0: false, 1: true, 100: true, 101: false} {
		cfg := DefaultConfig()
		cfg.SignUpsPerHour = n
		if err := cfg.Validate(); (err == nil) != want {
			t.Errorf("%d: got the error %v, want none: %t", n, err, want)
		}
	}
}

func TestAWalletIsLinkedToTheUserOfTheToken(t *testing.T) {
	f := start(t, withOrigins)
	session := []string{"Authorization", "Bearer " + sessionToken}
	var asked struct{ Message string }
	wantJSON(t, f.do(http.MethodPost, linkPath+"/challenge", challengeBody, session...), http.StatusOK, &asked)
	if want := consoleOrigin + " " + walletAddress + " for " + userID; asked.Message != want {
		t.Errorf("asked: got %q, want %q", asked.Message, want)
	}
	var linked struct {
		ID      string `json:"identity_id"`
		Subject string
	}
	wantJSON(t, f.do(http.MethodPost, linkPath, walletLogIn(knownMessage), session...), http.StatusOK, &linked)
	if linked.ID != "identity-1" {
		t.Errorf(`linked: got %q, want "identity-1"`, linked.ID)
	}
	if want := userID + " in " + sessionID; linked.Subject != want {
		t.Errorf("linked to: got %q, want %q", linked.Subject, want)
	}
	wantError(t, f.do(http.MethodPost, linkPath, walletLogIn(newMessage), session...), http.StatusConflict,
		"already_exists")
	for _, path := range []string{linkPath, linkPath + "/challenge"} {
		wantError(t, f.do(http.MethodPost, path, challengeBody), http.StatusUnauthorized, "missing_api_key")
	}
}

func TestIdentitiesAreListedAndEnded(t *testing.T) {
	f := start(t)
	session := []string{"Authorization", "Bearer " + sessionToken}
	var all struct {
		Identities []struct {
			ID string `json:"identity_id"`
		}
	}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/user/me/identities", "", session...), http.StatusOK, &all)
	if len(all.Identities) != 1 {
		t.Errorf("identities: got %d, want 1", len(all.Identities))
	}
	wantJSON(t, f.do(http.MethodDelete, "/api/v1/user/me/identities/identity-1", "", session...), http.StatusOK,
		&struct{}{})
	wantError(t, f.do(http.MethodDelete, "/api/v1/user/me/identities/identity-2", "", session...), http.StatusNotFound,
		"identity_not_found")
}
