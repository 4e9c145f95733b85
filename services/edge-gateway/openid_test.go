package edgegateway

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

const (
	// logIns is how often a network may sign in within a minute.
	logIns       = 10
	startPath    = "/api/v1/user/oidc/local/start"
	callbackPath = "/api/v1/user/oidc/local/callback"
)

func (p *people) StartOpenID(
	_ context.Context, req *billingv1.StartOpenIDRequest,
) (*billingv1.StartOpenIDResponse, error) {
	if req.GetIssuer() != "local" {
		return nil, fault.New(fault.NotFound, fault.IssuerNotFound, "there is no such issuer")
	}
	return &billingv1.StartOpenIDResponse{Url: "https://id.example.com/auth?state=s", Flow: []byte("a flow"),
		EndsAt: timestamppb.New(time.Now().Add(time.Minute))}, nil
}

func (p *people) GetSignInMethods(
	context.Context, *billingv1.GetSignInMethodsRequest,
) (*billingv1.GetSignInMethodsResponse, error) {
	return &billingv1.GetSignInMethodsResponse{Openid: []*billingv1.OpenIDProvider{{Name: "local", Label: "Local"}}}, nil
}

func TestAnybodyReadsHowToSignInHere(t *testing.T) {
	f := start(t, withOrigins)
	for what, header := range map[string][]string{"nobody": nil, "a wrong key": {"Authorization", "Bearer wrong"}} {
		resp := f.do(http.MethodGet, "/api/v1/user/sign-in-methods", "", header...)
		if got := resp.Header.Get("Cache-Control"); got != "public, max-age=60" {
			t.Errorf("%s: Cache-Control: got %q, want a minute", what, got)
		}
		body := wantJSON(t, resp, http.StatusOK, nil)
		newSchemas(t).wantShape(t, what, "#/components/schemas/SignInMethodsEnvelope", body)
		const want = `{"code":0,"msg":"success","data":{"openid":[{"name":"local","label":"Local"}],"wallet":true,` +
			`"letters":false,"playground":false}}`
		if body != want {
			t.Errorf("%s: got %s, want %s", what, body, want)
		}
	}
}

// StartOpenIDLink has a link of ann in its session.
func (p *people) StartOpenIDLink(
	_ context.Context, req *billingv1.StartOpenIDLinkRequest,
) (*billingv1.StartOpenIDLinkResponse, error) {
	if req.GetIssuer() != "local" {
		return nil, fault.New(fault.NotFound, fault.IssuerNotFound, "there is no such issuer")
	}
	return &billingv1.StartOpenIDLinkResponse{Url: "https://id.example.com/auth?state=l",
		Flow: []byte(req.GetUserId() + " in " + req.GetSessionId()), EndsAt: timestamppb.New(time.Now().Add(time.Minute)),
	}, nil
}

func (p *people) LogInOpenID(
	_ context.Context, req *billingv1.LogInOpenIDRequest,
) (*billingv1.LogInOpenIDResponse, error) {
	switch {
	case req.GetIssuer() != "local":
		return nil, fault.New(fault.NotFound, fault.IssuerNotFound, "there is no such issuer")
	case string(req.GetFlow()) == linkFlow && req.GetCode() == "taken":
		return nil, fault.New(fault.Conflict, fault.AlreadyExists, "user-2 has it")
	case string(req.GetFlow()) == linkFlow && req.GetState() == "l":
		return &billingv1.LogInOpenIDResponse{Linked: &billingv1.UserIdentity{IdentityId: "identity-1"}}, nil
	case string(req.GetFlow()) != "a flow" || req.GetState() != "s" || req.GetCode() == "":
		return nil, fault.New(fault.Unauthenticated, fault.InvalidCredentials, "a secret reason")
	case req.GetCode() == "away":
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "the OpenID provider does not answer")
	case req.GetCode() == "new" && !req.GetOpen():
		return nil, fault.New(fault.NotFound, fault.UserNotFound, "there is no such user")
	}
	return &billingv1.LogInOpenIDResponse{User: p.ann(), RefreshToken: refreshToken,
		RefreshExpiresAt: timestamppb.New(time.Now().Add(time.Hour)), Opened: req.GetCode() == "new"}, nil
}

// unfollowed keeps the client from following redirects.
func (f *fleet) unfollowed() {
	f.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
}

