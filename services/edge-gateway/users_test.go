package edgegateway

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// GetMe shows the user that the call's metadata names.
func (p *people) GetMe(ctx context.Context, _ *billingv1.GetMeRequest) (*billingv1.GetMeResponse, error) {
	who, ok := serve.User(ctx)
	if !ok {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "nobody is named")
	}
	return &billingv1.GetMeResponse{User: &billingv1.User{UserId: who.User, AccountId: who.Account}}, nil
}

func (p *people) ListSessions(
	context.Context, *billingv1.ListSessionsRequest,
) (*billingv1.ListSessionsResponse, error) {
	return &billingv1.ListSessionsResponse{}, nil
}

func TestARouteOfUsersIsServedForTheUserOfTheToken(t *testing.T) {
	f := start(t)
	var me struct {
		User struct {
			ID      string `json:"user_id"`
			Account string `json:"account_id"`
		}
	}
	forged := []string{"Authorization", "Bearer " + sessionToken, "X-Svc-User", "somebody", "X-Svc-Account", "else",
		"Grpc-Metadata-X-Svc-User", "somebody"}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/user/me", "", forged...), 200, &me)
	if me.User.ID != userID {
		t.Errorf("me.User.ID: got %q, want %q", me.User.ID, userID)
	}
	if me.User.Account != "account-1" {
		t.Errorf(`me.User.Account: got %q, want "account-1"`, me.User.Account)
	}
}

// The refresh tokens of the people: the first is given by signing in, the second by a
// refresh.
const (
	refreshToken     = "refresh-token-of-ann"
	nextRefreshToken = "next-refresh-token-of-ann"
)

func (p *people) RefreshSession(
	_ context.Context, req *billingv1.RefreshSessionRequest,
) (*billingv1.RefreshSessionResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if req.GetRefreshToken() != refreshToken {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "no such session %s", req.GetRefreshToken())
	}
	return &billingv1.RefreshSessionResponse{User: p.ann(), Token: sessionToken, ExpiresAt: timestamppb.Now(),
		RefreshToken: nextRefreshToken, RefreshExpiresAt: timestamppb.New(time.Now().Add(time.Hour))}, nil
}

func (p *people) EndSession(
	_ context.Context, req *billingv1.EndSessionRequest,
) (*billingv1.EndSessionResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, req)
	return &billingv1.EndSessionResponse{}, nil
}

func (p *people) AskPasswordReset(
	context.Context, *billingv1.AskPasswordResetRequest,
) (*billingv1.AskPasswordResetResponse, error) {
	return &billingv1.AskPasswordResetResponse{}, nil
}

func (p *people) ResetPassword(
	context.Context, *billingv1.ResetPasswordRequest,
) (*billingv1.ResetPasswordResponse, error) {
	return &billingv1.ResetPasswordResponse{}, nil
}

func (p *people) ConfirmEmail(
	context.Context, *billingv1.ConfirmEmailRequest,
) (*billingv1.ConfirmEmailResponse, error) {
	return &billingv1.ConfirmEmailResponse{}, nil
}

const logInBody = `{"email":"ann@example.org","password":"correct horse"}`

// fromPage are headers that a browser adds for a page of ours.
var fromPage = []string{"Sec-Fetch-Site", "same-origin"}

func TestAPageThatSignsInGetsACookieForTwoRoutesAndAProgramNone(t *testing.T) {
	f := start(t)
	for what, header := range map[string][]string{"a program": nil, "another site": {"Sec-Fetch-Site", "cross-site"}} {
		resp := f.do(http.MethodPost, "/api/v1/user/login", logInBody, header...)
		read(t, resp)
		if got := resp.Header.Values("Set-Cookie"); len(got) != 0 {
			t.Errorf("%s: cookies: got %q, want none", what, got)
		}
	}
	resp := f.do(http.MethodPost, "/api/v1/user/login", logInBody, fromPage...)
	body := read(t, resp)
	if strings.Contains(body, refreshToken) {
		t.Errorf("the body: got %s, want no refresh token", body)
	}
	paths := map[string]bool{}
	for _, c := range resp.Cookies() {
		paths[c.Path] = true
		if c.Name != "svc_refresh" || c.Value != refreshToken {
			t.Errorf("the cookie: got %s=%s, want the refresh token", c.Name, c.Value)
		}
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Domain != "" {
			t.Errorf("the cookie: got %v, want HttpOnly, Secure, SameSite=Lax and no domain", c)
		}
	}
	if len(paths) != 2 || !paths["/api/v1/user/refresh"] || !paths["/api/v1/user/logout"] {
		t.Errorf("the cookie's paths: got %v, want those of refresh and logout", paths)
	}
}

