package edgegateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// ownersCalls are the calls that take a provider key or the session of the provider's owner.
var ownersCalls = []struct{ method, path, body string }{
	{http.MethodGet, agentStatus, ""},
	{http.MethodPut, meURL, `{"beneficiary_address":"0x52908400098527886E0F7030069857D2E4169EE7"}`},
	{http.MethodPost, "/api/v1/provider/request-approval", `{"provider_name":"Farm"}`},
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func TestTheOwnersSessionOpensWhatAProviderKeyOpens(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for _, c := range ownersCalls {
		for name, credential := range map[string][]string{
			"a key": f.asProvider(), "a session": bearer(sessionToken),
			"a session from no page": append(bearer(sessionToken), "Sec-Fetch-Site", "none"),
		} {
			var said struct {
				ProviderID string `json:"provider_id"`
			}
			wantJSON(t, f.do(c.method, c.path, c.body, credential...), http.StatusOK, &said)
			if said.ProviderID != providerA {
				t.Errorf("%s %s by %s: provider: got %q, want %q", c.method, c.path, name, said.ProviderID, providerA)
			}
		}
	}
	if got := f.selves.changedBy(); !slices.Equal(got, []string{userID, userID, userID, userID}) {
		t.Errorf("changes in a user's name: got %q, want 4 of %q", got, userID)
	}
}

func TestAStatusHasOneShapeForAKeyAndForASession(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for name, credential := range map[string][]string{"a key": f.asProvider(), "a session": bearer(sessionToken)} {
		body := wantJSON(t, f.do(http.MethodGet, agentStatus, "", credential...), http.StatusOK, nil)
		newSchemas(t).wantShape(t, name, "#/components/schemas/ProviderStatus", body)
	}
}

// Whatever a caller says besides, the session alone says whose provider it is.
func TestASessionReadsAndChangesItsOwnProviderAlone(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for _, c := range ownersCalls {
		path, body := c.path+"?provider_id="+providerA+"&user_id="+userID, c.body
		if body != "" {
			body = strings.TrimSuffix(body, "}") + `,"provider_id":"` + providerA + `","user_id":"` + userID + `"}`
		}
		var said struct {
			ProviderID string `json:"provider_id"`
		}
		answer := wantJSON(t, f.do(c.method, path, body, append(bearer(bobToken), "X-Svc-User", userID,
			"X-Svc-Provider", providerA)...), http.StatusOK, &said)
		if said.ProviderID != providerB {
			t.Errorf("%s %s: provider: got %q, want %q", c.method, c.path, said.ProviderID, providerB)
		}
		if strings.Contains(answer, providerA) {
			t.Errorf("%s %s: got %s, want nothing of another provider", c.method, c.path, answer)
		}
	}
	if got := f.selves.changedBy(); slices.Contains(got, userID) {
		t.Errorf("changes in a user's name: got %q, want none of %q", got, userID)
	}
}

func TestNoOtherCredentialOpensTheCallsOfAProvidersOwner(t *testing.T) {
	f := start(t)
	cookie := []string{"Cookie", "svc_refresh=" + refreshToken, "Sec-Fetch-Site", "same-origin"}
	for name, c := range map[string]struct {
		credential []string
		status     int
		code       string
	}{
		"nothing":                        {nil, 401, "missing_api_key"},
		"the cookie of a page of ours":   {cookie, 401, "missing_api_key"},
		"a session that was ended":       {bearer(endedToken), 401, "session_expired"},
		"a session that nobody had":      {bearer("stale"), 401, "invalid_api_key"},
		"a consumer key":                 {bearer(f.key), 401, "wrong_key_type"},
		"a user without a provider":      {bearer(sessionToken), 404, "provider_not_found"},
		"an ended session with a cookie": {append(bearer(endedToken), cookie...), 401, "session_expired"},
	} {
		for _, o := range ownersCalls {
			described := operation{method: o.method, path: o.path}
			t.Run(name+" "+described.String(), func(t *testing.T) {
				described.wantError(t, f.do(o.method, o.path, o.body, c.credential...), c.status, c.code)
			})
		}
	}
	if got := f.selves.changedBy(); len(got) != 0 {
		t.Errorf("changes in a user's name: got %q, want none", got)
	}
}

// The owner's key of today is revoked with the removal of the provider; its session is not.
func TestAKeyThatIsRevokedLeavesTheSessionOpen(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	f.selves.set(fault.New(fault.Unauthenticated, fault.KeyRevoked, "gone"),
		hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED)
	for _, o := range ownersCalls {
		described := operation{method: o.method, path: o.path}
		described.wantError(t, f.do(o.method, o.path, o.body, f.asProvider()...), 401, "key_revoked")
		wantJSON(t, f.do(o.method, o.path, o.body, bearer(sessionToken)...), http.StatusOK, nil)
	}
}

// A page of another site can make a browser send a body of a form and cookies, and neither the header
// Authorization nor a body of JSON.
func TestAnotherSitesFormChangesNoProvider(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for _, o := range ownersCalls[1:] {
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			resp := f.do(o.method, o.path, o.body, "Content-Type", kind, "Cookie", "svc_refresh="+refreshToken,
				"Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site")
			operation{method: o.method, path: o.path}.wantError(t, resp, 401, "missing_api_key")
		}
	}
	if got := f.selves.changedBy(); len(got) != 0 {
		t.Errorf("changes in a user's name: got %q, want none", got)
	}
}