func TestABrowserSignsInAtAnOpenIDProvider(t *testing.T) {
	f := start(t, withOrigins)
	f.unfollowed()
	resp := f.do(http.MethodGet, startPath, "")
	read(t, resp)
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("the start: got %d, want 303", resp.StatusCode)
	}
	if got := resp.Header.Get("Location"); got != "https://id.example.com/auth?state=s" {
		t.Errorf("the start leads to: got %q, want the provider", got)
	}
	cookies := resp.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("cookies: got %d, want 1", len(cookies))
	}
	flow := cookies[0]
	for what, ok := range map[string]bool{
		"HttpOnly": flow.HttpOnly, "Secure": flow.Secure, "SameSite=Lax": flow.SameSite == http.SameSiteLaxMode,
		"without a domain": flow.Domain == "", "for all paths": flow.Path == "/",
		"of this host alone": strings.HasPrefix(flow.Name, "__Host-"),
	} {
		if !ok {
			t.Errorf("the cookie: got %v, want it %s", flow, what)
		}
	}
	resp = f.do(http.MethodGet, callbackPath+"?state=s&code=known&scope=openid&iss=https%3A%2F%2Fid.example.com", "",
		"Cookie", flow.Name+"="+flow.Value)
	read(t, resp)
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("the callback: got %d, want 303", resp.StatusCode)
	}
	if got, want := resp.Header.Get("Location"), consoleOrigin+"/app/"; got != want {
		t.Errorf("the callback leads to: got %q, want %q", got, want)
	}
	kept := map[string]int{}
	for _, c := range resp.Cookies() {
		kept[c.Name+"="+c.Value]++
	}
	if n := kept["svc_refresh="+refreshToken]; n != 2 {
		t.Errorf("the cookie of the session: got %d, want 2 in %v", n, kept)
	}
	if n := kept["__Host-svc_oidc="]; n != 1 {
		t.Errorf("the cookie of the sign-in, deleted: got %d, want 1 in %v", n, kept)
	}
	if log := f.log.String(); strings.Contains(log, "code=known") {
		t.Errorf("the log: got %s, want it without the code", log)
	}
}

// flowKept is the cookie of a flow.
const flowKept = "__Host-svc_oidc=YSBmbG93"

func TestACallbackWithoutItsStartSignsNobodyIn(t *testing.T) {
	f := start(t)
	f.unfollowed()
	const cookie = flowKept
	const asked, refused = http.StatusBadRequest, http.StatusUnauthorized
	for what, c := range map[string]struct {
		query, cookie string
		want          int
	}{
		"no cookie":      {"state=s&code=known", "", refused},
		"two cookies":    {"state=s&code=known", cookie + "; " + cookie, refused},
		"no base64":      {"state=s&code=known", "__Host-svc_oidc=!", refused},
		"another name":   {"state=s&code=known", "svc_oidc=YSBmbG93", refused},
		"no state":       {"code=known", cookie, refused},
		"no code":        {"state=s", cookie, refused},
		"a refusal":      {"state=s&error=access_denied", cookie, refused},
		"a long code":    {"state=s&code=" + strings.Repeat("x", 4097), cookie, asked},
		"a long state":   {"code=known&state=" + strings.Repeat("x", 257), cookie, asked},
		"no text code":   {"state=s&code=%ff", cookie, asked},
		"no text state":  {"state=%ff&code=known", cookie, asked},
		"a long cookie":  {"state=s&code=known", "__Host-svc_oidc=" + strings.Repeat("x", 4097), refused},
		"another state":  {"state=t&code=known", cookie, refused},
		"another cookie": {"state=s&code=known", "__Host-svc_oidc=YSBmbG94", refused},
	} {
		header := []string{}
		if c.cookie != "" {
			header = []string{"Cookie", c.cookie}
		}
		resp := f.do(http.MethodGet, callbackPath+"?"+c.query, "", header...)
		if n := len(resp.Cookies()); n != 0 {
			t.Errorf("%s: cookies: got %d, want 0", what, n)
		}
		if resp.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d", what, resp.StatusCode, c.want)
		}
		if text := read(t, resp); strings.Contains(text, "secret reason") {
			t.Errorf("%s: got %s, want it without the reason", what, text)
		}
	}
}