// Hostile test 11: no page of another site, no link, form or picture, uses the cookie.
func TestOnlyAPageOfOursUsesTheCookie(t *testing.T) {
	f := start(t, func(c *Config) { c.Origins = "https://console.example.com" })
	cookie := []string{"Cookie", "svc_refresh=" + refreshToken}
	for what, header := range map[string][]string{
		"no header": {}, "another site": {"Sec-Fetch-Site", "cross-site"}, "a neighbour": {"Sec-Fetch-Site", "same-site"},
		"a typed address":     {"Sec-Fetch-Site", "none"},
		"another origin":      {"Origin", "https://evil.example.com"},
		"no origin":           {"Origin", "null"},
		"an origin's prefix":  {"Origin", "https://console.example.com.evil.example"},
		"a plain origin":      {"Origin", "http://console.example.com"},
		"two origins":         {"Origin", "https://console.example.com", "Origin", "https://evil.example.com"},
		"a referrer of ours":  {"Referer", "https://console.example.com/"},
		"a host that is said": {"X-Forwarded-Host", "console.example.com"},
	} {
		for _, path := range []string{"/api/v1/user/refresh", "/api/v1/user/logout"} {
			resp := f.do(http.MethodPost, path, `{}`, append(header, cookie...)...)
			if got := resp.Header.Values("Set-Cookie"); len(got) != 0 {
				t.Errorf("%s, %s: cookies: got %q, want none", what, path, got)
			}
			wantError(t, resp, http.StatusForbidden, "origin_not_allowed")
		}
	}
	for _, path := range []string{"/api/v1/user/refresh", "/api/v1/user/logout"} {
		wantError(t, f.do(http.MethodGet, path, "", append(fromPage, cookie...)...), http.StatusMethodNotAllowed,
			"method_not_allowed")
	}
	if len(f.people.ended) != 0 {
		t.Errorf("sessions ended: got %d, want 0", len(f.people.ended))
	}
	for what, header := range map[string][]string{
		"a page of ours":        fromPage,
		"a page of the console": {"Origin", "https://console.example.com", "Sec-Fetch-Site", "same-site"},
	} {
		resp := f.do(http.MethodPost, "/api/v1/user/refresh", "", append(header, cookie...)...)
		var session struct{ Token string }
		wantJSON(t, resp, http.StatusOK, &session)
		if session.Token != sessionToken {
			t.Errorf("%s: the token: got %q, want %q", what, session.Token, sessionToken)
		}
		for _, c := range resp.Cookies() {
			if c.Value != nextRefreshToken {
				t.Errorf("%s: the next cookie: got %q, want %q", what, c.Value, nextRefreshToken)
			}
		}
	}
	wantError(t, f.do(http.MethodPost, "/api/v1/user/refresh", "", append(fromPage, "Cookie",
		"svc_refresh="+refreshToken+"; svc_refresh=other")...), http.StatusUnauthorized, "invalid_session")
}

func TestSigningOutIsByTokenOrByCookie(t *testing.T) {
	f := start(t)
	token, cookie := apikey.Sum(sessionToken), apikey.Sum(refreshToken)
	read(t, f.do(http.MethodPost, "/api/v1/user/logout", "", "Authorization", "Bearer "+sessionToken))
	read(t, f.do(http.MethodPost, "/api/v1/user/logout", `{"everywhere":true}`, append(fromPage, "Cookie",
		"svc_refresh="+refreshToken)...))
	if len(f.people.ended) != 2 {
		t.Fatalf("sessions ended: got %d, want 2", len(f.people.ended))
	}
	if got := f.people.ended[0]; !bytes.Equal(got.GetTokenDigest(), token[:]) || got.GetEverywhere() {
		t.Errorf("by token: got %v, want the digest of the token, here", got)
	}
	if got := f.people.ended[1]; !bytes.Equal(got.GetRefreshDigest(), cookie[:]) || !got.GetEverywhere() {
		t.Errorf("by cookie: got %v, want the digest of the cookie, everywhere", got)
	}
}

// Whatever else a browser sends, no route but two takes the cookie for a proof of anything.
func TestNoOtherRouteTakesTheCookie(t *testing.T) {
	f := surfaceFleet(t)
	header := append([]string{"Cookie", "svc_refresh=" + refreshToken + "; session=" + sessionToken}, fromPage...)
	walked := 0
	for _, o := range operations(t) {
		if o.keyless || o.template == "/api/v1/user/logout" {
			continue
		}
		walked++
		o.wantError(t, f.ask(o, header...), http.StatusUnauthorized, "missing_api_key")
	}
	if walked < 50 {
		t.Errorf("routes: got %d, want at least 50", walked)
	}
}

func TestNoTokenIsLogged(t *testing.T) {
	f := start(t)
	cookie := append([]string{"Cookie", "svc_refresh=" + refreshToken}, fromPage...)
	read(t, f.do(http.MethodPost, "/api/v1/user/login", logInBody, fromPage...))
	read(t, f.do(http.MethodPost, "/api/v1/user/refresh", "", cookie...))
	read(t, f.do(http.MethodPost, "/api/v1/user/refresh?token="+refreshToken, "", "Cookie",
		"svc_refresh="+refreshToken+"x", "Sec-Fetch-Site", "same-origin"))
	read(t, f.do(http.MethodPost, "/api/v1/user/password/reset",
		`{"token":"`+refreshToken+`","new_password":"correct horse"}`))
	read(t, f.do(http.MethodPost, "/api/v1/user/email/confirm", `{"token":"`+refreshToken+`"}`))
	read(t, f.do(http.MethodPost, "/api/v1/user/logout", "", cookie...))
	log := f.log.String()
	for _, secret := range []string{refreshToken, nextRefreshToken, sessionToken, "correct horse"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

func TestALetterIsAskedForAlike(t *testing.T) {
	f := start(t)
	var answers []string
	for _, email := range []string{"ann@example.org", "nobody@example.org"} {
		resp := f.do(http.MethodPost, "/api/v1/user/password/forgot", `{"email":"`+email+`"}`)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d, want 200", email, resp.StatusCode)
		}
		answers = append(answers, read(t, resp))
	}
	if answers[0] != answers[1] {
		t.Errorf("the answers: got %q and %q, want the same", answers[0], answers[1])
	}
}