// browser is what a browser asks for that goes to an address.
var browser = []string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

func TestABrowserWhoseSignInFailsComesToThePageThatSaysWhy(t *testing.T) {
	f := start(t, withOrigins)
	f.unfollowed()
	linking := "__Host-svc_oidc=" + base64.RawURLEncoding.EncodeToString([]byte(linkFlow))
	for what, c := range map[string]struct{ path, cookie, code string }{
		"a refusal":           {callbackPath + "?state=s&error=access_denied", flowKept, "invalid_credentials"},
		"no cookie":           {callbackPath + "?state=s&code=known", "", "invalid_credentials"},
		"an unreadable state": {callbackPath + "?state=%ff&code=known", flowKept, "invalid_request"},
		"a provider away":     {callbackPath + "?state=s&code=away", flowKept, "service_unavailable"},
		"a taken identity":    {callbackPath + "?state=l&code=taken", linking, "already_exists"},
		"an unknown issuer":   {"/api/v1/user/oidc/other/callback?state=s&code=known", flowKept, "issuer_not_found"},
		"a start at none":     {"/api/v1/user/oidc/other/start", "", "issuer_not_found"},
		"a hostile error": {callbackPath + "?state=s&error=https://evil.example.com/%0d%0aSet-Cookie:x=y",
			flowKept, "invalid_credentials"},
	} {
		header := slices.Clone(browser)
		if c.cookie != "" {
			header = append(header, "Cookie", c.cookie)
		}
		resp := f.do(http.MethodGet, c.path, "", header...)
		read(t, resp)
		if resp.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: status: got %d, want 303", what, resp.StatusCode)
		}
		if got, want := resp.Header.Get("Location"), consoleOrigin+"/app/sign-in?error="+c.code; got != want {
			t.Errorf("%s: leads to: got %q, want %q", what, got, want)
		}
		if n := len(resp.Cookies()); n != 0 {
			t.Errorf("%s: cookies: got %d, want 0", what, n)
		}
		if got := resp.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control: got %q, want no-store", what, got)
		}
	}
	if log := f.log.String(); !strings.Contains(log, "code=service_unavailable") {
		t.Errorf("the log: got %s, want the code of what a page shows", log)
	}
}

func TestWithoutOriginsABrowserStaysOnItsSite(t *testing.T) {
	f := start(t)
	f.unfollowed()
	resp := f.do(http.MethodGet, callbackPath+"?state=s", "", append(slices.Clone(browser), "Cookie", flowKept,
		"X-Forwarded-Host", "evil.example.com", "Referer", "https://evil.example.com/")...)
	read(t, resp)
	if got, want := resp.Header.Get("Location"), "/app/sign-in?error=invalid_credentials"; got != want {
		t.Errorf("leads to: got %q, want %q", got, want)
	}
}

func TestAProgramWhoseSignInFailsGetsTheErrorInJSON(t *testing.T) {
	f := start(t, withOrigins)
	f.unfollowed()
	for what, header := range map[string][]string{"no Accept": nil, "JSON": {"Accept", "application/json"},
		"anything": {"Accept", "*/*"}} {
		t.Log(what)
		resp := f.do(http.MethodGet, callbackPath+"?state=s", "", append(slices.Clone(header), "Cookie", flowKept)...)
		wantError(t, resp, http.StatusUnauthorized, "invalid_credentials")
	}
}

func TestARouteOfAnIssuerThatIsNotConfiguredIsNotFound(t *testing.T) {
	f := start(t)
	f.unfollowed()
	for _, path := range []string{"/start", "/callback", "/callback?state=s", "/callback?state=s&code=known"} {
		for _, header := range [][]string{nil, {"Cookie", flowKept}} {
			resp := f.do(http.MethodGet, "/api/v1/user/oidc/other"+path, "", header...)
			wantError(t, resp, http.StatusNotFound, "issuer_not_found")
		}
	}
}

// A page of another site could use up the starts of its visitors' networks.
func TestASignInAtAnOpenIDProviderIsStartedByNavigationAlone(t *testing.T) {
	f := start(t)
	f.unfollowed()
	for what, header := range map[string][]string{
		"a link of another site":    {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
		"an image of another site":  {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		"an image of this site":     {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "no-cors"},
		"a script of this site":     {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"},
		"a mode without its site":   {"Sec-Fetch-Mode", "no-cors"},
		"two modes":                 {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Mode", "cors"},
		"two sites, one of another": {"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"},
	} {
		t.Log(what)
		resp := f.do(http.MethodGet, startPath, "", header...)
		if n := len(resp.Cookies()); n != 0 {
			t.Errorf("%s: cookies: got %d, want 0", what, n)
		}
		wantError(t, resp, http.StatusForbidden, "origin_not_allowed")
	}
	for _, site := range []string{"none", "same-origin", "same-site"} {
		resp := f.do(http.MethodGet, startPath, "", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate")
		read(t, resp)
		if resp.StatusCode != http.StatusSeeOther {
			t.Errorf("a navigation from %s: got %d, want 303", site, resp.StatusCode)
		}
	}
}

// A page of another site has its visitors make callbacks without a flow, as many as it likes, and
// they may sign in all the same.
func TestCallbacksWithoutAFlowOrAStateAreNotCounted(t *testing.T) {
	f := start(t)
	f.unfollowed()
	for range logIns {
		wantError(t, f.do(http.MethodGet, callbackPath+"?state=s&code=x", ""), http.StatusUnauthorized,
			"invalid_credentials")
		wantError(t, f.do(http.MethodGet, callbackPath+"?code=x", "", "Cookie", flowKept), http.StatusUnauthorized,
			"invalid_credentials")
	}
	resp := f.do(http.MethodGet, callbackPath+"?state=s&code=known", "", "Cookie", flowKept)
	read(t, resp)
	if resp.StatusCode != http.StatusSeeOther {
		t.Errorf("a sign-in after them: got %d, want 303", resp.StatusCode)
	}
}

func TestACallbackWithACodeIsCountedWhateverTheProviderAnswers(t *testing.T) {
	f := start(t)
	f.unfollowed()
	for range logIns {
		wantError(t, f.do(http.MethodGet, callbackPath+"?state=s&code=away", "", "Cookie", flowKept),
			http.StatusServiceUnavailable, "service_unavailable")
	}
	wantError(t, f.do(http.MethodGet, callbackPath+"?state=s&code=known", "", "Cookie", flowKept),
		http.StatusTooManyRequests, "rate_limit_exceeded")
}

func TestSignUpsAtOpenIDProvidersAreCountedAndSignInsAreNot(t *testing.T) {
	f := start(t)
	f.unfollowed()
	call := func(code string) int {
		resp := f.do(http.MethodGet, callbackPath+"?state=s&code="+code, "", "Cookie", flowKept)
		read(t, resp)
		return resp.StatusCode
	}
	if got := call("known"); got != http.StatusSeeOther {
		t.Errorf("a sign-in: got %d, want 303", got)
	}
	for i := range 5 { // as many as sign up within an hour
		if got := call("new"); got != http.StatusSeeOther {
			t.Errorf("sign-up %d: got %d, want 303", i+1, got)
		}
	}
	if got := call("new"); got != http.StatusTooManyRequests {
		t.Errorf("one sign-up too many: got %d, want 429", got)
	}
	if got := call("known"); got != http.StatusSeeOther {
		t.Errorf("a sign-in after that: got %d, want 303", got)
	}
}

const (
	linkOpenIDPath = "/api/v1/user/me/identities/oidc/local"
	// linkFlow is the flow of a link that ann has begun in its session.
	linkFlow = userID + " in " + sessionID
)

// annsPage are headers of a page of ours in which ann is signed in.
var annsPage = append([]string{"Authorization", "Bearer " + sessionToken}, fromPage...)

func TestAPageBeginsALinkThatTheCallbackOfItsBrowserEnds(t *testing.T) {
	f := start(t, withOrigins)
	f.unfollowed()
	resp := f.do(http.MethodPost, linkOpenIDPath, "", annsPage...)
	cookies := resp.Cookies()
	var begun struct{ URL string }
	wantJSON(t, resp, http.StatusOK, &begun)
	if begun.URL != "https://id.example.com/auth?state=l" {
		t.Errorf("the browser goes to: got %q, want the provider", begun.URL)
	}
	if len(cookies) != 1 {
		t.Fatalf("cookies: got %d, want 1", len(cookies))
	}
	flow := cookies[0]
	if flow.Name != "__Host-svc_oidc" {
		t.Errorf("the cookie: got the name %q, want __Host-svc_oidc", flow.Name)
	}
	if got, want := flow.Value, base64.RawURLEncoding.EncodeToString([]byte(linkFlow)); got != want {
		t.Errorf("the cookie: got %q, want %q", got, want)
	}
	resp = f.do(http.MethodGet, callbackPath+"?state=l&code=known", "", "Cookie", flow.Name+"="+flow.Value)
	read(t, resp)
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("the callback: got %d, want 303", resp.StatusCode)
	}
	if got, want := resp.Header.Get("Location"), consoleOrigin+"/app/settings"; got != want {
		t.Errorf("the callback leads to: got %q, want %q", got, want)
	}
	kept := []string{}
	for _, c := range resp.Cookies() {
		kept = append(kept, c.Name+"="+c.Value)
	}
	if got, want := strings.Join(kept, " "), flow.Name+"="; got != want {
		t.Errorf("cookies of the callback: got %q, want that of the flow deleted, and no other", got)
	}
	wantError(t, f.do(http.MethodGet, callbackPath+"?state=l&code=known", ""), http.StatusUnauthorized,
		"invalid_credentials")
}

// A page of another site would have the identities of its visitors linked to a user of its own.
func TestALinkIsBegunByAPageOfOursWithATokenAlone(t *testing.T) {
	f := start(t, withOrigins)
	token := annsPage[:2]
	for what, c := range map[string]struct {
		header []string
		status int
		code   string
	}{
		"no token": {fromPage, http.StatusUnauthorized, "missing_api_key"},
		"the cookie of renewal": {append([]string{"Cookie", "svc_refresh=" + refreshToken}, fromPage...),
			http.StatusUnauthorized, "missing_api_key"},
		"a program": {token, http.StatusForbidden, "origin_not_allowed"},
		"a page of another site": {append([]string{"Sec-Fetch-Site", "cross-site"}, token...), http.StatusForbidden,
			"origin_not_allowed"},
		"a page of the same domain": {append([]string{"Sec-Fetch-Site", "same-site", "Origin",
			"https://blog.example.com"}, token...), http.StatusForbidden, "origin_not_allowed"},
	} {
		t.Log(what)
		resp := f.do(http.MethodPost, linkOpenIDPath, "", c.header...)
		if n := len(resp.Cookies()); n != 0 {
			t.Errorf("%s: cookies: got %d, want 0", what, n)
		}
		wantError(t, resp, c.status, c.code)
	}
	wantError(t, f.do(http.MethodPost, "/api/v1/user/me/identities/oidc/other", "", annsPage...), http.StatusNotFound,
		"issuer_not_found")
	wantError(t, f.do(http.MethodGet, linkOpenIDPath, "", annsPage...), http.StatusMethodNotAllowed, "method_not_allowed")
}

func TestALinkOfATakenIdentityDoesNotSayWhoHasIt(t *testing.T) {
	f := start(t)
	f.unfollowed()
	cookie := "__Host-svc_oidc=" + base64.RawURLEncoding.EncodeToString([]byte(linkFlow))
	resp := f.do(http.MethodGet, callbackPath+"?state=l&code=taken", "", "Cookie", cookie)
	text := read(t, resp)
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("got %d, want 409", resp.StatusCode)
	}
	if !strings.Contains(text, "already_exists") {
		t.Errorf("got %s, want it to say already_exists", text)
	}
	if strings.Contains(text, "user-2") {
		t.Errorf("got %s, want it without the user", text)
	}
}

func TestTheStartsOfLinksAndOfSignInsAreBoundedTogether(t *testing.T) {
	f := start(t, withOrigins)
	f.unfollowed()
	for i := range 30 {
		resp := f.do(http.MethodPost, linkOpenIDPath, "", annsPage...)
		read(t, resp)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("link %d: got %d, want 200", i+1, resp.StatusCode)
		}
		resp = f.do(http.MethodGet, startPath, "")
		read(t, resp)
		if resp.StatusCode != http.StatusSeeOther {
			t.Fatalf("sign-in %d: got %d, want 303", i+1, resp.StatusCode)
		}
	}
	wantError(t, f.do(http.MethodPost, linkOpenIDPath, "", annsPage...), http.StatusTooManyRequests,
		"rate_limit_exceeded")
}
